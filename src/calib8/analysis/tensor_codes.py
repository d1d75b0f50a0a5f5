"""What the codes of a tensor stand for, per tensor or channel: ``real = scale · (code − zero_point)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.qparams import INT8, UINT8, QParams, QuantSpec, dequantize, quantize, representable_range
from calib8.quantization.qdq import Codes

F32 = npt.NDArray[np.float32]

SPECS: Final[dict[ir.DataType, QuantSpec]] = {
    ir.DataType.UINT8: UINT8,
    ir.DataType.INT8: INT8,
    ir.DataType.UINT16: QuantSpec(bits=16, signed=False),
    ir.DataType.INT16: QuantSpec(bits=16, signed=True),
}
"""Types of codes that can be looked at."""


@dataclass(frozen=True)
class TensorCode:
    """Scale and zero point of a tensor.

    Attributes:
        scale: float32 values > 0: one, or one per channel.
        zero_point: as many.
        axis: the channels' axis; means nothing for one scale.
        spec: type of the codes.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    spec: QuantSpec

    @property
    def representable(self) -> tuple[float, float]:
        """Smallest and largest value that any code stands for."""
        pairs = zip(self.scale, self.zero_point, strict=True)
        ends = [representable_range(QParams(scale, point), self.spec) for scale, point in pairs]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """The scales are as many as the channels of an array of this shape."""
        channels = len(self.scale)
        return channels == 1 or (-len(shape) <= self.axis < len(shape) and shape[self.axis] == channels)

    def rounded(self, values: F32) -> F32:
        """What QuantizeLinear and DequantizeLinear make of an array."""
        scale = self._along_axis(self.scale, np.float32, values)
        return self.real(quantize(values, scale, self._points(values), self.spec))

    def real(self, codes: npt.NDArray[Any]) -> F32:
        """float32 values of an array of codes."""
        return dequantize(codes, self._along_axis(self.scale, np.float32, codes), self._points(codes))

    def clipped(self, values: F32) -> int:
        """How many values lie more than half a step outside of what their codes represent."""
        scale = self._along_axis(self.scale, np.float64, values)
        points = self._points(values)
        below = (scale * (self.spec.qmin - 0.5 - points)).astype(np.float32)
        above = (scale * (self.spec.qmax + 0.5 - points)).astype(np.float32)
        return int(np.count_nonzero(values < below)) + int(np.count_nonzero(values > above))

    def vanished(self, values: F32) -> int:
        """How many values that are not 0 lie less than half a step from it."""
        half = (0.5 * self._along_axis(self.scale, np.float64, values)).astype(np.float32)
        return int(np.count_nonzero(values)) - int(np.count_nonzero(np.abs(values) >= half))

    def _points(self, array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return self._along_axis(self.zero_point, np.int64, array)

    def _along_axis(self, numbers: tuple[Any, ...], dtype: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The numbers in a shape that broadcasts against ``array``."""
        if len(numbers) == 1:
            return np.asarray(numbers[0], dtype)
        sizes = [1] * array.ndim
        sizes[self.axis] = len(numbers)
        return np.asarray(numbers, dtype).reshape(sizes)


def tensor_code(codes: Codes) -> TensorCode | None:
    """What a QuantizeLinear says; None where it is computed, in blocks, or of a type not in ``SPECS``."""
    if codes.scale is None or codes.zero_point is None or codes.dtype not in SPECS or codes.scale.ndim > 1:
        return None
    scale, points = codes.scale.astype(np.float32).reshape(-1), codes.zero_point.reshape(-1)
    if scale.size != points.size:
        return None
    return TensorCode(
        tuple(float(value) for value in scale),
        tuple(int(value) for value in points),
        codes.axis,
        SPECS[codes.dtype],
    )
