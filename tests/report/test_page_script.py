"""The figures that the page's script makes, run by Node.js and checked by plotly's own schema."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from example_statistics import distributions, statistics_of

import calib8.report.page
from calib8.calibration.choose import choose_table
from calib8.calibration.ranges import BEHIND, METHODS
from calib8.qparams import UINT8
from calib8.report.page import _document, _summary
from calib8.report.pictures import TensorPicture, pictures

DRAWN = [name for name in METHODS if name != BEHIND]
"""All that need nothing but the statistics."""

SCRIPT = Path(calib8.report.page.__file__).with_name("page.js")
NAMES = ("paper", "ink", "faint", "line", "bars", "edge", "clipped", "chosen", "kl", "mse")
COLORS = {**dict.fromkeys(NAMES, "#123456"), "methods": [f"#00000{n}" for n in range(8)]}

RUN = """
const page = require(process.argv[1]);
const { tensors, summary, colors } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const lines = [
  { index: 0, name: "b", lost: 0.5 }, { index: 1, name: "a", lost: 0.5 }, { index: 2, name: "c", lost: 0.9 },
];
const sorted = (key, down) => [...lines].sort(page.order(key, down)).map((line) => line.name).join("");
console.log(JSON.stringify({
  figures: tensors.map((t) => [page.histogramFigure(t, colors), page.curveFigure(t, colors)]),
  summary: page.summaryFigure(summary, colors),
  facts: tensors.map(page.factsOf), rows: tensors.map(page.methodRows), config: page.CONFIG,
  sorted: [sorted("name", false), sorted("name", true), sorted("lost", true), sorted("lost", false)],
  found: [["", "x"], ["b A", "a/B"], ["a c", "a/B"]].map(([words, text]) => page.matches(words, text)),
  label: page.label("<b>&"), short: page.shortened("0123456789".repeat(9)),
}));
"""


@pytest.fixture(scope="module")
def shown() -> tuple[TensorPicture, ...]:
    statistics = statistics_of(**distributions(), **{"<i>&": np.ones(4, np.float32)})
    return pictures(statistics, choose_table(statistics, UINT8, "entropy"), UINT8)


@pytest.fixture(scope="module")
def made(shown: tuple[TensorPicture, ...]) -> dict[str, Any]:
    """What the functions of the script give for the pictures."""
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("Node.js is missing: CI must run the script of the page")
        pytest.skip("Node.js is missing: the script of the page does not run here")
    given = {"tensors": [_document(t) for t in shown], "summary": _summary(shown), "colors": COLORS}
    done = subprocess.run(
        [node, "-e", RUN, str(SCRIPT)], input=json.dumps(given), capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_plotly_knows_every_property_of_the_figures(made: dict[str, Any]) -> None:
    for figure in [*(f for pair in made["figures"] for f in pair), made["summary"]]:
        go.Figure(figure)  # refuses unknown names and values


def test_all_values_and_all_methods_are_drawn(made: dict[str, Any], shown: tuple[TensorPicture, ...]) -> None:
    for tensor, (histogram, curves) in zip(shown, made["figures"], strict=True):
        bars, lines = histogram["data"][0], histogram["data"]
        assert sum(count or 0 for count in bars["y"]) + tensor.zeros == tensor.count
        assert [line["name"] for line in lines if line.get("name") in DRAWN] == DRAWN
        for choice in tensor.methods:
            x = next(line["x"] for line in lines if line.get("name") == choice.method)
            wanted = [b for b in (choice.range.min, choice.range.max) if b != 0]
            assert x == [value for bound in wanted for value in (bound, bound, None)]
        assert curves["data"][0]["x"] == pytest.approx(tensor.kl.thresholds, rel=1e-5)
        assert curves["data"][1]["y"] == pytest.approx(
            [e if e > 0 else None for e in tensor.mse.errors], rel=1e-5
        )


def test_what_is_clipped_is_shaded(made: dict[str, Any], shown: tuple[TensorPicture, ...]) -> None:
    for tensor, (histogram, _) in zip(shown, made["figures"], strict=True):
        shaded = sum(shape["x1"] - shape["x0"] for shape in histogram["layout"]["shapes"])
        length = tensor.observed.max - tensor.observed.min
        assert shaded == pytest.approx(tensor.lost * length, rel=1e-9, abs=1e-40)


def test_the_summary_has_a_place_for_every_tensor(made: dict[str, Any], shown) -> None:
    axis = made["summary"]["layout"]["yaxis"]
    assert len(axis["tickvals"]) == len(axis["ticktext"]) == len(shown)
    assert "&lt;i&gt;&amp;" in axis["ticktext"]
    assert [trace["name"] for trace in made["summary"]["data"]] == ["chosen", *DRAWN]


def test_sentences_and_rows(made: dict[str, Any], shown: tuple[TensorPicture, ...]) -> None:
    place = [t.name for t in shown].index("constant")
    assert made["facts"][place] == (
        "9 finite values, 0.0000 % of them 0; seen -3 … 0; chosen -3 … 0 by entropy; 0.0000 % clipped; "
        "0.0 % of the range lost"
    )
    assert made["rows"][place][1] == ["minmax", "-3", "0", "3", "1.0000", "0.0000"]
    assert all(len(rows) == 1 + len(DRAWN) for rows in made["rows"])


def test_sorting_searching_and_names(made: dict[str, Any]) -> None:
    assert made["sorted"] == ["abc", "cba", "cba", "bac"]
    assert made["found"] == [True, True, False]
    assert made["label"] == "&lt;b&gt;&amp;"
    assert len(made["short"]) <= 44 and "…" in made["short"]


def test_the_charts_send_nothing_to_a_server(made: dict[str, Any]) -> None:
    assert made["config"]["showSendToCloud"] is False
    assert made["config"]["plotlyServerURL"] == made["config"]["topojsonURL"] == ""
