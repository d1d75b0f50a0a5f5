"""Labels that a float model itself does not find: which of its figures say so, and what to look at then.

Where it finds next to nothing of what is labelled, what it does find is chance, and so is every comparison of
INT8 with it: 1 % of 1 % may well be 107 % of FP32's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.number_texts import percent
from calib8.parameters import Text, parameter
from calib8.tasks.judges.interface import FIGURES

LEAST_MAP: Final = 0.05
"""mAP@[.5:.95] of a float model that finds what is labelled: those that are used have 0.15 and more."""

_LEAST: Final[Mapping[str, tuple[str, float]]] = {
    "detect": ("map", LEAST_MAP),
    "keypoints": ("map", LEAST_MAP),
    "segment": ("miou", 0.1),
    "embed": ("verification", 0.6),
}
"""Task → figure against labels, and what lies below it: maps of other classes; pairs told apart by lot, which
is 0.5, and with few samples a little more."""

_MOST_ERRORS: Final = 0.75
"""Errors per character of lines of which none is right: those of another alphabet, or of other pictures."""

_CAUSES: Final[Mapping[str, str]] = {
    "detect": "with class numbers as the model counts them",
    "keypoints": "with the points in the order of the model",
    "segment": "with class numbers as the model counts them",
    "embed": "with one number for each identity",
    "ctc": "with the characters of this model, in its order",
}
"""Task → what may be wrong beside the pictures and their preprocessing."""


def is_found(task: str, figures: Mapping[str, float]) -> bool:
    """Whether figures of a float model against labels say that it finds what is labelled.

    Args:
        task: one of ``calib8.tasks.judges.interface.TASKS``.
        figures: names as in ``FIGURES``; what is not among them tells nothing.
    """
    if task == "ctc":
        return not (figures.get("lines") == 0.0 and figures.get("character_error", 0.0) > _MOST_ERRORS)
    figure, least = _LEAST.get(task, ("", 0.0))
    return figures.get(figure, least) >= least


def not_found(task: str, figures: Mapping[str, float], who: str = "FP32 itself") -> str:
    """A sentence where a model does not find what is labelled; empty where it does.

    Args:
        task, figures: see ``is_found``.
        who: the model, in words.
    """
    if is_found(task, figures):
        return ""
    figure = "character_error" if task == "ctc" else _LEAST[task][0]
    title, share = FIGURES[figure]
    value = percent(figures[figure]) if share else f"{figures[figure]:.4f}"
    return Text(
        f"{who} does not find these labels ({title} {value}): no figure by them tells what quantization "
        f"costs. {cure_of(task)}"
    )


def cure_of(task: str) -> str:
    """What to look at where a float model does not find what is labelled."""
    told = f"Check that the labels are of these pictures, {_CAUSES[task]}, and the preprocessing"
    return told + (f"; 'run' with {parameter('task', 'detect')} lists what it finds" * (task == "detect"))
