"""A program as C: every instruction becomes the loops that compute it, its constants, and a call."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from calib8.errors import NoFormError, UnsupportedModelError, UsageError
from calib8.exporting.c import borders, elementwise, layers, moves, pools
from calib8.exporting.c.borders import BORDER_TYPES, OF_A_BORDER, Border
from calib8.exporting.c.limits import check_limits
from calib8.exporting.c.memory import Arena, Tensors, arena, tensors
from calib8.exporting.c.text import prefix
from calib8.exporting.c.unit import Unit
from calib8.exporting.c.write import Written, header, source
from calib8.exporting.tflite.signed import signed_program
from calib8.parameters import one_of, parameter
from calib8.program import instructions as op
from calib8.program.instructions import Instruction
from calib8.program.program import Port, Program

FILE_NAME: Final = re.compile(r"[0-9A-Za-z_][-.0-9A-Za-z_]*")

EMIT: Final[Mapping[type[Instruction], Callable[[Unit, Any], None]]] = {
    op.Conv: layers.conv,
    op.DepthwiseConv: layers.depthwise,
    op.FullyConnected: layers.dense,
    op.Add: elementwise.add,
    op.Sub: elementwise.add,
    op.Mul: elementwise.multiply,
    op.Maximum: elementwise.choice,
    op.Minimum: elementwise.choice,
    op.Lookup: elementwise.lookup,
    op.Requantize: elementwise.requantize,
    op.MaxPool: pools.max_pool,
    op.AveragePool: pools.average_pool,
    op.Mean: pools.mean,
    op.ReduceMax: pools.extreme,
    op.ReduceMin: pools.extreme,
    op.ArgMax: pools.arg_extreme,
    op.ArgMin: pools.arg_extreme,
    op.Softmax: pools.softmax,
    op.Concat: moves.concat,
    op.Constant: moves.constant,
    op.Gather: moves.gather,
    op.Pad: moves.pad,
    op.Reshape: moves.reshape,
    op.ResizeNearest: moves.resize_nearest,
    op.Slice: moves.take_slice,
    op.Transpose: moves.transpose,
    op.Quantize: borders.quantize,
    op.Dequantize: borders.dequantize,
}
"""Instruction → what adds its C code, or raises ``NoFormError``."""


OTHER_HEADERS: Final = frozenset({
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math",
    "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib",
    "stdnoreturn", "string", "tgmath", "threads", "time", "uchar", "wchar", "wctype",
})  # fmt: skip
"""Names of the headers of C: a file called so beside them would be found in their place."""


@dataclass(frozen=True)
class CPort:
    """An input or output of the C code.

    Attributes:
        name: in the model.
        function: that gives its place in the arena.
        dtype: of its elements.
        shape: as they lie in memory; images are N×H×W×C.
    """

    name: str
    function: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """That it takes in the arena."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class CExport:
    """C code of a program, and what it takes.

    Attributes:
        name: with which all public names begin.
        header, source: the texts of the .h and the .c file.
        inputs, outputs: in the order of the model.
        arena_bytes: RAM of the loops of the file: inputs, outputs and all between them.
        cmsis_nn_bytes: RAM with CMSIS-NN, its scratch memory included, on a processor without and with
            vectors (MVE).
        flash_bytes: of constants, where pointers have 32 bits; the code itself comes on top.
        instructions: kind → how many.
        by_cmsis_nn: how many of them CMSIS-NN can run.
        notes: what is not told by the numbers.
    """

    name: str
    header: str
    source: str
    inputs: tuple[CPort, ...]
    outputs: tuple[CPort, ...]
    arena_bytes: int
    cmsis_nn_bytes: tuple[int, int]
    flash_bytes: int
    instructions: Mapping[str, int]
    by_cmsis_nn: int
    notes: tuple[str, ...]


def to_c(
    program: Program,
    stem: str,
    *,
    name: str = "model",
    inputs: str | None = None,
    outputs: str | None = None,
    arena_limit: int | None = None,
    flash_limit: int | None = None,
) -> CExport:
    """C99 code that computes what the program does, bit for bit.

    Args:
        program: of a profile of whole numbers, ``tflite`` or ``single``.
        stem: name of the files without suffix.
        name: of the model.
        inputs, outputs: type of what is fed and given back: float32, int8 or uint8. None: as in the program.
        arena_limit, flash_limit: bytes that there are; None: enough.

    Raises:
        UsageError: a name that C cannot include, a type that there is not, or a limit that is no number of
            bytes.
        UnsupportedModelError: instructions without C code, all of them listed, or more bytes than there are,
            with the tensors or weights that take them.
    """
    _check_options(stem, inputs, outputs, (arena_limit, flash_limit))
    problems: list[tuple[str, str]] = []
    fed = [_tried(problems, f"input '{port.name}'", borders.input_border, program, port, inputs)
           for port in program.inputs]  # fmt: skip
    given = [_tried(problems, f"output '{port.name}'", borders.output_border, program, port, outputs)
             for port in program.outputs]  # fmt: skip
    _refuse_states(program, problems)
    cut = program if problems else borders.without_borders(program, fed, given)
    unit = Unit(signed_program(cut).slots, [slot.dtype for slot in program.slots])
    signed = signed_program(cut)
    for number, step in enumerate(signed.instructions):
        _emit(unit, number, step, problems)
    _refuse_constant_outputs(unit, cut.outputs, problems)
    if problems:
        raise _refusal(name, program, problems)
    return _export(signed, unit, stem, name, (fed, given), (arena_limit, flash_limit))


