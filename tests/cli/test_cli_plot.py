"""``calib8 table plot``: pages from tables and statistics, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from json_output import load

import calib8
from calib8.pipeline import Calibration


@pytest.fixture
def found(model: Path, images: Path) -> Calibration:
    """A calibration of the tiny network."""
    preprocess = calib8.Preprocess(mean=(128.0,), scale=(1 / 64,))
    return calib8.calibrate(model, images, preprocess=preprocess, method="entropy")


@pytest.fixture
def table(found: Calibration, tmp_path: Path) -> Path:
    found.table.save(tmp_path / "table.json")
    return tmp_path / "table.json"


@pytest.fixture
def stats(found: Calibration, tmp_path: Path) -> Path:
    found.statistics.save(tmp_path / "statistics.npz")
    return tmp_path / "statistics.npz"


def test_a_page_of_a_table(cli, found: Calibration, table: Path, stats: Path, out: Path) -> None:
    page = out / "page.html"
    result = cli("table", "plot", table, "--stats", stats, "-o", page, "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    assert result.output == f"page {page}\n"
    text = page.read_text(encoding="utf-8")
    for name in found.table.entries:
        assert f'data-name="{name}"' in text
    assert f"<title>Calibration of {table}</title>" in text
    document = load(out / "p.json")
    assert document["page"] == str(page)
    clipped = {tensor["tensor"]: tensor["clipped"] for tensor in document["tensors"]}
    assert clipped == {name: entry.clipped for name, entry in found.table.entries.items()}


def test_a_folder_gets_a_page(cli, table: Path, stats: Path, out: Path) -> None:
    folder = out / "new" / "folder"
    assert cli("table", "plot", table, "--stats", stats, "-o", folder, "--quiet").output == ""
    again = cli("table", "plot", table, "--stats", stats, "-o", out / "x.html", "--activations", "uint8")
    assert again.exit_code == 0
    assert (folder / "calibration.html").read_bytes() == (out / "x.html").read_bytes()
    other = cli("table", "plot", table, "--stats", stats, "-o", out / "y.html", "--activations", "int8")
    assert other.exit_code == 0
    assert "ranges of the methods for int8" in (out / "y.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("nothing_left")
def test_what_cannot_be_drawn_is_refused(cli, refused, table: Path, stats: Path, out: Path) -> None:
    page = out / "page.html"
    base = ("table", "plot")
    refused(cli(*base, table, "--stats", table, "-o", page), 1, f"{table}: cannot be read", "statistics")
    refused(cli(*base, stats, "--stats", stats, "-o", page), 1, str(stats))
    wrong = cli(*base, table, "--stats", stats, "-o", page, "--activations", "int3")
    refused(wrong, 2, "--activations int3: unknown type")
    other = table.with_name("other.json")
    other.write_text(table.read_text().replace('"model_hash": "', '"model_hash": "0'))
    refused(cli(*base, other, "--stats", stats, "-o", out / "p"), 1, "was made for another model")


def test_places_that_cannot_be_written_to_are_refused(
    cli, refused, table: Path, stats: Path, out: Path
) -> None:
    base = ("table", "plot", table, "--stats", stats)
    refused(cli(*base, "-o", out / "missing" / "page.html"), 2, "page.html: cannot be written")
    refused(
        cli(*base, "-o", table / "folder"),
        2,
        f"--output {table / 'folder'}: cannot be made",
        "is not a folder",
    )
    refused(
        cli(*base, "-o", out / "p.html", "--json", out / "p.html"), 2, "--json", "what is written is JSON"
    )
    html = table.rename(table.with_suffix(".html"))
    refused(cli("table", "plot", html, "--stats", stats, "-o", html), 2, "is the same file as an input")
    assert html.read_text().startswith("{") and list(out.iterdir()) == []


@pytest.mark.usefixtures("nothing_left")
def test_a_missing_plotly_is_told_first(
    cli, refused, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    none = tmp_path / "none"
    result = cli("table", "plot", none, "--stats", none, "-o", out / "page.html")
    refused(result, 2, "plots: the package plotly is not installed", "pip install 'calib8[report]'")


def test_calibrating_draws_too(cli, model: Path, images: Path, out: Path) -> None:
    flags = ("--mean", "128", "--scale", "1/64", "--method", "entropy", "--activations", "int8-symmetric")
    page, json = out / "pictures", out / "c.json"
    result = cli(
        "calibrate", model, "--data", images, *flags, "-o", out / "t.json", "--plot", page, "--json", json
    )
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"table {out / 't.json'}\npage {page / 'calibration.html'}\n")
    text = (page / "calibration.html").read_text(encoding="utf-8")
    assert f"<title>Calibration of {model}</title>" in text
    assert "ranges of the methods for int8-symmetric" in text
    for name in load(out / "t.json")["tensors"]:
        assert f'data-name="{name}"' in text
    assert load(json)["page"] == str(page / "calibration.html")


@pytest.mark.usefixtures("nothing_left")
def test_a_page_is_not_called_like_a_picture(cli, refused, model: Path, out: Path, tmp_path: Path) -> None:
    base = ("calibrate", model, "--data", tmp_path / "none", "-o", out / "t.json", "--plot")
    for name in ("p.png", "p.SVG", "p.pdf"):
        refused(
            cli(*base, out / name), 2, f"--plot {out / name}: is called like a picture", "p.html, or a folder"
        )
    folder = tmp_path / "folder.png"
    folder.mkdir()
    refused(cli(*base, folder), 1, "none: does not exist")


@pytest.mark.usefixtures("nothing_left")
def test_the_page_needs_a_place(cli, refused, model: Path, out: Path, tmp_path: Path) -> None:
    base = ("calibrate", model, "--data", tmp_path / "none", "-o", out / "t.json", "--plot")
    refused(cli(*base, model / "folder"), 2, f"--plot {model / 'folder'}: cannot be made", "is not a folder")
    refused(cli(*base, out / "no" / "page.html"), 2, "page.html: cannot be written")
    html = out / "same.html"
    same = cli("calibrate", model, "--data", tmp_path / "none", "-o", html, "--plot", html)
    refused(same, 2, f"--output {html}", "what is written is a calibration table", "same.json")
