"""An array in codes: ``real = scale · (code − zero_point)``, one scale for all of it or one per channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

BLOCK: Final = 2**20
"""Elements of an array that are looked at together: what is computed of them takes little memory then."""


@dataclass(frozen=True)
class CodedArray:
    """Codes and what they stand for.

    Attributes:
        values: the codes, of an integer type.
        scale: float, > 0: of shape [] for all codes, or one per entry of ``axis``.
        zero_point: integers, of shape [] or as many as the scales.
        axis: the channels' axis, counted from the front; None where there is one scale for all.
    """

    values: npt.NDArray[Any]
    scale: npt.NDArray[np.floating]
    zero_point: npt.NDArray[Any] | int = 0
    axis: int | None = None

    def __post_init__(self) -> None:
        """Refuses scales that do not belong to the codes."""
        if self.values.dtype.kind not in "iu":
            raise ValueError(f"codes are integers, not {self.values.dtype}")
        wanted = () if self.axis is None else (self.values.shape[self.axis],)
        if self.scale.shape != wanted or np.shape(self.zero_point) not in ((), wanted):
            shapes = f"{self.scale.shape} and {np.shape(self.zero_point)}"
            raise ValueError(f"scale and zero point have shape {shapes}, not {wanted}")
        if not np.all(self.scale > 0):
            raise ValueError("a scale is not above 0")

    @property
    def centred(self) -> npt.NDArray[np.int64]:
        """The codes less their zero points."""
        return np.asarray(self.values.astype(np.int64) - self.along(self.zero_point))

    @property
    def real(self) -> Doubles:
        """What the codes stand for, float64: exact for 8-bit codes and float32 scales."""
        return np.asarray(self.centred * self.along(self.scale.astype(np.float64)))

    @property
    def floats(self) -> npt.NDArray[np.float32]:
        """What DequantizeLinear makes of the codes: ``fl(scale · float32(code − zero_point))``."""
        with np.errstate(over="ignore"):
            return np.asarray(self.centred.astype(np.float32) * self.along(self.scale.astype(np.float32)))

    def channel_scales(self, axis: int) -> npt.NDArray[np.floating]:
        """The scale of every entry of an axis, also where all have one."""
        return np.ascontiguousarray(np.broadcast_to(self.scale, self.values.shape[axis]))

    def along(self, numbers: npt.NDArray[Any] | int) -> npt.NDArray[Any]:
        """A number for all, or one per entry of ``axis``, in a shape that broadcasts against the codes."""
        array = np.asarray(numbers)
        if self.axis is None or array.ndim == 0:
            return array
        return array.reshape([-1 if index == self.axis else 1 for index in range(self.values.ndim)])


def channel_blocks(values: npt.NDArray[Any], axis: int) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """The array in blocks of whole channels: which channels, and a view of them."""
    count = values.shape[axis]
    step = max(1, BLOCK * count // max(values.size, 1))
    before = (slice(None),) * axis
    for first in range(0, count, step):
        part = slice(first, min(first + step, count))
        yield part, values[(*before, part)]
