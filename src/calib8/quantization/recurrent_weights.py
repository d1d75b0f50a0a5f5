"""Weights of LSTM, GRU and RNN as int8 codes behind DequantizeLinear, one scale for every gate and unit.

W float32 [1, G·H, I]   →   int8 ─► DequantizeLinear(axis 1) ─► the node
W float32 [2, G·H, I]   →   two of them ─► Concat(axis 0) ─► the node
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import Names, constant, register_constant
from calib8.passes.recurrent_nodes import WEIGHTS, is_recurrent
from calib8.qparams import INT8_SYMMETRIC
from calib8.quantization.weights import quantize_weight, weight_scales

ROWS: Final = 1
"""Axis of the gates and units of one direction, [1, G·H, K]."""


def quantize_recurrent_weights(names: Names, quantized: Collection[str], *, per_gate: bool = False) -> None:
    """W and R of the named nodes become codes; biases, peepholes and states stay float.

    ``per_gate``: all units of a gate have one scale, as layers of integers have it.
    """
    for node in list(names.graph):
        if is_recurrent(node) and node.name in quantized:
            gates = _gates(node) if per_gate else None
            for place in WEIGHTS:
                _quantize(names, node, place, gates)


def _gates(node: ir.Node) -> int:
    """How many there are, of R [D, G·H, H]."""
    recurrent = constant(node.inputs[WEIGHTS[1]])
    assert recurrent is not None
    return int(recurrent.shape[1] // recurrent.shape[2])


def coded_rows(weight: npt.NDArray[np.float32], gates: int | None = None) -> CodedArray:
    """Codes of the rows of one direction, [1, G·H, K]; with ``gates`` one scale for each of so many."""
    scale = weight_scales(weight, ROWS, INT8_SYMMETRIC)
    if gates is not None:
        largest = scale.reshape(gates, -1).max(axis=1)
        scale = np.repeat(largest, scale.size // gates)
    return CodedArray(quantize_weight(weight, scale, ROWS, INT8_SYMMETRIC), scale, axis=ROWS)


def _quantize(names: Names, node: ir.Node, place: int, gates: int | None) -> None:
    old = node.inputs[place]
    weight = constant(old)
    assert old is not None and weight is not None
    parts = []
    for d in range(len(weight)):
        stem = names.value(f"{old.name}/codes")
        parts.append(_dequantized(names, node, coded_rows(weight[d : d + 1].astype(np.float32), gates), stem))
    result = parts[0]
    if len(parts) > 1:
        join = ir.node("Concat", parts, {"axis": 0}, name=names.node(f"{old.name}/Concat"))
        result = join.outputs[0]
        result.name = names.value(f"{old.name}/dequantized")
        result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape(weight.shape)
        names.graph.insert_before(node, join)
    node.replace_input_with(place, result)
    if not list(old.uses()):
        names.graph.initializers.pop(old.name or "", None)


def _dequantized(names: Names, node: ir.Node, coded: CodedArray, stem: str) -> ir.Value:
    """A DequantizeLinear of the codes before a node."""
    inputs = [
        register_constant(names.graph, stem, coded.values),
        names.constant(f"{stem}/scale", coded.scale),
        names.constant(f"{stem}/zero_point", np.zeros(coded.scale.shape, np.int8)),
    ]
    made = ir.node("DequantizeLinear", inputs, {"axis": ROWS}, name=names.node(f"{stem}/DequantizeLinear"))
    result = made.outputs[0]
    result.name = names.value(f"{stem}/dequantized")
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape(coded.values.shape)
    names.graph.insert_before(node, made)
    return result
