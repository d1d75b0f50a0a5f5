"""Classes of a classifier in a report: which of them lose most, and what they are taken for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calib8.analysis.by_class import ClassFigures
from calib8.analysis.evaluation import Evaluation
from calib8.number_texts import percent
from calib8.run_report.marked_up import Words, note, section, table
from calib8.run_report.told import Classes, ClassRow

SHOWN: Final = 20
"""Rows of the table."""


def classes_of(found: Sequence[Evaluation]) -> Classes | None:
    """The classes of the first int8 model, or of the only one; None where there are none to tell.

    Args:
        found: one per model.
    """
    compared = [one for one in found if one.classes and one.agreement is not None]
    judged = compared[0] if compared else next((one for one in found if one.classes), None)
    if judged is None:
        return None
    moved = [one for one in judged.classes if one.lost or one.won] if compared else []
    told = moved or judged.classes
    rows = tuple(_row(one, compared=bool(compared)) for one in told[:SHOWN])
    return Classes(rows, len(judged.classes), "labels" if judged.labelled else "FP32", bool(compared))


def _row(one: ClassFigures, *, compared: bool) -> ClassRow:
    before = f"{percent((one.right + one.lost - one.won) / one.samples, 1)}" if compared else ""
    after = f"{percent(one.right / one.samples, 1)} ({one.right} of {one.samples})"
    taken = ", ".join(f"{name} ({count}×)" for name, count in one.taken_for)
    return ClassRow(one.name, before, after, one.lost, one.won, taken)


def classes_section(told: Classes | None, say: Words) -> str:
    """The table, worst classes first; nothing without classes."""
    if told is None:
        return ""
    more = told.count - len(told.rows)
    if any(one.lost or one.won for one in told.rows):
        rest = f"; the other {more} lost and won less or nothing" if more else ""
        text = f"those that lose most come first{rest}. "
    else:
        rest = f"; {more} more classes are not shown" if more else ""
        nothing = "no class lost or won a sample; " if told.compared else ""
        text = f"{nothing}those that are right least often come first{rest}. "
    text += "Right: by the labels." if told.by == "labels" else "There are no labels: right is FP32's class."
    text += " Taken for: the classes that its samples get in place of it, and how often."
    of_float = ["right in FP32"] if told.compared else []
    moved = ["lost", "won"] if told.compared else []
    rows = (
        [say(one.name)]
        + [say(one.before)] * told.compared
        + [say(one.after)]
        + [str(one.lost), str(one.won)] * told.compared
        + [say(one.taken_for) or "–"]
        for one in told.rows
    )
    columns = ("class", *of_float, "right in int8" if told.compared else "right", *moved, "taken for")
    body = f"{note(text[0].upper() + text[1:], say)}\n"
    body += table("Classes", columns, rows, left=(len(columns) - 1,))
    return section("classes", "Classes", body)
