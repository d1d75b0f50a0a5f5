"""A network as a list of instructions over typed slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.program.ops.cells import Recurrent
from calib8.program.ops.floats import Float
from calib8.program.ops.instruction import Instruction
from calib8.program.rules import Profile
from calib8.program.slot import CODE_TYPES as CODE_TYPES
from calib8.program.slot import WIDE_TYPE as WIDE_TYPE
from calib8.program.slot import Slot as Slot

Initial: TypeAlias = (
    npt.NDArray[np.float32]
    | npt.NDArray[np.uint8]
    | npt.NDArray[np.int8]
    | npt.NDArray[np.int16]
    | npt.NDArray[np.int32]
)
"""Values of a state before the first run."""


@dataclass(frozen=True)
class Port:
    """An input or output of the program as the user sees it.

    Attributes:
        name: its name in the model.
        slot: where it lies. Axes are in the model's order: Quantize and Dequantize change the layout.
    """

    name: str
    slot: int


@dataclass(frozen=True, eq=False)
class State:
    """What lives between runs: a run reads as an input what the run before gave as an output.

    Attributes:
        input, output: names of the two ports, whose slots have the same type, shape, scale and zero point.
        initial: what the first run reads, with type and shape of the slot; without elements: real 0.
    """

    input: str
    output: str
    initial: Initial = field(default_factory=lambda: np.zeros(0, np.float32))


@dataclass(frozen=True, eq=False)
class Program:
    """A network of fixed shapes as a list of instructions.

    Attributes:
        profile: the rounding rules that its instructions carry.
        slots: all tensors; instructions name them by their place here. Each is written once.
        instructions: in the order of execution.
        inputs, outputs: what is fed and what comes out.
        name: of the model.
        states: which inputs carry on what outputs gave. The instructions know nothing of them: whoever runs
            the program feeds the one with the other.
    """

    profile: Profile
    slots: tuple[Slot, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    name: str = ""
    states: tuple[State, ...] = ()

    @property
    def float_instructions(self) -> tuple[Float, ...]:
        """Those that ONNX Runtime runs."""
        return tuple(step for step in self.instructions if isinstance(step, Float))

    @property
    def float_gates(self) -> tuple[str, ...]:
        """Recurrent layers whose products are integers, and whose gates and states are float32."""
        return tuple(step.name for step in self.instructions if isinstance(step, Recurrent))

    @property
    def float_reasons(self) -> dict[str, str]:
        """Name of every node that ONNX Runtime runs → why it has no integer form, empty where not kept."""
        return {
            node: reason
            for step in self.float_instructions
            for node, reason in zip(step.nodes, step.reasons or ("",) * len(step.nodes), strict=True)
        }