def _check_options(
    stem: str, inputs: str | None, outputs: str | None, limits: tuple[int | None, int | None]
) -> None:
    if not FILE_NAME.fullmatch(stem):
        problem = "is no name for a file that C code includes"
        raise UsageError(parameter("output", f"{stem}.c"), problem, "Use letters, digits, '_', '-' and '.'")
    if stem.lower() in OTHER_HEADERS or stem.lower().startswith("arm_nn"):
        problem = f"would be included in place of the header {stem.lower()}.h that C code needs"
        raise UsageError(parameter("output", f"{stem}.c"), problem, f"Call it such as {stem}_net.c")
    for option, value in (("inputs", inputs), ("outputs", outputs)):
        if value is not None and value not in BORDER_TYPES:
            cure = one_of(value, BORDER_TYPES)
            raise UsageError(parameter(option, value), "is not a type of inputs and outputs", cure)
    for option, limit in zip(("arena_limit", "flash_limit"), limits, strict=True):
        if limit is not None and limit < 1:
            raise UsageError(parameter(option, limit), "is no number of bytes", "Give 1 or more")


def _tried(
    problems: list[tuple[str, str]], label: str, function: Callable[..., Border], *arguments: Any
) -> Border:
    """What the function gives; why it cannot is added to the problems."""
    try:
        return function(*arguments)
    except NoFormError as reason:
        problems.append((label, str(reason)))
        return Border(label, 0, "int8")


def _emit(unit: Unit, number: int, step: Instruction, problems: list[tuple[str, str]]) -> None:
    label = f"'{step.name}' ({type(step).__name__})"
    emit = EMIT.get(type(step))
    slots = [unit.slots[slot] for slot in (*step.inputs, *step.outputs)]
    if emit is None:
        problems.append((label, "it has no C code"))
    elif any(slot.is_wide for slot in slots):
        problems.append((label, "its codes have 16 bits"))
    else:
        unit.begin(number, step)
        try:
            emit(unit, step)
        except NoFormError as reason:
            problems.append((label, str(reason)))


def _refuse_states(program: Program, problems: list[tuple[str, str]]) -> None:
    for state in program.states:
        problems.append((f"state '{state.input}'", "C code keeps nothing between two runs"))


def _refuse_constant_outputs(unit: Unit, ports: tuple[Port, ...], problems: list[tuple[str, str]]) -> None:
    for port in ports:
        if port.slot in unit.fixed:
            problems.append((f"output '{port.name}'", "it is the same in every run"))


def _refusal(name: str, program: Program, problems: list[tuple[str, str]]) -> UnsupportedModelError:
    """All of them, those of one reason together."""
    reasons = dict.fromkeys(reason for _, reason in problems)
    listed = [
        f"{', '.join(label for label, own in problems if own == reason)}: {reason}" for reason in reasons
    ]
    parts = "1 part has" if len(problems) == 1 else f"{len(problems)} parts have"
    cure = "Leave them out of the model, or compile it for a processor on which calib8's engine runs"
    if all(reason.startswith(OF_A_BORDER) for reason in reasons):
        options = f"{parameter('inputs')} and {parameter('outputs')}"
        cure = f"Leave {options} out, or quantize the float model with {parameter('target', 'tflite')}"
    if program.profile == "onnx":
        asked = parameter("profile", "tflite")
        cure = f"Write it of the ONNX model with {asked}: this program rounds in float32"
    return UnsupportedModelError(name, f"{parts} no form in C: {'; '.join(listed)}", cure)


def _export(
    program: Program,
    unit: Unit,
    stem: str,
    name: str,
    ports: tuple[list[Border], list[Border]],
    limits: tuple[int | None, int | None],
) -> CExport:
    found = tensors(program)
    places = [arena(found, dict.fromkeys(unit.scratch, 0)), *_with_scratch(found, unit)]
    check_limits(program, unit, found, places[0].total, limits, name)
    called = prefix(stem)
    written = Written(called, stem, PurePath(name).name, program, unit, found, tuple(places), *ports)
    counts = Counter(type(step).__name__ for step in program.instructions)
    return CExport(
        called,
        header(written),
        source(written),
        *_ports(written),
        places[0].total,
        (places[1].total, places[2].total),
        written.flash_bytes,
        dict(counts.most_common()),
        unit.by_cmsis_nn,
        _notes(places, limits[0]),
    )


def _ports(written: Written) -> tuple[tuple[CPort, ...], tuple[CPort, ...]]:
    sides: dict[str, list[CPort]] = {"input": [], "output": []}
    for side, border, function in written.ports():
        shape = written.program.slots[border.slot].shape
        sides[side].append(CPort(border.name, function, border.dtype, shape))
    return tuple(sides["input"]), tuple(sides["output"])


def _with_scratch(found: Tensors, unit: Unit) -> list[Arena]:
    """The arena with CMSIS-NN on a processor without and with vectors."""
    return [
        arena(found, {number: scratch[kind] for number, scratch in unit.scratch.items()}) for kind in (0, 1)
    ]


def _notes(places: list[Arena], limit: int | None) -> tuple[str, ...]:
    most = max(place.total for place in places)
    if limit is None or most <= limit:
        return ()
    return (
        f"with CMSIS-NN the arena takes up to {most:,} bytes, more than {parameter('arena_limit', limit)}",
    )
