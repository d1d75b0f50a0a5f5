"""How far the weight of an int8 layer is from the float one: rounding and clipping, and nothing of the data.

sqnr_db = 10 log10( Σ w² / Σ (w − s_c·(q − z_c))² )
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.counterparts import Counterpart
from calib8.analysis.float_reference import FloatReference
from calib8.analysis.noise import DistanceSums
from calib8.analysis.tensor_codes import tensor_code
from calib8.model.graph import constant
from calib8.model.layer import Layer, layer_of
from calib8.quantization.qdq import codes_of, dequantizer, float_origin


def weight_sqnr_db(int8: ir.Model, layer: Counterpart, reference: FloatReference) -> float | None:
    """SQNR of the layer's weight in dB, inf if it is exact; None without a weight in codes to compare.

    Args:
        int8: the QDQ graph.
        layer: what ``find_counterparts`` found in it.
        reference: the float model.
    """
    node = node_of(int8, layer)
    stored = None if node is None else stored_weight(node)
    if stored is None or layer.reference is None:
        return None
    original = reference.constants(layer.reference, stored.shape)
    if original is None:
        return None
    sums = DistanceSums()
    sums.add(np.ascontiguousarray(original.weight, np.float32), np.ascontiguousarray(stored))
    return sums.distance().sqnr_db


def node_of(model: ir.Model, layer: Counterpart) -> Layer | None:
    """The node of a counterpart, as a layer if it is one with a weight."""
    found = (node for node in model.graph if node.outputs and node.outputs[0].name == layer.output)
    return layer_of(next(found, None))


def stored_weight(layer: Layer) -> npt.NDArray[np.float32] | None:
    """What the codes of a layer's weight stand for, also where Q and DQ follow a float constant."""
    value, source = layer.weight, dequantizer(layer.weight)
    code = None if source is None else tensor_code(codes_of(source))
    if value is None or source is None or code is None:
        return None
    stored = constant(source.inputs[0])
    array = constant(float_origin(value)) if stored is None else stored
    if array is None or not code.fits(array.shape):
        return None
    return code.rounded(array.astype(np.float32)) if stored is None else code.real(array)
