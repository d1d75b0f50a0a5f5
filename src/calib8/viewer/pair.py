"""Two reports side by side, as values: what is told of both, and what differs.

change of a figure    right − left, where both are numbers of one unit
change of a layer     SQNR of the layer alone, right − left, in dB; the greatest loss first
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calib8.number_texts import NOTHING
from calib8.run_report.facts import LayerFacts, PageFacts
from calib8.run_report.told import Figure

_AMOUNT: Final = re.compile(r"(-?\d+(?:\.(\d+))?)( [^\d]*)?")
MEASURED: Final = ("SQNR", "agreement", "top-1")
"""Beginnings of the labels of figures that samples give."""

_SIZES: Final = {"bytes": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@dataclass(frozen=True)
class Row:
    """What both tell of one thing; ``NOTHING`` stands where one of them does not."""

    label: str
    left: str
    right: str
    change: str = ""

    @property
    def differs(self) -> bool:
        """They tell different things."""
        return self.left != self.right


@dataclass(frozen=True)
class LayerPair:
    """A layer in both models.

    Attributes:
        left, right: what is told of it; None where that model has none of its name.
        change: see the top of the file; None where it is not known.
    """

    left: LayerFacts | None
    right: LayerFacts | None
    change: float | None

    @property
    def known(self) -> LayerFacts:
        """One of both."""
        found = self.left or self.right
        assert found is not None
        return found


def amount(value: str) -> float | None:
    """The number of a figure in words, sizes in bytes; None where there is none: ``97.00 %`` → 97."""
    if value == "exact":
        return math.inf
    found = _AMOUNT.match(value.replace(",", ""))
    if found is None:
        return None
    return float(found[1]) * _SIZES.get((found[3] or "").strip(), 1.0)


def figure_rows(left: Sequence[Figure], right: Sequence[Figure]) -> tuple[Row, ...]:
    """Figures of both, those of the left one first."""
    one, other = _by_label(left), _by_label(right)
    return tuple(
        Row(label, one.get(label, NOTHING), other.get(label, NOTHING),
            change(one.get(label, ""), other.get(label, "")))
        for label in dict.fromkeys((*one, *other))
    )  # fmt: skip


def other_samples(left: PageFacts, right: PageFacts) -> str:
    """A sentence where the same figures of both stand on other samples, as their notes tell; else empty."""
    notes = [
        {one.label: one.note for one in facts.figures if one.note and amount(one.value) is not None}
        for facts in (left, right)
    ]
    for label, note in notes[0].items():
        other = notes[1].get(label, note)
        if label.startswith(MEASURED) and note != other:
            told = f"A was measured {_where(note)} by {left.command}, B {_where(other)} by {right.command}"
            return f"{told}: what differs below comes from the samples too."
    return ""


def _where(note: str) -> str:
    """``against FP32, on 32 samples`` → ``on 32 samples``."""
    last = note.rsplit(", ", 1)[-1]
    return last if last.startswith("on ") else f"on {last}"


def _by_label(figures: Iterable[Figure]) -> dict[str, str]:
    """Label → value; a label that comes twice is numbered."""
    found: dict[str, str] = {}
    for one in figures:
        label, number = one.label, 2
        while label in found:
            label, number = f"{one.label} ({number})", number + 1
        found[label] = one.value
    return found


def change(left: str, right: str) -> str:
    """From one figure in words to another one: ``+1.50 points``; empty for equal ones and other units."""
    one, other = _AMOUNT.fullmatch(left), _AMOUNT.fullmatch(right)
    if one is None or other is None or one[3] != other[3] or left == right:
        return ""
    digits = max(len(one[2] or ""), len(other[2] or ""))
    unit = " points" if one[3] == " %" else one[3] or ""
    return f"{float(other[1]) - float(one[1]):+.{digits}f}{unit}".replace("-", "−")


def node_rows(left: PageFacts, right: PageFacts) -> tuple[Row, ...]:
    """How many nodes compute in which precision."""
    names = [
        name for name in ("int8", "16 bit", "float") if name in {**dict(left.nodes), **dict(right.nodes)}
    ]
    return figure_rows(*([Figure(name, str(dict(one.nodes).get(name, 0))) for name in names]
                         if one.nodes else [] for one in (left, right)))  # fmt: skip


def time_rows(left: PageFacts, right: PageFacts) -> tuple[Row, ...]:
    """Seconds of the stages, then of all of them."""
    stages = ([Figure(stage, _seconds(time)) for stage, time in told.seconds] for told in (left, right))
    sums = (
        [Figure("all", _seconds(sum(time for _, time in told.seconds)))] if told.seconds else []
        for told in (left, right)
    )
    return (*figure_rows(*stages), *figure_rows(*sums))


def _seconds(time: float) -> str:
    return f"{time:.2f} s"


def method_rows(left: PageFacts, right: PageFacts) -> tuple[Row, ...]:
    """Of how many tensors each method chose the range."""
    return figure_rows(*([Figure(name, str(count)) for name, count in one.methods] for one in (left, right)))


def attempt_rows(left: PageFacts, right: PageFacts) -> tuple[Row, ...]:
    """Repairs or remedies, and whether they were kept."""
    both = []
    for told in (left, right):
        both.append([Figure(one.name, _gain(one.before_db, one.after_db, one.kept)) for one in told.attempts])
    return tuple(Row(one.label, one.left, one.right) for one in figure_rows(*both))


def _gain(before: float | None, after: float | None, kept: bool) -> str:
    word = "kept" if kept else "not kept"
    return word if before is None or after is None else f"{word}, {before:.1f} → {after:.1f} dB"


def layer_pairs(left: Sequence[LayerFacts], right: Sequence[LayerFacts]) -> tuple[LayerPair, ...]:
    """Layers by their names, the greatest loss first; last those that one of both does not know."""
    one, other = _numbered(left), _numbered(right)
    pairs = [
        LayerPair(one.get(key), other.get(key), _change(one.get(key), other.get(key)))
        for key in dict.fromkeys((*one, *other))
    ]
    return tuple(sorted(pairs, key=_rank))


def _rank(pair: LayerPair) -> tuple[int, float]:
    missing = (pair.left is None) + (pair.right is None)
    return (missing + (pair.change is None), 0.0 if pair.change is None else pair.change)


def _numbered(layers: Iterable[LayerFacts]) -> Mapping[tuple[str, int], LayerFacts]:
    """By name; of several of one name also by how many came before."""
    counts: dict[str, int] = {}
    found = {}
    for layer in layers:
        found[layer.name, counts.get(layer.name, 0)] = layer
        counts[layer.name] = counts.get(layer.name, 0) + 1
    return found


def _change(left: LayerFacts | None, right: LayerFacts | None) -> float | None:
    if left is None or right is None or left.local_db is None or right.local_db is None:
        return None
    return 0.0 if left.local_db == right.local_db else right.local_db - left.local_db
