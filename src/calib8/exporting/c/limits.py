"""Refuses C code that does not fit, with what takes the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calib8.errors import UnsupportedModelError
from calib8.exporting.c.memory import Tensors, fullest
from calib8.exporting.c.text import said
from calib8.exporting.c.unit import Stored, Unit
from calib8.parameters import parameter
from calib8.program.program import Program

LISTED: Final = 12
"""Tensors or constants that a message lists; the others are summed up."""


def check_limits(
    program: Program,
    unit: Unit,
    found: Tensors,
    arena_bytes: int,
    limits: tuple[int | None, int | None],
    name: str,
) -> None:
    """Refuses an arena or constants that are larger than what there is.

    Args:
        program: with its instructions.
        unit: with what is stored in flash.
        found: what lives in the arena, and when.
        arena_bytes: of the loops of the file.
        limits: bytes of the arena and of flash; None: enough.
        name: of the model.

    Raises:
        UnsupportedModelError: with the tensors that live at the fullest time, or the constants, largest
            first.
    """
    arena_limit, flash_limit = limits
    flash_bytes = sum(stored.bytes for stored in unit.stored)
    problems, cures = [], []
    if arena_limit is not None and arena_bytes > arena_limit:
        problems.append(_of_arena(program, found, arena_bytes, arena_limit))
        cures.append("give it smaller inputs or fewer channels")
    if flash_limit is not None and flash_bytes > flash_limit:
        problems.append(_of_flash(unit.stored, flash_bytes, flash_limit))
        cures.append("take a network with fewer weights")
    if problems:
        cure = f"{' and '.join(cures)}, or allow more".capitalize()
        raise UnsupportedModelError(name, "; ".join(problems), cure)


def _of_arena(program: Program, found: Tensors, size: int, limit: int) -> str:
    time, places = fullest(found)
    step = program.instructions[time - 1] if time else None
    when = (
        "as the inputs are filled"
        if step is None
        else f"while '{said(step.name)}' ({type(step).__name__}) runs"
    )
    parts = [(f"'{said(program.slots[place].name)}'", found.lives[place].size) for place in places]
    over = f"the arena takes {size:,} bytes, more than {parameter('arena_limit', limit)}"
    return f"{over}; most of it lives {when}: {_listed(parts)}"


def _of_flash(stored: Sequence[Stored], size: int, limit: int) -> str:
    order = sorted(stored, key=lambda one: (-one.bytes, one.name))
    parts = [(f"{one.name} of '{said(one.of)}'", one.bytes) for one in order]
    over = f"constants take {size:,} bytes of flash, more than {parameter('flash_limit', limit)}"
    return f"{over}: {_listed(parts)}"


def _listed(parts: Sequence[tuple[str, int]]) -> str:
    texts = [f"{name} {size:,}" for name, size in parts[:LISTED]]
    rest = parts[LISTED:]
    if rest:
        texts.append(f"{len(rest)} more {sum(size for _, size in rest):,}")
    return ", ".join(texts)
