"""What sums may be: the range of what an instruction adds up, checked against int32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import INT32_MAX, INT32_MIN
from calib8.program.ops.step import Step
from calib8.program.slot import Slot

Ints = npt.NDArray[np.int64]
LEVELS: Final = 255
"""Largest unsigned code."""

RECALIBRATE: Final = "Weights, biases or scales are far out of range: quantize the model again"


@dataclass(frozen=True, eq=False)
class Interval:
    """Smallest and largest sum, int64 [1] or [channels of the last axis]."""

    low: Ints
    high: Ints

    @classmethod
    def of(cls, low: int, high: int) -> Interval:
        """The same for all channels."""
        return cls(np.array([low], np.int64), np.array([high], np.int64))

    @property
    def largest(self) -> Ints:
        """Magnitudes."""
        return np.maximum(-self.low, self.high)


ANY_SUM: Final = Interval.of(INT32_MIN, INT32_MAX)


def code_steps(slot: Slot) -> tuple[int, int]:
    """Range of ``code − zero_point``."""
    limits = np.iinfo(slot.dtype)
    return int(limits.min) - slot.zero_point, int(limits.max) - slot.zero_point


def product(a: tuple[int, int], b: tuple[int, int]) -> Interval:
    """One of each."""
    ends = [x * y for x in a for y in b]
    return Interval.of(min(ends), max(ends))


def total(step: Step, count: int) -> Interval:
    """Sums of ``count`` codes, with the zero point taken off or not: at most 255 each.

    Raises:
        ModelError: they may leave int32.
    """
    check_sums(step, np.array([LEVELS * count]), f"sums of {count} codes")
    below, above = code_steps(step.inputs[0])
    return Interval.of(count * below, count * above)


def check_sums(step: Step, magnitudes: Ints, what: str) -> None:
    """Refuses magnitudes, per channel, beyond int32.

    Raises:
        ModelError: names the channel and the largest sum.
    """
    channel = int(magnitudes.argmax())
    if magnitudes[channel] > INT32_MAX:
        where = f" of output channel {channel}" if magnitudes.size > 1 else ""
        raise step.error(f"{what}{where} reach {magnitudes[channel]}, beyond int32", RECALIBRATE)


def moved(step: Step, instruction: Any, inputs: Sequence[Interval]) -> Interval | None:
    """What an instruction without products writes: the sums that it reads, or none."""
    if step.output.dtype != "int32":
        return None
    lows, highs = zip(*((int(i.low.min()), int(i.high.max())) for i in inputs), strict=True)
    return Interval.of(min(lows), max(highs))
