"""Numbers in words: rounded as NumPy rounds them, with their unit or without, and the same everywhere."""

from __future__ import annotations

import ast
import math
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from calib8.number_texts import NOTHING, count, decibels, decibels_cell, percent, percent_cell
from calib8.type_texts import a_type

SOURCE = Path(__file__).parents[1] / "src" / "calib8"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images"), (1234567, "1,234,567 images")]
)
def test_counts(number: int, text: str) -> None:
    assert count(number, "image") == text


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(0.974, 2, "97.40"), (1.0, 2, "100.00"), (0.0, 1, "0.0"), (1 / 3, 4, "33.3333"), (-0.01, 1, "-1.0")],
)
def test_shares(share: float, digits: int, text: str) -> None:
    assert percent_cell(share, digits) == text
    assert percent(share, digits) == f"{text} %"


@pytest.mark.parametrize(
    ("value", "text", "cell"),
    [
        (41.234, "41.2 dB", "41.23"),
        (-3.0, "-3.0 dB", "-3.00"),
        (math.inf, "exact", "∞"),
        (-math.inf, "not finite", "−∞"),
        (math.nan, NOTHING, NOTHING),
    ],
)
def test_decibels(value: float, text: str, cell: str) -> None:
    assert (decibels(value), decibels_cell(value)) == (text, cell)


def test_what_is_not_known_is_a_dash() -> None:
    assert {percent(None), percent_cell(None), decibels(None), decibels_cell(None)} == {NOTHING}


def test_no_other_module_has_formatters_of_these_names() -> None:
    names = {"count", "percent", "percent_cell", "decibels", "decibels_cell"}
    found = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if (name := _text_made_by(node)) in names
    }
    assert found == {f"number_texts.py: {name}" for name in names}


def _text_made_by(node: ast.stmt) -> str:
    """The name of a function that returns a text; empty for anything else."""
    if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "str":
        return node.name
    return ""


def test_types_have_their_article() -> None:
    words = [a_type(value) for value in (3, 3.0, [], {}, np.zeros(2), object(), "text", OrderedDict())]
    assert words == [
        "an int", "a float", "a list", "a dict", "an ndarray", "an object", "a str", "an OrderedDict",
    ]  # fmt: skip


def test_counts_of_nouns_without_a_plain_plural() -> None:
    assert [count(number, "class", "classes") for number in (1, 2)] == ["1 class", "2 classes"]
