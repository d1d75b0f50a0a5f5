"""A program ready to run: steps over byte offsets, constants as kernels want them, one arena.

Codes are stored as uint8 throughout; an int8 code is stored as code + 128.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # a plan file is opened without what only compiling needs
    from calib8.program.rules import Profile


class Row(NamedTuple):
    """One step as the native core takes it.

    Attributes:
        opcode: what kind of step it is.
        fields: its numbers, see ``calib8.engine.codec``.
    """

    opcode: str
    fields: npt.NDArray[np.int64]


class PlanPort(NamedTuple):
    """An input or output of a plan.

    Attributes:
        name: in the model.
        dtype: NumPy name.
        shape: axes in the model's order.
        scales: of codes and sums, float32 values: one, or one per index of the last axis; empty for others,
            and in files of older versions.
        zero_point: of codes; 0 for others.
        counted: of an input: the axis that counts samples where that is not the first, or ``UNTOLD``
            (``calib8.tensors``); None for all others, and in files of older versions.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scales: tuple[float, ...] = ()
    zero_point: int = 0
    counted: int | None = None


class PlanState(NamedTuple):
    """What lives between runs: an input that reads what an output of the run before held.

    Attributes:
        input, output: names of the ports, which have one type and shape.
        fill: every value of the first run's input.
        initial: bytes of the first run's input, where it is not one value; else empty.
    """

    input: str
    output: str
    fill: int = 0
    initial: bytes = b""


class Stored(NamedTuple):
    """A dense tensor in a buffer, as a Float call reads or writes it.

    Attributes:
        buffer, offset: where, in bytes.
        dtype, shape: of the tensor as ONNX Runtime wants it.
        shift: 128 where int8 codes are stored as uint8, else 0.
    """

    buffer: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    shift: int


def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a dense tensor."""
    return math.prod(shape) * np.dtype(dtype).itemsize


class FloatCall(NamedTuple):
    """A sub-model that ONNX Runtime runs between two steps.

    Attributes:
        before: it runs before the step with this number.
        name: of the instruction.
        model: bytes of an ONNX model.
        inputs, outputs: names as in the model, and where their tensors lie.
        nodes, reasons: names of its nodes and why each has no integer form.
    """

    before: int
    name: str
    model: bytes
    inputs: tuple[tuple[str, Stored], ...]
    outputs: tuple[tuple[str, Stored], ...]
    nodes: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """What the native engine runs.

    Attributes:
        name, profile: of the program.
        rows: the steps in the order of execution.
        step_names: name of the instructions that a step stands for.
        step_macs: products per run of each step.
        floats: calls of ONNX Runtime in between, by rising ``before``.
        constants: uint8 [bytes], aligned to 64 bytes, with 64 bytes of zeros at the end.
        arena_bytes: memory of one run; what its threads need beside it, the native core knows.
        inputs, outputs: ports; buffer ``FIRST_PORT + i`` is the i-th of both together.
        weight_bytes: bytes of weights in the program.
        isa: instruction set it was made for, empty where nobody said; it runs on every other one too.
        states: which inputs carry on what outputs gave; the native core knows nothing of them.
    """

    name: str
    profile: Profile
    rows: tuple[Row, ...]
    step_names: tuple[str, ...]
    step_macs: tuple[int, ...]
    floats: tuple[FloatCall, ...]
    constants: npt.NDArray[np.uint8]
    arena_bytes: int
    inputs: tuple[PlanPort, ...]
    outputs: tuple[PlanPort, ...]
    weight_bytes: int
    isa: str = ""
    states: tuple[PlanState, ...] = ()

    @property
    def port_bytes(self) -> list[int]:
        """Bytes of the inputs and outputs."""
        return [tensor_bytes(port.shape, port.dtype) for port in (*self.inputs, *self.outputs)]

    @property
    def float_nodes(self) -> tuple[str, ...]:
        """Names of the nodes of the model that ONNX Runtime runs."""
        return tuple(node for call in self.floats for node in call.nodes)
