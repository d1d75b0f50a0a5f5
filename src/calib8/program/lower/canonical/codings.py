"""What codes stand behind a value: scale, zero point and type, per-tensor or of a constant per channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import constant, input_at
from calib8.ops.questions import is_quantizer, quantizes
from calib8.qparams import FLOAT32_MAX, FLOAT32_TINY, dequantize
from calib8.quantization.qdq import codes_of, constant_codes_of, dequantizer

BYTE_TYPES: Final = (ir.DataType.UINT8, ir.DataType.INT8)
"""Codes of 8 bits, which alone weights have."""

CODE_TYPES: Final = (*BYTE_TYPES, ir.DataType.INT16)
PLAIN_TYPES: Final = (*CODE_TYPES, ir.DataType.INT32)
"""What constants are coded in; int32 is for biases."""


def are_scales(numbers: npt.NDArray[np.floating]) -> bool:
    """Whether all can be scales: float32 numbers above 0 that are not subnormal."""
    return bool(np.all((numbers >= FLOAT32_TINY) & (numbers <= FLOAT32_MAX)))


@dataclass(frozen=True)
class Coding:
    """One scale and zero point of codes.

    Attributes:
        scale: a float32 value, > 0.
        zero_point: within ``dtype``.
        dtype: UINT8, INT8 or INT16.
        parameters: the initializers of scale and zero point.
    """

    scale: float
    zero_point: int
    dtype: ir.DataType
    parameters: tuple[ir.Value, ir.Value] = field(compare=False)

    @property
    def lowest(self) -> int:
        """Smallest code of the type."""
        return int(np.iinfo(self.dtype.numpy()).min)

    @property
    def highest(self) -> int:
        """Largest code of the type."""
        return int(np.iinfo(self.dtype.numpy()).max)

    def real(self, code: int) -> float:
        """float32 value of a code."""
        return float(dequantize(np.array(code, np.int64), self.scale, self.zero_point))

    def holds(self, value: float) -> bool:
        """Some code stands for exactly this value."""
        step = np.rint(np.float32(value) / np.float32(self.scale))
        code = float(step) + self.zero_point
        return bool(self.lowest <= code <= self.highest) and self.real(int(code)) == value


def coding_of(node: ir.Node | None) -> Coding | None:
    """Coding of a QuantizeLinear or DequantizeLinear with one constant scale and zero point, else None."""
    if node is None or not is_quantizer(node) or node.domain != "":
        return None
    codes, scale, point = codes_of(node), node.inputs[1], input_at(node, 2)
    if codes.scale is None or codes.zero_point is None or scale is None or point is None:
        return None
    if codes.scale.ndim > 0 or codes.dtype not in CODE_TYPES or codes.dtype is None:
        return None
    return Coding(float(codes.scale), int(codes.zero_point), codes.dtype, (scale, point))


def source_coding(value: ir.Value | None) -> Coding | None:
    """Coding of the DequantizeLinear that yields a value; None for values of any other origin."""
    return coding_of(dequantizer(value))


def reader_codings(value: ir.Value) -> list[Coding | None]:
    """For every read of a value the coding of the QuantizeLinear, None for other readers.

    A graph output counts as another reader.
    """
    found = [coding_of(use.node) if quantizes(use.node) and use.idx == 0 else None for use in value.uses()]
    return [*found, None] if value.is_graph_output() else found


def constant_codes(value: ir.Value | None) -> CodedArray | None:
    """The constant codes that a DequantizeLinear turns into ``value``, None where there are none.

    uint8, int8, int16 or int32; the scales are float32, the zero points int64 of their shape.
    """
    node = dequantizer(value)
    if node is None or codes_of(node).dtype not in PLAIN_TYPES:
        return None
    return constant_codes_of(node)


def real_constant(value: ir.Value | None) -> npt.NDArray[np.float32] | None:
    """A constant as float32, whether it is stored so or as codes; None where the value is computed."""
    array = constant(value)
    if array is not None:
        return np.asarray(array, np.float32)
    codes = constant_codes(value)
    return None if codes is None else codes.floats
