"""The page is whole: valid HTML, the numbers in it, nothing asked from the network, names harmless."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_statistics import distributions, statistics_of

from calib8.calibration.choose import choose_table
from calib8.data.presets import preset
from calib8.errors import OutputError
from calib8.pipeline import calibrate
from calib8.qparams import UINT8
from calib8.report.page import chart_library, check_report_installed, page, write_page
from calib8.report.pictures import TensorPicture, pictures
from html_reader import Reader, assert_whole

NASTY = "</script><img src=x onerror=alert(1)> & \"'\u202e\ud800\n\x00é"


def drawn(**tensors: np.ndarray) -> tuple[TensorPicture, ...]:
    statistics = statistics_of(**tensors)
    return pictures(statistics, choose_table(statistics, UINT8, "entropy"), UINT8)


@pytest.fixture(scope="module")
def text() -> str:
    return page(drawn(**distributions(), **{NASTY: np.ones(3, np.float32)}), title=NASTY, facts=[NASTY])


@pytest.fixture(scope="module")
def read(text: str) -> Reader:
    return Reader(text)


def test_every_element_is_closed_and_every_id_is_there_once(read: Reader) -> None:
    assert_whole(read)


def test_the_script_finds_the_elements_that_it_asks_for(text: str, read: Reader) -> None:
    ids = {attributes.get("id") for _, attributes in read.elements}
    asked = set(re.findall(r'(?:element|numbers|draw)\("([a-z-]+)"[,)]', text))
    assert {"index", "search", "histogram-chart", "curve-chart", "summary-chart"} <= asked <= ids


def test_nothing_is_asked_from_the_network(read: Reader) -> None:
    for tag, attributes in read.elements:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    policies = [a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]


def test_the_chart_library_is_there_once(text: str) -> None:
    assert text.count(chart_library()) == 1


def test_names_cannot_break_out(text: str, read: Reader) -> None:
    assert "<img" not in text.replace(chart_library(), "")
    assert text.encode("utf-8")  # a lone surrogate would not be text
    names = [a["data-name"] for _, a in read.elements if "data-name" in a]
    assert any("onerror" in name for name in names)
    assert not any("\u202e" in name or "\n" in name for name in names)


def test_the_numbers_of_every_tensor_are_in_a_script_of_its_own(read: Reader) -> None:
    tensors = drawn(**distributions(), **{NASTY: np.ones(3, np.float32)})
    data = {name: json.loads(text) for name, text in read.data.items()}
    rows = [a for tag, a in read.elements if tag == "tr" and "data-index" in a]
    assert len(data) == len(tensors) + 1 and len(rows) == len(tensors)
    for index, (tensor, row) in enumerate(zip(tensors, rows, strict=True)):
        found = data[f"tensor-{index}"]
        assert found["name"] == tensor.name
        assert tuple(found["histogram"]["counts"]) == tensor.histogram.counts
        assert found["chosen"]["threshold"] == tensor.chosen.range.magnitude
        assert [m["method"] for m in found["methods"]] == [c.method for c in tensor.methods]
        assert found["mse"]["e"] == pytest.approx(tensor.mse.errors, rel=1e-5)
        assert found["kl"]["t"] == pytest.approx(tensor.kl.thresholds, rel=1e-5)
        assert (row["data-index"], float(row["data-lost"] or 0)) == (str(index), tensor.lost)
    summary = data["summary-data"]
    assert summary["names"] == [tensor.name for tensor in tensors]
    assert summary["chosen"][summary["names"].index("zeros")] is None
    minmax = next(m for m in summary["methods"] if m["method"] == "minmax")
    assert {ratio for ratio in minmax["ratios"] if ratio is not None} == {1.0}


def test_equal_pictures_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_page(tmp_path / name, drawn(**distributions()), title="t", facts=["f"])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_no_tensor_at_all_is_a_page_too() -> None:
    assert Reader(page((), title="none")).open == []


def test_an_old_page_stays_when_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write_page(tmp_path / "missing" / "page.html", (), title="t")


def test_a_missing_plotly_is_told_with_the_cure() -> None:
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "from calib8.report.page import chart_library, check_report_installed\n"
        "for f in (chart_library, check_report_installed):\n"
        "    try: f()\n"
        "    except Exception as e: print(type(e).__name__, e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message = "UsageError plots: the package plotly is not installed. Run: pip install 'calib8[report]'.\n"
    assert done.stdout == 2 * message
    check_report_installed()


@pytest.mark.slow
def test_a_real_network(shared_data: Path, tmp_path: Path) -> None:
    found = calibrate(
        shared_data / "models/efficientnet_lite0.onnx",
        shared_data / "imagenet/calib",
        preprocess=preset("efficientnet_lite"),
        samples=2,
        method="entropy",
    )
    shown = pictures(found.statistics, found.table, UINT8)
    write_page(tmp_path / "page.html", shown, title="efficientnet_lite0")
    assert (tmp_path / "page.html").stat().st_size < len(chart_library()) + 30_000 * len(shown)
    read = Reader((tmp_path / "page.html").read_text(encoding="utf-8"))
    rows = [a for tag, a in read.elements if tag == "tr" and "data-index" in a]
    assert [a["data-name"] for a in rows] == sorted(found.table.entries)
    clipped = {a["data-name"]: float(a["data-saturated"] or -1) for a in rows}
    assert clipped == {name: entry.clipped for name, entry in found.table.entries.items()}
    assert max(clipped.values()) > 0.0
