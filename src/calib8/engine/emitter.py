"""The plan while it grows: where slots lie, steps, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine.fields import NO_VIEW, View
from calib8.engine.fuse import Work
from calib8.engine.layout import Layout
from calib8.engine.steps import Step
from calib8.program.instructions import Instruction
from calib8.program.program import Program, Slot

CONSTANT_ALIGNMENT: Final = 64

LEAST_ROOM: Final = 1 << 16
"""Bytes of constants that there is room for from the start."""


class Constants:
    """The constants of a plan while it grows: written once, where they stay.

    What was asked for and is not written yet takes no memory.
    """

    def __init__(self, expected: int) -> None:
        """Room for so many bytes; more is found when it is needed."""
        self._memory = aligned_bytes(expected + LEAST_ROOM)
        self._used = 0

    def room(self, size: int) -> tuple[int, npt.NDArray[np.uint8]]:
        """Byte offset of zeros that may be filled until more are asked for, 64-byte aligned; and these."""
        offset = self._used
        self._used += size + -size % CONSTANT_ALIGNMENT
        if self._used > self._memory.size - CONSTANT_ALIGNMENT:
            larger = aligned_bytes(2 * self._used)
            larger[:offset] = self._memory[:offset]
            self._memory = larger
        return offset, self._memory[offset : offset + size]

    def whole(self) -> npt.NDArray[np.uint8]:
        """All of them, with 64 bytes of zeros behind; nothing is added any more."""
        return self._memory[: self._used + CONSTANT_ALIGNMENT]


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Zeros whose first byte lies on a cache line, with 64 more behind them."""
    memory = np.zeros(size + 128, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size + 64]


@dataclass
class Emitter:
    """What the functions that emit steps share.

    Attributes:
        program: what is compiled.
        layouts: slot → how it is stored.
        places: slot that is a root → (buffer, byte offset of its interior).
        steps, names, macs: the plan so far.
        constants: arrays that steps read.
    """

    program: Program
    layouts: Mapping[int, Layout]
    places: Mapping[int, tuple[int, int]]
    steps: list[Step] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    macs: list[int] = field(default_factory=list)
    constants: Constants = field(init=False)

    def __post_init__(self) -> None:
        """Room for about as many constants as the program has."""
        arrays = (vars(step).values() for step in self.program.instructions)
        known = sum(value.nbytes for values in arrays for value in values if isinstance(value, np.ndarray))
        self.constants = Constants(known + known // 8)

    def slot(self, number: int) -> Slot:
        """Slot with a number."""
        return self.program.slots[number]

    def shift(self, number: int) -> int:
        """Stored minus raw code: 128 for int8, 0 for uint8 and for what is no code."""
        return 128 if self.slot(number).dtype == "int8" else 0

    def stored_zero_point(self, number: int) -> int:
        """Zero point of the stored codes; 0 for sums."""
        return self.slot(number).zero_point + self.shift(number)

    def item_size(self, number: int) -> int:
        """Bytes per element."""
        return np.dtype(self.slot(number).dtype).itemsize

    def place(self, number: int) -> tuple[int, int]:
        """Buffer and byte offset of the first element."""
        layout = self.layouts[number]
        buffer, offset = self.places[layout.root]
        return buffer, offset + layout.shift * self.item_size(number)

    def place_at(self, number: int, elements: int) -> tuple[int, int]:
        """Buffer and byte offset that many elements further on."""
        buffer, offset = self.place(number)
        return buffer, offset + elements * self.item_size(number)

    def strides(self, number: int) -> tuple[int, ...]:
        """Elements from one index to the next, one per axis of the slot."""
        return self.layouts[number].strides

    def view(self, number: int) -> View:
        """The slot as an image: other ranks as [1, 1, everything else, last axis] (they are dense)."""
        if number < 0:
            return NO_VIEW
        shape, strides = self.slot(number).shape, self.strides(number)
        buffer, offset = self.place(number)
        if len(shape) == 4:
            assert strides[3] == 1 or shape[3] == 1
            return View(buffer, offset, *shape, *strides[:3])
        channels = shape[-1] if shape else 1
        count = int(np.prod(shape[:-1], dtype=np.int64))
        pixel = strides[-2] if len(shape) > 1 else channels
        return View(buffer, offset, 1, 1, count, channels, count * pixel, count * pixel, pixel)

    def constant(self, array: npt.NDArray[Any]) -> int:
        """Byte offset of an array among the constants, 64-byte aligned."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        offset, memory = self.constants.room(data.size)
        memory[...] = data
        return offset

    def add(self, step: Step, work: Work | None, macs: int = 0, name: str = "") -> None:
        """One more step."""
        self.steps.append(step)
        self.names.append(name or (work.name if work is not None else ""))
        self.macs.append(macs)


Emits = Mapping[type[Instruction], Callable[[Work, Emitter], None]]
"""How each instruction becomes steps."""
