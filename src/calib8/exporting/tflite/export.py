"""From a program of the profile ``tflite`` to a TFLite graph that keeps its scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from calib8.errors import NoFormError, UnsupportedModelError, UsageError
from calib8.exporting.tflite import borders, elementwise, layers, lstm, moves, pools, tables
from calib8.exporting.tflite.borders import BORDER_TYPES
from calib8.exporting.tflite.builder import Builder
from calib8.exporting.tflite.float_graphs import float_nodes
from calib8.exporting.tflite.signed import signed_program
from calib8.exporting.tflite.symmetric import symmetric_program
from calib8.exporting.tflite.turns import without_turns
from calib8.exporting.tflite.versions import min_runtime
from calib8.parameters import one_of, parameter
from calib8.program import instructions as op
from calib8.program.instructions import Instruction
from calib8.program.program import Port, Program
from calib8.tflite.graph import Graph

PREPROCESS: Final = "calib8_preprocess"
"""Name of the metadata that say how images become inputs."""

MIN_RUNTIME: Final = "min_runtime_version"
MIN_RUNTIME_BYTES: Final = 16


@dataclass(frozen=True)
class TfliteExport:
    """A TFLite graph, and what had to be done for it.

    Attributes:
        graph: ready to be written.
        requantizations: QUANTIZE operators between two scales.
        tables: functions that are looked up, three operators each.
        notes: what is not kept exactly or costs more than it should.
        operators: how many of each, most frequent first.
    """

    graph: Graph
    requantizations: int
    tables: int
    notes: tuple[str, ...]
    operators: Mapping[str, int]


Emit = Callable[[Builder, Any], None]

EMIT: Final[Mapping[type[Instruction], Emit]] = {
    op.Quantize: borders.quantize,
    op.Dequantize: borders.dequantize,
    op.Conv: layers.layer,
    op.DepthwiseConv: layers.layer,
    op.ConvTranspose: layers.layer,
    op.FullyConnected: layers.layer,
    op.MatMul: layers.mat_mul,
    op.Requantize: elementwise.requantize,
    op.Add: elementwise.binary,
    op.Sub: elementwise.binary,
    op.Mul: elementwise.binary,
    op.AddSums: elementwise.add_sums,
    op.Maximum: elementwise.selection,
    op.Minimum: elementwise.selection,
    op.Lookup: tables.lookup,
    op.MaxPool: pools.max_pool,
    op.AveragePool: pools.average_pool,
    op.Mean: pools.mean,
    op.ReduceMax: pools.extreme,
    op.ReduceMin: pools.extreme,
    op.ArgMax: pools.arg_extreme,
    op.ArgMin: pools.arg_extreme,
    op.Softmax: pools.softmax,
    op.ReduceL2: pools.normalized,
    op.Div: elementwise.quotient,
    op.RealRescale: elementwise.real,
    op.RealPair: elementwise.real,
    op.RealFunction: elementwise.real,
    op.LayerNorm: pools.normalized,
    op.GroupNorm: pools.normalized,
    op.Recurrent: layers.recurrent,
    op.IntegerLstm: lstm.integer_lstm,
    op.TimeFilter: layers.time_filter,
    op.IntegerGru: layers.integer_gru,
    op.Concat: moves.concat,
    op.Constant: moves.constant,
    op.ResizeNearest: moves.resize_nearest,
    op.ResizeLinear: moves.resize_linear,
    op.Pad: moves.pad,
    op.Transpose: moves.transpose,
    op.Reshape: moves.reshape,
    op.Slice: moves.slice_,
    op.Gather: moves.gather,
    op.Float: float_nodes,
}
"""Instruction → what adds its operators, or raises ``NoFormError``."""


def to_tflite(
    program: Program,
    *,
    inputs: str | None = None,
    outputs: str | None = None,
    preprocess: str | None = None,
    name: str = "model",
) -> TfliteExport:
    """The graph of a program; scales and zero points stay, uint8 codes become int8, 16-bit codes symmetric.

    Args:
        program: of the profile ``tflite``.
        inputs, outputs: type of what is fed and given back: float32, int8 or uint8. None: as in the program.
        preprocess: stored with the model: how images become its inputs.
        name: of the model, for messages.

    Raises:
        UsageError: a type that there is not, or a program of another profile.
        UnsupportedModelError: instructions without a form in TFLite; all of them are listed.
    """
    for option, value in (("inputs", inputs), ("outputs", outputs)):
        if value is not None and value not in BORDER_TYPES:
            cure = one_of(value, BORDER_TYPES)
            raise UsageError(parameter(option, value), "is not a type of TFLite's inputs and outputs", cure)
    if program.profile != "tflite":
        problem = f"is a program of the profile '{program.profile}', whose rounding TFLite does not have"
        raise UsageError(name, problem, "Give the ONNX model, or a program of the profile tflite")
    program, moved = _without_zero_points(program, name)
    signed = signed_program(program)
    builder = Builder(signed.slots, notes=[*_ties(program), *moved])
    builder.reserve([port.name for port in (*program.inputs, *program.outputs)])
    problems: list[tuple[str, str]] = []
    fed = [_tried(problems, port.name, _feed, builder, signed, port, inputs or _own(program, port))
           for port in signed.inputs]  # fmt: skip
    for step in signed.instructions:
        label = f"'{step.name}' ({type(step).__name__})"
        _tried(problems, label, EMIT[type(step)], builder, step)
    given = [_tried(problems, port.name, borders.deliver, builder, port, outputs or _own(program, port))
             for port in signed.outputs]  # fmt: skip
    if problems:
        raise _refusal(name, problems)
    return _export(builder, program, fed, given, preprocess)


def _without_zero_points(program: Program, name: str) -> tuple[Program, tuple[str, ...]]:
    """Of 16-bit codes."""
    try:
        return symmetric_program(program)
    except NoFormError as reason:
        raise UnsupportedModelError(
            name, str(reason), f"Quantize it with {parameter('target', 'tflite')}"
        ) from None


def _ties(program: Program) -> list[str]:
    """What averages of uint8 codes lose: ties go away from code 0, another code once they are int8."""
    codes = [step for step in program.instructions if isinstance(step, op.AveragePool | op.ResizeLinear)]
    found = [step.name for step in codes if program.slots[step.outputs[0]].dtype == "uint8"]
    if not found:
        return []
    return [f"{', '.join(found)}: ties between two uint8 codes may round the other way as int8"]


def _own(program: Program, port: Port) -> str:
    """Type of a port of the program: codes as they are, else float32."""
    slot = program.slots[port.slot]
    return slot.dtype if slot.is_codes else "float32"


def _feed(builder: Builder, program: Program, port: Port, wanted: str) -> int:
    readers = [step for step in program.instructions if port.slot in step.inputs]
    return borders.feed(builder, port, readers, wanted)


def _tried(problems: list[tuple[str, str]], label: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives; why it cannot is added to the problems."""
    try:
        return function(*arguments)
    except NoFormError as reason:
        problems.append((label, str(reason)))
        return -1


