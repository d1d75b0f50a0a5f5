"""Constants of the graph, float or in codes behind a DequantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant
from calib8.program.rules import F32
from calib8.qparams import dequantize
from calib8.quantization.qdq import codes_of, dequantizer


@dataclass(frozen=True, eq=False)
class CodedConstant:
    """Constant codes: ``scale[c] · (codes − zero_point[c])``.

    Attributes:
        codes: integers of any width, axes as in the model.
        scales: float32 [1] or [size of ``axis``].
        zero_points: int64, of the same shape.
        axis: along which scales and zero points vary, ≥ 0; None: per-tensor.
    """

    codes: npt.NDArray[Any]
    scales: F32
    zero_points: npt.NDArray[np.int64]
    axis: int | None


def coded_constant(value: ir.Value | None) -> CodedConstant | None:
    """The codes behind a DequantizeLinear of constants; None for anything else."""
    node = dequantizer(value)
    codes = None if node is None else constant(node.inputs[0])
    if node is None or codes is None:
        return None
    found = codes_of(node)
    if found.scale is None or found.zero_point is None or found.scale.ndim > 1:
        return None
    scales = found.scale.reshape(-1).astype(np.float32)
    axis = None if scales.size == 1 else found.axis % codes.ndim
    if axis is not None and codes.shape[axis] != scales.size:
        return None
    return CodedConstant(codes, scales, found.zero_point.reshape(-1), axis)


def fixed(value: ir.Value | None) -> npt.NDArray[Any] | None:
    """The array behind a value that never changes, dequantized if it is in codes; None for other values."""
    array = constant(value)
    if array is not None:
        return array
    coded = coded_constant(value)
    if coded is None:
        return None
    shape = [1] * coded.codes.ndim
    if coded.axis is not None:
        shape[coded.axis] = -1
    scales, points = coded.scales.reshape(shape), coded.zero_points.reshape(shape)
    return dequantize(coded.codes, scales, points).reshape(coded.codes.shape)


def is_fixed(value: ir.Value | None) -> bool:
    """The value never changes."""
    return value is not None and (constant(value) is not None or coded_constant(value) is not None)
