"""Two tables side by side: how far their ranges are apart, and what one of them lost on the way.

    ratio        larger magnitude of the one range / that of the other
    different    a bound differs by more than rounding to float32 explains (a relative 1e-6)

What a conversion loses is not listed but measured: its text is read back and compared with what went in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calib8.formats.table_file import TableFile, is_symmetric, listed
from calib8.table import CalibrationTable, Range

SAME: Final = 1e-6
"""Largest relative difference that counts as none."""


@dataclass(frozen=True)
class RangePair:
    """One tensor in two tables."""

    tensor: str
    left: Range
    right: Range

    @property
    def ratio(self) -> float | None:
        """Magnitude of the right one / that of the left one; None where one of them alone is 0."""
        if self.left.magnitude == 0 or self.right.magnitude == 0:
            return 1.0 if self.left.magnitude == self.right.magnitude else None
        return self.right.magnitude / self.left.magnitude

    @property
    def differs(self) -> bool:
        """A bound differs by more than rounding."""
        return not _same(self.left, self.right)

    @property
    def distance(self) -> float:
        """|ln ratio|, infinite where there is none."""
        return math.inf if self.ratio is None else abs(math.log(self.ratio))


@dataclass(frozen=True)
class Difference:
    """Two tables side by side.

    Attributes:
        pairs: tensors of both, largest distance first.
        only_left, only_right: tensors of one of them, by name.
    """

    pairs: tuple[RangePair, ...]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """There is any difference at all."""
        return bool(self.only_left or self.only_right or any(pair.differs for pair in self.pairs))


def difference(left: CalibrationTable, right: CalibrationTable) -> Difference:
    """What two tables have of the same tensors, and what only one of them has."""
    names, others = set(left.entries), set(right.entries)
    pairs = [RangePair(name, left.entries[name].range, right.entries[name].range) for name in names & others]
    pairs.sort(key=lambda pair: (-pair.distance, not pair.differs, pair.tensor))
    return Difference(tuple(pairs), tuple(sorted(names - others)), tuple(sorted(others - names)))


def losses(before: TableFile, after: CalibrationTable, keeps_weights: bool) -> list[str]:
    """What a conversion lost, one phrase each.

    Args:
        before: what went in, called after tensors.
        after: what came out, read back and called after tensors.
        keeps_weights: the new file has scales of weights itself.
    """
    tensors, zero_points, precision, widths = [], [], [], []
    for name, entry in before.table.entries.items():
        found = after.entries.get(name)
        if found is None:
            tensors.append(name)
        elif _same(entry.range, found.range):
            continue
        elif entry.range.magnitude == 0:
            widths.append(name)
        elif is_symmetric(found.range) and not is_symmetric(entry.range):
            zero_points.append(name)
            if not _close(entry.range.magnitude, found.range.magnitude):
                precision.append(name)
        else:
            precision.append(name)
    lost = {"": tensors, "the zero points of ": zero_points, "the exact bounds of ": precision}
    phrases = [f"{what}{_ranges(names)} ({listed(names)})" for what, names in lost.items() if names]
    if widths:
        get = "gets" if len(widths) == 1 else "get"
        phrases.append(
            f"that only 0 was seen in {_ranges(widths)}, which {get} the scale 1 ({listed(widths)})"
        )
    if before.weight_scales and not keeps_weights:
        scales = sum(len(values) for values in before.weight_scales.values())
        phrases.append(f"{scales} channel scales of {len(before.weight_scales)} weights")
    return phrases


def _ranges(names: Sequence[str]) -> str:
    return "1 range" if len(names) == 1 else f"{len(names)} ranges"


def _same(left: Range, right: Range) -> bool:
    """Both bounds are equal but for rounding to float32."""
    return _close(left.min, right.min) and _close(left.max, right.max)


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=SAME)
