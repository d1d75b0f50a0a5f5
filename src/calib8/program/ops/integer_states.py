"""What recurrent layers of integers share: codes of both signs, sizes of sequences, states.

uint8 codes = int8 codes + 128, zero points likewise
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.rules import I8
from calib8.program.slot import Slot

SHIFT: Final = 128
"""uint8 codes less int8 codes."""


def signed(codes: npt.NDArray[Any]) -> I8:
    """8-bit codes as int8."""
    return codes if codes.dtype == np.int8 else (codes ^ SHIFT).view(np.int8)


def unsigned(codes: I8) -> npt.NDArray[np.uint8]:
    """int8 codes as uint8."""
    return np.bitwise_xor(codes.view(np.uint8), np.uint8(SHIFT))


def signed_point(slot: Slot) -> int:
    """Zero point of the codes as int8."""
    return slot.zero_point - (SHIFT if slot.dtype == "uint8" else 0)


def sequence_sizes(step: Step) -> tuple[int, int, int]:
    """Sizes of the sequence that a layer reads.

    Raises:
        ModelError: it has other axes.
    """
    source = step.inputs[0]
    if len(source.shape) != 3:
        problem = f'has "{source.name}", {source.dtype} of shape {list(source.shape)}'
        raise step.error(problem, "Sequences have 3 axes")
    first, second, inputs = source.shape
    return first, second, inputs


def check_states(step: Step, first: Sequence[str], hidden: Shape, cell: Shape, scale: float) -> None:
    """Refuses states whose slots do not fit: h has the codes of the result, c 16 bits of this scale.

    Raises:
        ModelError: names the slot.
    """
    if first not in ((), ("h",), ("c",), ("h", "c")):
        raise step.error(f"reads {', '.join(first)}", "Each once, in the order h, c")
    if len(step.inputs) != 1 + len(first):
        raise step.error(f"reads {len(step.inputs)} slots", f"It reads {', '.join(('x', *first))}")
    for name, slot in zip(first, step.inputs[1:], strict=True):
        if name == "h":
            _check_hidden(step, slot, hidden)
        else:
            check_wide_state(step, slot, cell, scale)
    for slot in step.outputs[1:]:
        check_wide_state(step, slot, cell, scale)


def _check_hidden(step: Step, slot: Slot, shape: Shape) -> None:
    result = step.output
    alike = (slot.dtype, slot.zero_point) == (result.dtype, result.zero_point)
    if slot.shape != shape or not alike or not np.array_equal(slot.scales, result.scales):
        problem = f'reads h as "{slot.name}", {slot.dtype} of shape {list(slot.shape)}'
        raise step.error(problem, f'It has the codes of "{result.name}" and shape {list(shape)}')


def check_wide_state(step: Step, slot: Slot, shape: Shape, scale: float) -> None:
    """Refuses a state of 16 bits that is not int16 of this shape and scale with the zero point 0.

    Raises:
        ModelError: names the slot.
    """
    fits = slot.is_wide and slot.shape == shape and not slot.zero_point and slot.scale == scale
    if not fits:
        what = f"{slot.dtype} of shape {list(slot.shape)}"
        cure = f"It is int16 {list(shape)} of scale {scale:.6g} and zero point 0"
        raise step.error(f'has the state "{slot.name}", {what}', cure)
