"""What a page shows and what was printed: are they alike?"""

from __future__ import annotations

import contextlib
import math
import re

SPEED = re.compile(r"\d+\.\d(?=\s+\d+\.\d kB)")
"""Images per second: the figure before the size."""

TOKEN = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?|\w+|[^\w\s]")

DIGITS = 5e-3
"""Relative; float inference on other CPUs differs in later digits only."""

INT8_DIGITS = 0.1
"""Relative; what ONNX Runtime computes from codes may differ more between types of CPU."""


def alike(shown: str, printed: str, tolerance: float = DIGITS) -> bool:
    """Equal but for white space, the speed and, within the tolerance, numbers; ``…`` stands for anything."""
    given = TOKEN.findall(SPEED.sub("speed", printed))
    pieces = [TOKEN.findall(piece) for piece in SPEED.sub("speed", shown).split("…")]
    position = 0
    for index, piece in enumerate(pieces):
        last = len(given) - len(piece)
        starts = range(position, last + 1) if index else range(min(1, last + 1))
        if index == len(pieces) - 1:
            starts = range(last, last + 1) if last in starts else range(0)
        found = [s for s in starts if all(same(a, b, tolerance) for a, b in zip(piece, given[s:]))]  # noqa: B905
        if not found:
            return False
        position = found[0] + len(piece)
    return True


def same(left: str, right: str, tolerance: float) -> bool:
    with contextlib.suppress(ValueError):
        return left == right or math.isclose(float(left), float(right), rel_tol=tolerance, abs_tol=2e-5)
    return False
