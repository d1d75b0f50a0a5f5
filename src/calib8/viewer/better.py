"""Which of two models is better, in one sentence: by their verdicts, else by the first figure that differs.

Figures of other data, of other networks and of other tasks say nothing of that, and the sentence says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from calib8.run_report.facts import PageFacts
from calib8.tasks.judges.interface import FIGURES
from calib8.tasks.limits import badness
from calib8.viewer.pair import MEASURED, amount, other_samples

SMALLER_IS_BETTER: Final = frozenset(FIGURES[name][0] for name in ("character_error", "missed", "made_up"))

_JUDGED: Final = frozenset(noun for noun, _ in FIGURES.values())
_SQNR: Final = "SQNR of "


def which_is_better(left: PageFacts, right: PageFacts) -> str:
    """A sentence on models A, the left one, and B."""
    why = _not_comparable(left, right)
    if why:
        return f"Which model is better cannot be told: {why}."
    one, other = badness(left.state), badness(right.state)
    figure = _deciding(left, right)
    if one != other and "unknown" not in (left.state, right.state):
        better, words = ("A", (left.word, right.word)) if one > other else ("B", (right.word, left.word))
        told = f": {_told(figure, better)}" if figure else ""
        return f"{better} is better by its verdict: {words[0]}, the other {words[1]}{told}."
    same = f"; both are {left.word}" if left.word == right.word and left.state != "unknown" else ""
    if figure is None:
        return f"A and B are equally good by all figures that both tell{same}."
    better = "A" if _is_better(figure) else "B"
    return f"{better} is better by its {_told(figure, better)}{same}."


_Figure = tuple[str, str, str]
"""Label, and the values of A and B in words."""


def _not_comparable(left: PageFacts, right: PageFacts) -> str:
    """Why the figures of both say nothing of each other; empty where they do."""
    data = [_options(facts).get("data", "") for facts in (left, right)]
    if all(data) and data[0] != data[1]:
        return f"they were measured on other data, A on {data[0]}, B on {data[1]}"
    if other_samples(left, right):
        return "they were measured on other samples"
    layers = [{layer.name for layer in facts.layers} for facts in (left, right)]
    if all(layers) and not layers[0] & layers[1]:
        return "they are other networks, no layer of A has the name of one of B"
    one, other = _measured(left), _measured(right)
    if not one or not other:
        return f"{'A' if not one else 'B'} tells no figure of accuracy"
    if not one.keys() & other.keys():
        return f"they have other tasks, A is judged by {', '.join(one)}, B by {', '.join(other)}"
    return ""


def _options(facts: PageFacts) -> dict[str, str]:
    return {one.label: one.value for one in facts.options}


def _measured(facts: PageFacts) -> dict[str, str]:
    """Figures of accuracy in words, in their order on the page; of one name the first."""
    found: dict[str, str] = {}
    for one in facts.figures:
        of_accuracy = one.label.startswith(MEASURED) or one.label in _JUDGED
        if of_accuracy and amount(one.value) is not None:
            found.setdefault(one.label, one.value)
    return found


def _deciding(left: PageFacts, right: PageFacts) -> _Figure | None:
    """The first figure that differs, of several branches the worst; None where none does."""
    one, other = _measured(left), _measured(right)
    common = [label for label in one if label in other]
    plain = [label for label in common if not label.startswith(_SQNR)]
    told = [(label, one[label], other[label]) for label in plain]
    branches = [label for label in common if label.startswith(_SQNR)]
    told += _worst_first(branches, one, other)
    return next((figure for figure in told if amount(figure[1]) != amount(figure[2])), None)


def _worst_first(labels: list[str], one: Mapping[str, str], other: Mapping[str, str]) -> list[_Figure]:
    """Branches, that in which either model loses most first."""

    def least(label: str) -> float:
        found = (amount(one[label]), amount(other[label]))
        return min(math.inf if value is None else value for value in found)

    return [(label, one[label], other[label]) for label in sorted(labels, key=least)]


def _is_better(figure: _Figure) -> bool:
    """A is the better one."""
    label, left, right = figure
    one, other = amount(left), amount(right)
    assert one is not None and other is not None
    return one < other if label in SMALLER_IS_BETTER else one > other


def _told(figure: _Figure, first: str) -> str:
    """Such as ``agreement, 97.20 % against 96.00 %``, the better model's first."""
    label, left, right = figure
    values = (left, right) if first == "A" else (right, left)
    return f"{label}, {values[0]} against {values[1]}"
