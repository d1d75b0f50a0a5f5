"""Instructions read and write codes, sums or plain numbers as they should; some share one scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.program import instructions as op
from calib8.program.instructions import TRAITS
from calib8.program.ops.kinds import ANYTHING, Takes, kind
from calib8.program.ops.step import Step
from calib8.program.program import Slot
from calib8.program.rules import CodeAverage


def takes_wide(step: op.Instruction, slots: Sequence[Slot]) -> bool:
    """Whether an instruction has 16-bit codes where its slots do; any but a known one has.

    Args:
        step: the instruction.
        slots: its inputs, then its outputs.
    """
    traits = TRAITS.get(type(step))
    if traits is None:
        return True
    pairs = zip(slots, traits.takes.of(len(step.inputs)), strict=False)
    return all(not slot.is_wide or not kinds or kind(slot) in kinds for slot, kinds in pairs)


def check_kinds(step: Step) -> None:
    """Refuses a wrong number of slots, slots of the wrong kind, and scales that should be shared and are not.

    Raises:
        ModelError: names the instruction, the slot and what it holds.
    """
    if isinstance(step.instruction, op.Float):
        if not step.outputs:
            raise step.error("writes no slot", "Give it an output")
        return
    if type(step.instruction) not in TRAITS:
        raise step.error("is of an unknown type", "Use one of calib8.program.instructions")
    takes = TRAITS[type(step.instruction)].takes
    _check_counts(step, takes)
    for slot, kinds in zip((*step.inputs, *step.outputs), takes.of(len(step.inputs)), strict=False):
        if kinds and kind(slot) not in kinds:
            wanted = " or ".join(kinds)
            raise step.error(f'has "{slot.name}", which holds {_described(slot)}', f"It takes {wanted} there")
    _check_sums(step)
    if takes.shared or _weighs_codes(step.instruction):
        _check_shared(step)


def _weighs_codes(instruction: op.Instruction) -> bool:
    """Means of the codes themselves, whose result has their scale."""
    if isinstance(instruction, op.ResizeLinear):
        return instruction.rows.rounding != "even"
    return isinstance(getattr(instruction, "rule", None), CodeAverage)


def _check_counts(step: Step, takes: Takes) -> None:
    wrong = not step.inputs if takes.variadic else len(step.inputs) != len(takes.inputs)
    most = 1 + len(takes.more)
    if wrong or not 1 <= len(step.outputs) <= most:
        wanted = "1 or more" if takes.variadic else str(len(takes.inputs))
        raise step.error(
            f"reads {len(step.inputs)} slots and writes {len(step.outputs)}",
            f"It reads {wanted} and writes {'1' if most == 1 else f'1 … {most}'}",
        )


def _check_sums(step: Step) -> None:
    """Sums come of a layer without rescaling; AddSums has one at least; moves carry one scale only."""
    layer = step.instruction
    if isinstance(layer, op.Weighted | op.MatMul) and (layer.rescale is None) != (
        kind(step.output) == "sums"
    ):
        how = "no rescaling" if layer.rescale is None else "a rescaling"
        raise step.error(
            f'has {how} and writes "{step.output.name}", which holds {_described(step.output)}',
            "Sums go without rescaling, codes come of one",
        )
    if isinstance(layer, op.AddSums) and not any(kind(slot) == "sums" for slot in step.inputs):
        raise step.error("adds codes to codes", "Use Add")
    if TRAITS[type(layer)].takes.output == ANYTHING and step.inputs[0].scales.size > 1:
        raise step.error(
            f'moves "{step.inputs[0].name}", sums with {step.inputs[0].scales.size} scales',
            "Requantize it first",
        )


def _check_shared(step: Step) -> None:
    first = step.inputs[0]
    for slot in (*step.inputs[1:], *step.outputs):
        same = slot.dtype == first.dtype and slot.zero_point == first.zero_point
        if not (same and np.array_equal(slot.scales, first.scales)):
            raise step.error(
                f'has "{first.name}" with {_described(first)} and "{slot.name}" with {_described(slot)}',
                "Both must have the same type, scale and zero point",
            )


def _described(slot: Slot) -> str:
    if slot.is_codes:
        return f"{slot.dtype} codes (scale {slot.scale:.6g}, zero point {slot.zero_point})"
    if kind(slot) == "sums":
        return f"sums ({slot.scales.size} scales from {slot.scales.min():.6g})"
    return f"plain {slot.dtype}"
