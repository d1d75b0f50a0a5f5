"""A program for people: one line per instruction, and the numbers that sum it up.

    program "net", profile onnx, 3 instructions, 4 slots
    input   %0 "image" float32 1×3×32×32
       0  Quantize       %0 → %1 "image" uint8 1×32×32×3 (0.0187, 114)         axes 0 2 3 1, rounding even
       1  Conv           %1 → %2 "stem" uint8 1×16×16×8 (0.0235, 0)            weight int8 8×3×3×3 …, × 0.0011
       2  Dequantize     %2 → %3 "stem" float32 1×8×16×16                      axes 0 3 1 2
    output  %3 "stem" float32 1×8×16×16

A line ``state`` says which input carries on which output.
A slot is described where it is written: number, name, type, shape (as it lies in memory) and, of codes,
(scale, zero point). × is the factor from sums to codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.costs import macs, peak_bytes, weight_bytes
from calib8.program.instructions import Instruction
from calib8.program.program import Program, Slot
from calib8.program.rules import Profile


@dataclass(frozen=True)
class ProgramSummary:
    """A program in numbers.

    Attributes:
        profile: its rounding rules.
        instructions: how many of each type, most frequent first.
        integer_macs: multiply-accumulates of one run of its integer layers.
        float_macs: those of its Float instructions, None where sizes inside them are unknown.
        float_nodes: nodes of the model that ONNX Runtime runs.
        weight_bytes: of the weights and biases of integer layers.
        peak_bytes: most bytes of tensors alive at a time.
    """

    profile: Profile
    instructions: Mapping[str, int]
    integer_macs: int
    float_macs: int | None
    float_nodes: tuple[str, ...]
    weight_bytes: int
    peak_bytes: int


def summary(program: Program) -> ProgramSummary:
    """Counts, multiplications and bytes of a sound program."""
    counts = Counter(type(step).__name__ for step in program.instructions)
    integer = [macs(program, step) for step in program.instructions if not isinstance(step, op.Float)]
    floats = [macs(program, step) for step in program.float_instructions]
    return ProgramSummary(
        profile=program.profile,
        instructions=dict(counts.most_common()),
        integer_macs=sum(count or 0 for count in integer),
        float_macs=None if None in floats else sum(count or 0 for count in floats),
        float_nodes=tuple(node for step in program.float_instructions for node in step.nodes),
        weight_bytes=weight_bytes(program),
        peak_bytes=peak_bytes(program),
    )


def listing(program: Program) -> str:
    """The program as lines of text, without a line break at the end."""
    count, slots = len(program.instructions), len(program.slots)
    name = f' "{_one_line(program.name)}"' if program.name else ""
    lines = [f"program{name}, profile {program.profile}, {count} instructions, {slots} slots"]
    lines += [_port("input  ", program, port.name, port.slot) for port in program.inputs]
    heads = [_head(program, number, step) for number, step in enumerate(program.instructions)]
    width = min(max((len(head) for head in heads), default=0), HEAD_WIDTH)
    for head, step in zip(heads, program.instructions, strict=True):
        lines.append(f"{head:<{width}}  {', '.join(_parameters(program, step))}".rstrip())
    lines += [_port("output ", program, port.name, port.slot) for port in program.outputs]
    lines += [
        f'state   "{_one_line(one.input)}" is "{_one_line(one.output)}" of the run before'
        for one in program.states
    ]
    return "\n".join(lines)


HEAD_WIDTH: Final = 88
"""Columns before the parameters; longer names push them to the right."""


def _port(what: str, program: Program, name: str, number: int) -> str:
    own = "" if name == program.slots[number].name else f' "{_one_line(name)}" is'
    return f"{what}{own} {_slot(program.slots[number], number)}"


def _head(program: Program, number: int, step: Instruction) -> str:
    inputs = " ".join(f"%{slot}" for slot in step.inputs)
    outputs = " ".join(_slot(program.slots[slot], slot) for slot in step.outputs)
    return f"{number:>4}  {type(step).__name__:<14} {inputs} → {outputs}"


def _slot(slot: Slot, number: int) -> str:
    text = f'%{number} "{_one_line(slot.name)}" {slot.dtype} {_sizes(slot.shape)}'
    if slot.is_codes:
        return f"{text} ({slot.scale:.6g}, {slot.zero_point})"
    return f"{text} ({_span(slot.scales)})" if slot.scales.size else text


def _parameters(program: Program, step: Instruction) -> Iterator[str]:
    """What an instruction holds beyond its slots; settings that change nothing are left out."""
    for field in fields(step):
        value = getattr(step, field.name)
        if field.name in ("name", "inputs", "outputs", "high", "reasons") or _is_neutral(field.name, value):
            continue
        if field.name == "low":
            if program.slots[step.outputs[0]].is_codes:
                yield f"clamp {value} … {step.high}"  # type: ignore[attr-defined]  # they come in pairs
        elif type(value) in RULE_TEXTS:
            yield RULE_TEXTS[type(value)](value)
        elif field.name == "function":
            yield _one_line(value)
        else:
            yield f"{field.name.replace('_', ' ')} {_text(value)}"


NEUTRAL: Final[Mapping[str, object]] = {
    "strides": (1, 1),
    "dilations": (1, 1),
    "pads": (0, 0, 0, 0),
    "groups": 1,
    "rescale": None,
    "rule": None,
    "count_pads": False,
    "last": False,
}
"""Field → the value that needs no mention."""


def _is_neutral(field: str, value: Any) -> bool:
    if field in ("weight_zero_point", "bias"):
        return not np.any(value)
    return field in NEUTRAL and type(value) is type(NEUTRAL[field]) and value == NEUTRAL[field]


def _text(value: Any) -> str:
    """One value in short: sizes and range of an array, fields of a rule."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {_sizes(value.shape)} ({_span(value)})"
    if isinstance(value, tuple):
        return " ".join(_text(item) for item in value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "__dataclass_fields__"):
        parts = ", ".join(f"{field.name} {_text(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__name__}({parts})"
    return _one_line(str(value))


def _float_rescale(rule: rules.FloatRescale) -> str:
    return f"× {_span(rule.factor)}"


def _fixed_rescale(rule: rules.FixedRescale) -> str:
    factors = np.ldexp(rule.multiplier.astype(np.float64), rule.shift - 31)
    return f"× {_span(factors)} (shift {_span(rule.shift)}, {rule.rounding})"


def _rescale_text(rule: rules.Rescale) -> str:
    return _float_rescale(rule) if isinstance(rule, rules.FloatRescale) else _fixed_rescale(rule)


def _two_sided(rule: rules.TwoSidedRescale) -> str:
    return f"{_rescale_text(rule.positive)}, below 0 {_rescale_text(rule.negative)}"


def _curve(rule: rules.CurveRescale) -> str:
    return f"curve within {rule.error / 1000:g} codes of steps {_rescale_text(rule.steps)}"


def _float_product(rule: rules.FloatProduct) -> str:
    return f"× {rule.factor:.6g}"


def _function(function: rules.CellFunction) -> str:
    numbers = " ".join(f"{number:.6g}" for number in (function.alpha, function.beta) if number)
    return f"{function.name} {numbers}".rstrip()


RULE_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    rules.FloatRescale: _float_rescale,
    rules.FixedRescale: _fixed_rescale,
    rules.FloatProduct: _float_product,
    rules.TwoSidedRescale: _two_sided,
    rules.CurveRescale: _curve,
    rules.CellFunction: _function,
}
"""Rules that are factors, and functions; others are shown field by field."""


def _span(values: npt.NDArray[Any]) -> str:
    """The smallest and the largest value, or the only one."""
    if not values.size:
        return "empty"
    low, high = (
        f"{end:.6g}" if isinstance(end, float) else str(end)
        for end in (values.min().item(), values.max().item())
    )
    return low if low == high else f"{low} … {high}"


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in shape) or "scalar"


def _one_line(text: str) -> str:
    return " ".join(text.split())