def _refusal(name: str, problems: list[tuple[str, str]]) -> UnsupportedModelError:
    """All of them, those of one reason together."""
    reasons = dict.fromkeys(reason for _, reason in problems)
    listed = [
        f"{', '.join(label for label, own in problems if own == reason)}: {reason}" for reason in reasons
    ]
    parts = "1 part has" if len(problems) == 1 else f"{len(problems)} parts have"
    quantized = f"{parameter('target', 'tflite')}, without {parameter('keep_float')}"
    cure = (
        f"Quantize these too ({quantized}) if they were kept in float, use another target, or leave them out"
    )
    return UnsupportedModelError(name, f"{parts} no form in TFLite: {'; '.join(listed)}", cure)


def _export(
    builder: Builder, program: Program, inputs: list[int], outputs: list[int], preprocess: str | None
) -> TfliteExport:
    metadata = {} if preprocess is None else {PREPROCESS: preprocess.encode()}
    release = min_runtime(builder.operators).encode()
    metadata[MIN_RUNTIME] = release.ljust(MIN_RUNTIME_BYTES, b"\0")
    graph = Graph(
        tensors=tuple(builder.tensors),
        operators=tuple(builder.operators),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        name="main",
        description=f"{program.name}, written by calib8" if program.name else "written by calib8",
        metadata=metadata,
    )
    if program.float_instructions:
        graph = without_turns(graph)
    counts = Counter(operator.op for operator in graph.operators)
    return TfliteExport(
        graph, builder.requantizations, builder.tables, tuple(builder.notes), dict(counts.most_common())
    )
