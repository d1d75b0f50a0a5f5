"""A network as a list of instructions over typed slots."""

from __future__ import annotations

from dataclasses import dataclass

from calib8.program.ops.floats import Float
from calib8.program.ops.instruction import Instruction
from calib8.program.rules import Profile
from calib8.program.slot import CODE_TYPES as CODE_TYPES
from calib8.program.slot import WIDE_TYPE as WIDE_TYPE
from calib8.program.slot import Slot as Slot


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
class Program:
    """A network of fixed shapes as a list of instructions.

    Attributes:
        profile: the rounding rules that its instructions carry.
        slots: all tensors; instructions name them by their place here. Each is written once.
        instructions: in the order of execution.
        inputs, outputs: what is fed and what comes out.
        name: of the model.
    """

    profile: Profile
    slots: tuple[Slot, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    name: str = ""

    @property
    def float_instructions(self) -> tuple[Float, ...]:
        """Those that ONNX Runtime runs."""
        return tuple(step for step in self.instructions if isinstance(step, Float))

    @property
    def float_reasons(self) -> dict[str, str]:
        """Name of every node that ONNX Runtime runs → why it has no integer form, empty where not kept."""
        return {
            node: reason
            for step in self.float_instructions
            for node, reason in zip(step.nodes, step.reasons or ("",) * len(step.nodes), strict=True)
        }
