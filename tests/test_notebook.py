"""Results show themselves: one line as text, small tables of plain HTML in notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calib8
from calib8.analysis import benchmark as measuring
from calib8.analysis.evaluation import Evaluation, Evaluations
from calib8.demo import CALIBRATION_PATH, HELDOUT_PATH, MODEL_PATH
from calib8.formats.table_file import entry_without_statistics
from calib8.notebook import LONGEST_SENTENCE, MOST_ROWS, MOST_SIGNS, facts, grid, in_notebook, notes
from calib8.parameters import Text, parameter
from calib8.table import CalibrationTable, Range
from calib8.tuning.judging import Figures
from calib8.tuning.promise import Promise
from calib8.tuning.trial import Settings, Trial

DIGITS = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
HOSTILE = "<script>alert('x')</script>&\"\n\x1b[31m\ud800"
ALLOWED = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


class Page(HTMLParser):
    """Tags in order and the texts between them; a tag that is not closed in turn is a failure."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.texts, self.rows = list[str](), list[str](), list[list[str]]()
        self._open = list[str]()
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert all(
            name == "style" and value in ("text-align:left", "text-align:right") for name, value in attrs
        )
        self.tags.append(tag)
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._open and self._open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def shown(result: Any) -> Page:
    """A result in a notebook; its line as text is one line."""
    line = repr(result)
    assert "\n" not in line and len(line) < 1000, line
    text = result._repr_html_()
    assert "http" not in text and len(text) < 100_000
    return Page(text)


def test_text_is_escaped_and_stays_on_one_line() -> None:
    told = (grid(("a",), [HOSTILE], lambda one: (one,)), facts([(HOSTILE, HOSTILE)]), notes([HOSTILE]))
    page = Page(in_notebook(f"<{HOSTILE}>", *told))
    assert "script" not in page.tags
    seen = "<script>alert('x')</script>&\"\\n\\x1b[31m\\ud800"
    assert page.texts.count(seen) == 5
    in_notebook(HOSTILE, *told).encode()


def test_long_tables_and_texts_are_cut() -> None:
    made = list[int]()

    def cells(number: int) -> tuple[object, ...]:
        made.append(number)
        return (number, "x" * 1000)

    page = Page(grid(("n", "text"), range(100), cells))
    assert len(page.rows) == 1 + MOST_ROWS and made == [*range(MOST_ROWS)]
    assert page.texts[-1] == "… and 80 more rows"
    assert page.rows[1] == ["0", "x" * (MOST_SIGNS - 1) + "…"]
    one_more = Page(grid(("n", "text"), range(MOST_ROWS + 1), cells))
    assert one_more.texts[-1] == "… and 1 more row"
    assert Page(notes(["y" * 1000] * 30)).texts == ["y" * (LONGEST_SENTENCE - 1) + "…"] * 20 + [
        "… and 10 more"
    ]


def test_nothing_to_show_shows_nothing() -> None:
    assert grid(("a",), [], lambda one: (one,)) == facts([]) == notes([]) == ""


def test_figures_stand_right_and_what_is_not_known_is_a_dash() -> None:
    values = (1234567, 0.5, "97.40 %", "−∞", None, True, "conv1", Text(parameter("batch", 1)))
    text = grid(("v",), values, lambda one: (one,))
    right = re.findall(r'<td style="text-align:right">(.*?)</td>', text)
    left = re.findall(r'<td style="text-align:left">(.*?)</td>', text)
    assert right == ["1,234,567", "0.5", "97.40 %", "−∞", "–"]
    assert left == ["yes", "conv1", "batch=1"]


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shown") / "int8.onnx"
    quantized().save(path)
    return path


def quantized() -> calib8.Quantization:
    return calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, method="minmax", effort="fast")


