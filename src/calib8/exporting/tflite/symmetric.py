"""Programs whose 16-bit codes have zero points as programs without: TFLite's int16 has none.

    T  = max(|lowest − z|, highest − z)·s        what the codes reach
    s' = T / 32767,  z' = 0                      s ≤ s' ≤ 2.0001·s: up to one bit of the sixteen

Rounding parameters, biases, clamps, borders and tables follow; real values stay within half a step of s'.
What the old codes could not hold is clipped as before, but for what is fed to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.exporting.tflite.layers import weight_scales
from calib8.program.instructions import Add, Constant, Instruction, Lookup, Mul, Pad, Sub, Weighted
from calib8.program.program import Program, Slot
from calib8.program.rounding.linear import layer_rescale, product_rule, sum_rule
from calib8.program.rules import FixedRescale
from calib8.qparams import QParams, round_half_away

HIGHEST: Final = (1 << 15) - 1
Array = npt.NDArray[Any]


def symmetric_program(program: Program) -> tuple[Program, tuple[str, ...]]:
    """The program with zero points of 0 wherever codes have 16 bits, and a note on each that was moved.

    Raises:
        NoFormError: a layer gives its sums as they are.
    """
    moved = [slot for slot in program.slots if slot.is_wide and slot.zero_point]
    if not moved:
        return program, ()
    slots = tuple(map(_symmetric, program.slots))
    steps = tuple(_step(program.slots, slots, step) for step in program.instructions)
    changed = {slot.name: (slot.scale, _symmetric(slot).scale) for slot in moved}
    notes = tuple(
        f"'{name}': 16-bit codes without a zero point, as TFLite has them; a step is {new:.4g}, not {old:.4g}"
        for name, (old, new) in changed.items()
    )
    return replace(program, slots=slots, instructions=steps), notes


def _symmetric(slot: Slot) -> Slot:
    if not (slot.is_wide and slot.zero_point):
        return slot
    reach = max(slot.zero_point + HIGHEST + 1, HIGHEST - slot.zero_point) * slot.scale
    return replace(slot, scales=np.array([reach / HIGHEST], np.float32), zero_point=0)


def _step(old: Sequence[Slot], new: Sequence[Slot], step: Instruction) -> Instruction:
    numbers = (*step.inputs, *step.outputs)
    if all(old[number] is new[number] for number in numbers):
        return step
    if isinstance(step, Constant):
        [number] = step.outputs
        return replace(step, values=_codes(step.values, old[number], new[number]))
    x, y = (old[step.inputs[0]], new[step.inputs[0]]), (old[step.outputs[0]], new[step.outputs[0]])
    names = {field.name for field in fields(step)}
    changed: dict[str, Any] = {
        name: _code(getattr(step, name), *y) for name in ("low", "high") if name in names
    }
    if isinstance(step, Weighted):
        changed |= _layer(step, x, y)
    elif isinstance(step, Add | Sub | Mul):
        changed |= _pair(step, [new[number] for number in numbers])
    elif isinstance(step, Lookup):
        changed["table"] = _table(step, x, y)
    elif isinstance(step, Pad):
        changed["value"] = _code(step.value, *y)
    return replace(step, **changed) if changed else step


def _code(code: int, old: Slot, new: Slot) -> int:
    """The nearest code of the same real value; where the old codes end, the new ones need a limit."""
    return code if old is new else int(_codes(np.array([code]), old, new)[0])


def _codes(codes: Array, old: Slot, new: Slot) -> Array:
    """Codes of ``old`` as those of ``new``."""
    ends = np.iinfo(new.dtype)
    steps = (codes.astype(np.float64) - old.zero_point) * (old.scale / new.scale)
    result: Array = np.clip(round_half_away(steps) + new.zero_point, ends.min, ends.max).astype(new.dtype)
    return result


def _layer(step: Weighted, x: tuple[Slot, Slot], y: tuple[Slot, Slot]) -> dict[str, Any]:
    """Rescale and bias over other steps of input and output; nothing of a layer that has no form anyway."""
    if step.rescale is None:
        raise NoFormError(f"'{x[0].name}' has a zero point, and nothing quantizes the sums of '{step.name}'")
    if not isinstance(step.rescale, FixedRescale):
        return {}
    scales = weight_scales(step.rescale, x[0].scale, y[0].scale)
    bias = round_half_away(step.bias.astype(np.float64) * (x[0].scale / x[1].scale)).astype(np.int32)
    wide = (1 << 40) - 1 if x[1].is_wide else None
    return {"bias": bias, "rescale": layer_rescale("tflite", x[1].scale, scales, y[1].scale, wide_sums=wide)}


def _pair(step: Add | Sub | Mul, slots: Sequence[Slot]) -> dict[str, Any]:
    a, b, y = (QParams(slot.scale, slot.zero_point) for slot in slots)
    wide = any(slot.is_wide for slot in slots[:2])
    if isinstance(step, Mul):
        return {"rescale": product_rule("tflite", a.scale, b.scale, y.scale, wide=wide)}
    return {"rule": sum_rule("tflite", "add" if isinstance(step, Add) else "sub", a, b, y, wide=wide)}


def _table(step: Lookup, x: tuple[Slot, Slot], y: tuple[Slot, Slot]) -> Array:
    """The entry of the old code that is nearest to every new one, as a new code."""
    ends = np.iinfo(x[1].dtype)
    old = _codes(np.arange(ends.min, ends.max + 1), x[1], x[0]) if x[0] is not x[1] else None
    entries = step.table if old is None else step.table[..., old.astype(np.int64) - ends.min]
    return np.ascontiguousarray(entries if y[0] is y[1] else _codes(entries, *y))
