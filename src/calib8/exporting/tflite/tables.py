"""Functions of one tensor of codes: the TFLite operator that gives the very same codes, else a table.

An operator is taken only if its integer arithmetic makes the same code of each of the 256, or 65536. A table
works for every function:

    index = CAST(code) + 128 (+ 256·c)          int32
    GATHER(table, index)                        table [256], or [channels · 256] with one row per channel
    index = CAST(code) + 32768                  of 16-bit codes; table [65536]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import LOWEST, Builder, codes_of
from calib8.program.expressions import Apply, Constant, Source
from calib8.program.instructions import Lookup
from calib8.program.program import Slot
from calib8.program.rounding.squares import difference_rule, reciprocal_root_table, square_table
from calib8.program.rounding.tables import table
from calib8.program.rules import Table
from calib8.tflite.graph import Option

CODES: Final = 256


class Candidate(NamedTuple):
    """An operator, perhaps with limits or a change of scale behind it.

    Attributes:
        op: of TFLite.
        options: of the operator.
        between: codes that it makes, where a QUANTIZE must change them to those of the output; None: none.
        entries: the codes of the output for every code of the input.
        limited: MAXIMUM and MINIMUM must follow.
    """

    op: str
    options: dict[str, Option]
    between: Slot | None
    entries: Table
    limited: bool = False


def lookup(builder: Builder, step: Lookup) -> None:
    """A function of codes."""
    x, y = builder.slot(step.inputs[0]), builder.slot(step.outputs[0])
    if _is_squared(builder, step):
        difference = builder.differences[step.inputs[0]]
        inputs = [builder.tensor(number) for number in difference.inputs]
        builder.operator("SQUARED_DIFFERENCE", inputs, [builder.tensor(step.outputs[0])])
        return
    source, target = builder.tensor(step.inputs[0]), builder.tensor(step.outputs[0])
    if step.table.ndim == 1:
        for candidate in _candidates(step, x, y):
            if np.array_equal(candidate.entries, step.table):
                _emit(builder, candidate, source, target, y)
                return
    _gathered(builder, step, source, target)


def _is_squared(builder: Builder, step: Lookup) -> bool:
    """A table of the squares of differences, as SQUARED_DIFFERENCE makes them."""
    difference, y = builder.differences.get(step.inputs[0]), builder.slot(step.outputs[0])
    if difference is None or y.dtype != "int8":
        return False
    a, b = (builder.slot(number) for number in difference.inputs)
    try:
        return difference.rule == difference_rule(a, b) and np.array_equal(step.table, square_table(a, b, y))
    except NoFormError:
        return False


def _emit(builder: Builder, candidate: Candidate, source: int, target: int, y: Slot) -> None:
    between = candidate.between
    if between is not None:
        place = builder.add(between.name, y.shape, "int8", codes_of(between.scale, between.zero_point))
        builder.operator(candidate.op, [source], [place], **candidate.options)
        builder.operator("QUANTIZE", [place], [target], 2)
        builder.requantizations += 1
        return
    if candidate.op == "QUANTIZE":
        builder.requantizations += 1
    version = 2 if candidate.op == "QUANTIZE" else None

    def make(place: int, activation: str) -> None:
        builder.operator(candidate.op, [source], [place], version, **candidate.options)

    low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
    if candidate.limited:
        low, high = int(candidate.entries.min()), int(candidate.entries.max())
    builder.clamped(target, y, low, high, make, fused=False)


def _candidates(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
    """Operators that might give the table, cheapest first."""
    requantized = table("tflite", Source(), x, y)
    yield Candidate("QUANTIZE", {}, None, requantized)
    wide = x.is_wide or y.is_wide
    family = FAMILIES.get(step.function)
    if family is not None and (not wide or (x.is_wide == y.is_wide and family in WIDE)):
        yield from family(step, x, y)
    clipped = np.clip(requantized, step.table.min(), step.table.max()).astype(y.dtype)
    yield Candidate("QUANTIZE", {}, None, clipped, limited=True)


def _direct(op: str, function: str) -> Callable[[Lookup, Slot, Slot], Iterator[Candidate]]:
    """An operator that takes every scale of its output."""

    def candidates(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
        yield Candidate(op, {}, None, table("tflite", Apply(function, (Source(),)), x, y))

    return candidates


_relu: Final = _direct("RELU", "Relu")


def _rsqrt(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
    """Of codes that stand for no number below 0."""
    if x.zero_point == LOWEST:
        with suppress(NoFormError):
            yield Candidate("RSQRT", {}, None, reciprocal_root_table(x, y))


def _own_scale(
    op: str, function: str, scale: float, zero_point: int
) -> Callable[[Lookup, Slot, Slot], Iterator[Candidate]]:
    """An operator with a scale of its own, and a QUANTIZE behind it where the output has another."""

    def candidates(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
        own = Slot(f"{y.name}/{op.lower()}", y.shape, "int8", np.array([scale], np.float32), zero_point)
        entries = table("tflite", Apply(function, (Source(),)), x, own)
        same = (y.scale, y.zero_point) == (own.scale, own.zero_point)
        changed = table("tflite", Source(), own, y)[entries.astype(np.int64) - LOWEST]
        yield Candidate(op, {}, None if same else own, entries if same else changed)

    return candidates


def _clips(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
    bounds = tuple(Constant(np.array(bound, np.float32)) for bound in (0.0, 6.0))
    yield Candidate("RELU6", {}, None, table("tflite", Apply("Clip", (Source(), *bounds)), x, y))


ALPHAS: Final = (0.01, 0.1, 0.2, 0.05, 0.25, 0.3, 0.02, 0.125, 0.5)
"""Slopes below zero that networks have; a further one is read off the table."""


def _leaky(step: Lookup, x: Slot, y: Slot) -> Iterator[Candidate]:
    for alpha in (*ALPHAS, *_slope(step, x, y)):
        entries = table("tflite", Apply("LeakyRelu", (Source(),), {"alpha": alpha}), x, y)
        yield Candidate("LEAKY_RELU", {"alpha": alpha}, None, entries)


def _slope(step: Lookup, x: Slot, y: Slot) -> Iterator[float]:
    """The slope from the lowest code that does not saturate to zero."""
    have, ends = np.iinfo(x.dtype), np.iinfo(y.dtype)
    steps = np.arange(have.min, have.max + 1) - x.zero_point
    codes = step.table.astype(np.int64)
    useful = np.flatnonzero((steps < 0) & (codes > ends.min) & (codes < ends.max))
    if useful.size:
        place = int(useful[0])
        yield float((codes[place] - y.zero_point) * y.scale / (steps[place] * x.scale))


FAMILIES: Final[dict[str, Callable[[Lookup, Slot, Slot], Iterator[Candidate]]]] = {
    "Rsqrt": _rsqrt,
    "Relu": _relu,
    "Clip": _clips,
    "LeakyRelu": _leaky,
    "HardSwish": _direct("HARD_SWISH", "HardSwish"),
    "Sigmoid": _own_scale("LOGISTIC", "Sigmoid", 1 / 256, LOWEST),
    "Tanh": _own_scale("TANH", "Tanh", 1 / 128, 0),
}
"""Function of a Lookup → operators to try."""

WIDE: Final = (_relu, _clips, _leaky)
"""Those that take 16-bit codes on both sides: HARD_SWISH does not, LOGISTIC and TANH interpolate there."""


def _gathered(builder: Builder, step: Lookup, source: int, target: int) -> None:
    shape = builder.tensors[source].shape
    dtype = builder.tensors[source].dtype
    first = np.full(1, -np.iinfo(dtype).min, np.int32)
    if step.table.ndim > 1:
        first = (np.arange(step.table.shape[0]) * CODES - LOWEST).astype(np.int32)
    wide = builder.add(f"{step.name}/code", shape, "int32")
    index = builder.add(f"{step.name}/index", shape, "int32")
    entries = builder.constant(
        f"{step.name}/table", step.table.reshape(-1), builder.tensors[target].quantization
    )
    builder.operator("CAST", [source], [wide], in_data_type=dtype.upper(), out_data_type="INT32")
    builder.operator(
        "ADD", [wide, builder.constant("first", first)], [index],
        fused_activation_function="NONE", pot_scale_int16=False,
    )  # fmt: skip
    builder.operator("GATHER", [entries, index], [target], axis=0, batch_dims=0)
    builder.tables += 1
