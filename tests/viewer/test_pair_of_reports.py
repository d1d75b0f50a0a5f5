"""Two reports side by side: what is told of both, and by how much it differs."""

from __future__ import annotations

import math

import pytest

from calib8.run_report.facts import LayerFacts, PageFacts, Tried
from calib8.run_report.told import Figure
from calib8.viewer.pair import (
    Row,
    amount,
    attempt_rows,
    change,
    figure_rows,
    layer_pairs,
    method_rows,
    node_rows,
    other_samples,
    time_rows,
)

PLAIN = PageFacts("t", "quantize", "kept", "kept", "")


def layer(name: str, local: float | None, cumulative: float | None = None) -> LayerFacts:
    return LayerFacts(name, "Conv", "int8", local, cumulative, None)


def told_by(command: str, *figures: Figure) -> PageFacts:
    return PageFacts("t", command, "kept", "kept", "", figures)


def test_figures_of_other_samples_are_told_apart() -> None:
    made = told_by(
        "quantize",
        Figure("size", "1 kB", "of 3 kB"),
        Figure("agreement", "97.00 %", "against FP32, on 32 samples"),
    )
    judged = told_by("evaluate", Figure("agreement", "96.00 %", "int8.onnx, 400 samples"))
    assert other_samples(made, judged) == (
        "A was measured on 32 samples by quantize, B on 400 samples by evaluate: "
        "what differs below comes from the samples too."
    )
    assert other_samples(made, made) == ""
    assert other_samples(made, told_by("quantize", Figure("size", "2 kB", "of 4 kB"))) == ""


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("97.00 %", 97.0), ("41.2 dB", 41.2), ("-3.0 dB", -3.0), ("1.2 MB", 1.2e6), ("52.3 kB", 52_300.0),
        ("12 bytes", 12.0), ("7 of 9 nodes", 7.0), ("exact", math.inf), ("–", None), ("not finite", None),
        ("12,345 images/s", 12_345.0), ("", None), ("0.12345", 0.12345),
    ],
)  # fmt: skip
def test_the_number_of_a_figure(value: str, number: float | None) -> None:
    assert amount(value) == number


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        ("97.00 %", "98.50 %", "+1.50 points"), ("41.2 dB", "40.0 dB", "−1.2 dB"), ("8", "9", "+1"),
        ("0.5", "0.25", "−0.25"), ("1.2 MB", "900.0 kB", ""), ("97.00 %", "97.00 %", ""), ("–", "3 %", ""),
        ("exact", "41.2 dB", ""), ("7 of 9 nodes", "8 of 9 nodes", ""),
    ],
)  # fmt: skip
def test_the_change_of_a_figure(left: str, right: str, told: str) -> None:
    assert change(left, right) == told


def test_figures_of_both_and_of_one_alone() -> None:
    left = (Figure("agreement", "97.00 %"), Figure("SQNR of boxes", "30.0 dB"), Figure("old", "1"))
    right = (Figure("agreement", "99.00 %"), Figure("SQNR of boxes", "30.0 dB"), Figure("new", "2"))
    rows = figure_rows(left, right)
    assert rows == (
        Row("agreement", "97.00 %", "99.00 %", "+2.00 points"),
        Row("SQNR of boxes", "30.0 dB", "30.0 dB"),
        Row("old", "1", "–"),
        Row("new", "–", "2"),
    )
    assert [row.differs for row in rows] == [True, False, True, True]


def test_a_label_that_comes_twice_is_kept_apart() -> None:
    rows = figure_rows((Figure("a", "1"), Figure("a", "2")), (Figure("a", "3"),))
    assert [(row.label, row.left, row.right) for row in rows] == [("a", "1", "3"), ("a (2)", "2", "–")]


def test_layers_the_greatest_loss_first() -> None:
    left = [layer("same", 30.0), layer("better", 20.0), layer("worse", 40.0), layer("left", 10.0),
            layer("unknown", None), layer("exact", math.inf), layer("lost", math.inf)]  # fmt: skip
    right = [layer("right", 10.0), layer("worse", 10.0), layer("better", 25.0), layer("same", 30.0),
             layer("unknown", 5.0), layer("exact", math.inf), layer("lost", 20.0)]  # fmt: skip
    pairs = layer_pairs(left, right)
    assert [(one.known.name, one.change) for one in pairs] == [
        ("lost", -math.inf), ("worse", -30.0), ("same", 0.0), ("exact", 0.0), ("better", 5.0),
        ("unknown", None), ("left", None), ("right", None),
    ]  # fmt: skip
    assert pairs[-1].left is None and pairs[-2].right is None


def test_layers_of_one_name_are_paired_in_their_order() -> None:
    pairs = layer_pairs([layer("a", 1.0), layer("a", 2.0)], [layer("a", 1.0), layer("a", 1.0)])
    assert [(one.left.local_db, one.change) for one in pairs if one.left is not None] == [
        (2.0, -1.0),
        (1.0, 0.0),
    ]


def test_counts_times_methods_and_attempts() -> None:
    left = PageFacts(
        "a", "quantize", "kept", "kept", "", nodes=(("float", 2), ("input", 1), ("int8", 7)),
        seconds=(("calibrating", 1.0), ("repair", 2.0)), methods=(("mse", 4),),
        attempts=(Tried("bias", 20.0, 22.5, True), Tried("round", None, None, False)),
    )  # fmt: skip
    right = PageFacts(
        "b", "quantize", "kept", "kept", "", nodes=(("16 bit", 1), ("int8", 8)),
        seconds=(("calibrating", 1.5),), methods=(("mse", 3), ("minmax", 1)),
    )  # fmt: skip
    assert node_rows(left, right) == (
        Row("int8", "7", "8", "+1"), Row("16 bit", "0", "1", "+1"), Row("float", "2", "0", "−2"),
    )  # fmt: skip
    assert node_rows(PLAIN, right)[0] == Row("int8", "–", "8") and node_rows(PLAIN, PLAIN) == ()
    assert {row.label: row.change for row in time_rows(left, right)} == {
        "calibrating": "+0.50 s", "repair": "", "all": "−1.50 s",
    }  # fmt: skip
    assert [row.label for row in time_rows(right, left)] == ["calibrating", "repair", "all"]
    assert method_rows(left, right) == (Row("mse", "4", "3", "−1"), Row("minmax", "–", "1"))
    assert attempt_rows(left, right) == (
        Row("bias", "kept, 20.0 → 22.5 dB", "–"), Row("round", "not kept", "–"),
    )  # fmt: skip