RESULTS: dict[str, Callable[[Path, Path], Any]] = {
    "Collection": lambda int8, out: calib8.collect_statistics(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8
    ),
    "Calibration": lambda int8, out: calib8.calibrate(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, method="minmax"
    ),
    "CalibrationTable": lambda int8, out: calib8.calibrate(
        MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, method="minmax"
    ).table,
    "Quantization": lambda int8, out: quantized(),
    "Evaluations": lambda int8, out: calib8.evaluate([MODEL_PATH, int8], HELDOUT_PATH, samples=20),
    "Comparison": lambda int8, out: calib8.compare(MODEL_PATH, int8, HELDOUT_PATH, samples=8),
    "Treatment": lambda int8, out: calib8.diagnose(MODEL_PATH, int8, CALIBRATION_PATH, samples=12),
    "Inspection": lambda int8, out: calib8.inspect(
        int8, HELDOUT_PATH, samples=8, target="tensorrt", program=True
    ),
    "Benchmark": lambda int8, out: calib8.benchmark(
        int8, runtimes=["calib8"], threads=1, rounds=1, profile=True
    ),
    "Compilation": lambda int8, out: calib8.compile(int8, out / "p.c8"),
    "Export": lambda int8, out: calib8.export(int8, out / "q.onnx", "qoperator"),
    "TableConversion": lambda int8, out: calib8.convert_table(
        calib8.calibrate(MODEL_PATH, CALIBRATION_PATH, preprocess=DIGITS, samples=8, method="minmax").table,
        out / "t", "tensorrt", lossy=True,
    ),
    "Preflight": lambda int8, out: calib8.preflight(MODEL_PATH, HELDOUT_PATH, preprocess=DIGITS),
}  # fmt: skip
"""Class of a result → what makes one."""


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_shows_itself(
    name: str, int8: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "VISIT_SECONDS", 0.0)
    result = RESULTS[name](int8, tmp_path)
    assert type(result).__name__ == name
    page = shown(result)
    assert len(page.rows) >= 2, "a table with something in it"
    assert name == "Evaluations" or repr(result).startswith(f"<{name}: ")


def test_other_files_that_are_inspected(int8: Path, tmp_path: Path) -> None:
    calib8.compile(int8, tmp_path / "p.c8")
    calib8.export(int8, tmp_path / "m.tflite", "tflite")
    for file, word in (("p.c8", "conv"), ("m.tflite", "CONV_2D")):
        page = shown(calib8.inspect(tmp_path / file))
        assert any(word in row[0] for row in page.rows), file
    assert any(row[1] == "Conv" for row in shown(calib8.inspect(MODEL_PATH)).rows if len(row) > 2)


def test_an_evaluation_is_a_list_and_each_of_it_shows_itself(int8: Path) -> None:
    found = calib8.evaluate([MODEL_PATH, int8], HELDOUT_PATH, samples=20)
    assert isinstance(found, list) and found == list(found)
    rows = shown(found).rows
    assert [row[0] for row in rows] == ["model", str(MODEL_PATH), str(int8)]
    assert rows[1][3] == f"{100 * (found[0].top1 or 0):.2f} %" and rows[1][5] == "–"
    assert [row[0] for row in shown(found[1]).rows] == ["model", str(int8)]
    crashed = Evaluation("m", "openvino", 0, None, None, None, None, None, failure="it was ended by SIGSEGV")
    assert repr(crashed) == "<Evaluation: 'm' in openvino: it was ended by SIGSEGV>"
    assert "m: it was ended by SIGSEGV" in shown(Evaluations([crashed])).texts


def test_names_in_results_cannot_break_a_page() -> None:
    entries = {HOSTILE: entry_without_statistics(Range(-1.0, 1.0), HOSTILE)}
    assert "script" not in shown(CalibrationTable("", entries)).tags
    result = Evaluation(HOSTILE, HOSTILE, 1, 0.5, None, None, None, 1.0, warnings=(HOSTILE,))
    assert "script" not in Page(result._repr_html_()).tags


def test_statistics_of_nothing_have_no_extremes() -> None:
    proto_inputs = {"input": np.full((2, 1, 16, 16), np.nan, np.float32)}
    found = calib8.collect_statistics(MODEL_PATH, [proto_inputs])
    assert any(row[2:] == ["–", "–"] for row in shown(found).rows)


def test_a_search_shows_its_trials() -> None:
    figures = Figures(99.0, 97.5, 99.0, None, 31.0, 200)
    settings = (Settings("fast"), Settings("best", floats=("conv1",)))
    costs, kept = (0.0, 0.25), (False, True)
    trials = tuple(
        Trial(one, figures, cost, is_kept, 1.0)
        for one, cost, is_kept in zip(settings, costs, kept, strict=True)
    )
    found = calib8.Tuning(
        Promise("agreement", 98.0), True, trials[1], trials, Path("out.onnx"), Path("out.tune"), None, 100,
        200, True, (f"a note on {HOSTILE}",),
    )  # fmt: skip
    assert repr(found) == (
        "<Tuning: agreement of at least 98 % kept: 99.00 %, at worst 97.50 %; 25.00 % of the MACs in float; "
        "'out.onnx'>"
    )
    rows = shown(found).rows
    assert rows[1:] == [
        ["fast", "0", "0.00 %", "99.00 %", "97.50 %", "no"],
        ["best", "1", "25.00 %", "99.00 %", "97.50 %", "yes *"],
    ]
