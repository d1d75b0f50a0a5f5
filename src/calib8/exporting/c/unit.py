"""What the C code of a program gathers: constants, layers, calls, and the scratch memory of CMSIS-NN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calib8.exporting.c.scratch import Scratch
from calib8.exporting.c.text import (
    Value,
    array,
    identifier,
    said,
    structure,
    structure_bytes,
)
from calib8.program.instructions import Instruction
from calib8.program.program import Slot


class Stored(NamedTuple):
    """Something in flash: its name in C, what of the model it is, its bytes."""

    name: str
    of: str
    bytes: int


@dataclass
class Unit:
    """The parts of a source file, as instruction after instruction adds to them.

    Attributes:
        slots: of the program, int8 codes only.
        types: slot → the type that its codes have in the model.
        stored: what takes flash.
        constants: their C code.
        calls: lines of the function that runs the network.
        kernels: loops that are called.
        scratch: number of an instruction → what CMSIS-NN needs while it runs.
        by_cmsis_nn: how many instructions CMSIS-NN can run.
    """

    slots: Sequence[Slot]
    types: Sequence[str]
    stored: list[Stored] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)
    scratch: dict[int, Scratch] = field(default_factory=dict)
    by_cmsis_nn: int = 0
    fixed: dict[int, str] = field(default_factory=dict)
    number: int = 0
    layer: str = ""

    def begin(self, number: int, step: Instruction) -> None:
        """An instruction of the program comes."""
        kind = type(step).__name__
        self.number, self.layer = number, f"{identifier(kind, kind)}_{number}"
        result = self.slots[step.outputs[0]]
        sizes = "x".join(map(str, result.shape)) or "one"
        self.calls.append(f'/* {number}: {kind} "{said(step.name)}", {sizes} */')

    def source(self, step: Instruction) -> Slot:
        """What an instruction reads first."""
        return self.slots[step.inputs[0]]

    def result(self, step: Instruction) -> Slot:
        """What an instruction writes."""
        return self.slots[step.outputs[0]]

    def at(self, slot: int) -> str:
        """Where a tensor lies, as C has it."""
        return self.fixed.get(slot) or f"AT({place_name(slot, self.slots[slot])})"

    def keep(self, part: str, values: npt.NDArray[Any], name: str) -> str:
        """Stores an array; its name in C.

        Args:
            part: what it is of the layer, such as ``weight``.
            values: int8, int32, int64 or float32.
            name: of the instruction in the model.
        """
        called = f"{self.layer}_{part}"
        self.constants.append(array(called, values))
        self.stored.append(Stored(called, name, int(values.nbytes)))
        return called

    def describe(self, kind: str, fields: Mapping[str, Value], name: str) -> str:
        """Stores the structure of a layer; its address in C."""
        self.constants.append(structure(kind, self.layer, fields))
        self.stored.append(Stored(self.layer, name, structure_bytes(fields)))
        return f"&{self.layer}"

    def call(self, kernel: str, *arguments: str) -> None:
        """Calls loops that cannot fail."""
        self.kernels.add(kernel)
        self.calls.append(f"{kernel}({', '.join(arguments)});")

    def call_cmsis_nn(self, kernel: str, *arguments: str, scratch: Scratch | None = None) -> None:
        """Calls what CMSIS-NN runs, or the loops of the same result.

        Args:
            kernel: without ``_by_cmsis_nn``.
            arguments: before those of scratch memory.
            scratch: None: it takes none.
        """
        function = f"{kernel}_by_cmsis_nn"
        self.kernels.add(function)
        self.by_cmsis_nn += 1
        parts = list(arguments)
        if scratch is not None:
            self.scratch[self.number] = scratch
            parts += [f"AT(SCRATCH_{self.number})", f"SCRATCH_{self.number}_BYTES"]
        self.calls.append(f"fault |= {function}({', '.join(parts)});")


def place_name(number: int, slot: Slot) -> str:
    """Name of the offset of a tensor."""
    return f"T{number}_{identifier(slot.name, 'tensor').upper()}"


def whole(values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """As int32 in the order of memory."""
    return np.ascontiguousarray(values, np.int32)
