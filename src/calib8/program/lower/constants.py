"""Constants of the graph, float or in codes behind a DequantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import constant
from calib8.quantization.qdq import constant_codes_of, dequantizer


def coded_constant(value: ir.Value | None) -> CodedArray | None:
    """Codes behind a DequantizeLinear of constants, None for anything else.

    The scale of a single channel counts as the scale of all codes.
    """
    node = dequantizer(value)
    found = None if node is None else constant_codes_of(node)
    if found is None or found.scale.size > 1:
        return found
    point = np.reshape(found.zero_point, ())
    return CodedArray(found.values, found.scale.reshape(()), point)


def fixed(value: ir.Value | None) -> npt.NDArray[Any] | None:
    """The array behind a value that never changes, dequantized if it is in codes; None for other values."""
    array = constant(value)
    if array is not None:
        return array
    coded = coded_constant(value)
    return None if coded is None else coded.floats


def is_fixed(value: ir.Value | None) -> bool:
    """The value never changes."""
    return value is not None and (constant(value) is not None or coded_constant(value) is not None)
