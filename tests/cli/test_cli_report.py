"""``--report``: every command that judges models writes a page, the same again, and refuses what is none."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import FLAGS, cnn, save

import calib8


def sections(page: Path) -> list[str]:
    return re.findall(r'<section id="(\w+)"', page.read_text(encoding="utf-8"))


def data(page: Path, name: str) -> Any:
    """What the script of a page reads."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def words(page: Path) -> str:
    """What is read on a page."""
    shown = page.read_text(encoding="utf-8").partition("<main>")[2].partition("</main>")[0]
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Forty samples."""
    image = np.random.default_rng(2).normal(0, 1, (40, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "arrays.npz", image=image)
    return tmp_path / "arrays.npz"


def test_quantize(cli, model: Path, images: Path, out: Path) -> None:
    page = out / "run.html"
    result = cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--report", page)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"report {page}"
    assert sections(page) == ["verdict", "work", "layers", "network", "tensors", "samples", "surroundings"]
    told = words(page)
    assert "<title>q.onnx – calib8 quantize</title>" in page.read_text(encoding="utf-8")
    assert "Compared with the float model on the 6 samples of the calibration data, in ONNX Runtime." in told
    command = next(line for line in result.stdout.splitlines() if line.startswith("next "))
    assert command.removeprefix("next").strip() in told
    layers = [
        data(page, f"layer-data-{n}") for n in range(len(re.findall(r"<tr data-index", page.read_text())))
    ]
    assert {"conv1", "conv2", "gemm"} <= {layer["name"] for layer in layers}
    found = calib8.compare(model, out / "q.onnx", images)
    by_node = {row.node or row.tensor: row for row in found.tensors}
    for layer in layers:
        row = by_node[layer["name"]]
        assert layer["local"] == (
            f"{row.local.sqnr_db:.1f} dB" if np.isfinite(row.local.sqnr_db) else "exact"
        )
    assert [node["name"] for node in data(page, "network-data")["nodes"]][:3] == ["image", "conv1", "relu1"]
    assert page.read_text().count('src="data:image/jpeg') == 6


def test_held_back_samples_are_told(cli, model: Path, arrays: Path, out: Path) -> None:
    page = out / "run.html"
    done = cli(
        "quantize", model, "--data", arrays, "-o", out / "q.onnx", "--effort", "fast", "--report", page
    )
    assert done.exit_code == 0, done.output
    assert re.search(
        r"Compared with the float model on (the 32|\d+ of the 32) samples held back,", words(page)
    )
    verdict = next(line for line in done.stdout.splitlines() if line.startswith("accuracy "))
    assert verdict.partition(": ")[2] in words(page)


def test_without_data_layers_are_listed_and_not_compared(cli, model: Path, images: Path, out: Path) -> None:
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", out / "t.json").exit_code == 0
    page = out / "run.html"
    result = cli("quantize", model, "--table", out / "t.json", "-o", out / "q.onnx", "--report", page)
    assert result.exit_code == 0, result.output
    assert "samples" not in sections(page) and "layers" in sections(page)
    assert "Without data layers are not compared" in words(page)
    tensor = data(page, "tensor-data-0")
    assert tensor["chosen"] is not None and tensor["counts"] is None


def test_a_tflite_file_has_a_report_too(cli, model: Path, arrays: Path, out: Path) -> None:
    page = out / "run.html"
    result = cli(
        "quantize", model, "--data", arrays, "-o", out / "q.tflite", "--effort", "fast", "--report", page
    )
    assert result.exit_code == 0, result.output
    assert "<title>q.tflite" in page.read_text() and "layers" in sections(page)


def test_evaluate(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    page = out / "run.html"
    result = cli("evaluate", model, int8, "--data", images, "--report", page)
    assert result.exit_code == 0, result.output
    assert sections(page) == [
        "verdict", "models", "classes", "work", "layers", "network", "tensors", "samples", "surroundings"
    ]  # fmt: skip
    assert {model.name, int8.name} <= set(re.findall(r"<th scope=\"col\">([\w.]+)</th>", page.read_text()))
    assert "of the data, in ONNX Runtime." in words(page)
    alone = cli("evaluate", int8, "--data", images, "--report", out / "one.html")
    assert alone.exit_code == 0, alone.output
    assert "there is no verdict" in words(out / "one.html") and "samples" not in sections(out / "one.html")


def test_evaluate_tells_how_the_model_was_made_and_what_its_bytes_are(
    cli, model: Path, int8: Path, images: Path, out: Path
) -> None:
    page = out / "run.html"
    assert cli("evaluate", model, int8, "--data", images, "--report", page).exit_code == 0
    told = words(page)
    assert f"made bycalib8 {calib8.__version__}" in told and "targetonnxruntime" in told
    assert "weights in one byte each" in told and "nodes and names" in told


def test_classes_have_the_names_of_their_folders(
    cli, model: Path, int8: Path, images: Path, out: Path
) -> None:
    """FP32 and INT8 against labels from folders, the class that loses most first."""
    page = out / "run.html"
    result = cli("evaluate", model, int8, "--data", images, "--report", page)
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8").partition('<section id="classes"')[2].partition("</section>")[0]
    shown = re.findall(r'<th scope="row">(\w+)</th>', text)
    assert sorted(shown) == ["a", "b"]
    assert "Right: by the labels." in text and "right in FP32" in text


def test_the_verdict_on_classes_is_that_of_all_samples(cli, model: Path, int8: Path, out: Path) -> None:
    image = np.random.default_rng(5).normal(0, 1, (120, 3, 16, 16)).astype(np.float32)
    np.savez(out / "many.npz", image=image)
    result = cli("evaluate", model, int8, "--data", out / "many.npz", "--report", out / "run.html")
    assert result.exit_code == 0, result.output
    [figures] = [one for one in calib8.evaluate([model, int8], out / "many.npz") if one.agreement is not None]
    share = figures.agreement or 0
    counted = f"{100 * share:.1f} % ({round(120 * share)} of 120)"
    told = f"{counted} of the samples keep their class; on 120 samples"
    assert told in words(out / "run.html")
    state = "kept" if round(share, 3) >= 0.95 else "damaged"
    assert f"verdict {state}" in (out / "run.html").read_text(encoding="utf-8")


def test_compare(cli, model: Path, int8: Path, images: Path, out: Path) -> None:
    page = out / "run.html"
    result = cli("compare", model, int8, "--data", images, "--report", page)
    assert result.exit_code == 0, result.output
    assert sections(page) == ["verdict", "work", "layers", "network", "tensors", "samples", "surroundings"]
    lost = "verdict kept" not in page.read_text(encoding="utf-8")
    assert (f"calib8 diagnose {model} {int8} --data {images}" in words(page)) == lost
    worst = result.stdout.splitlines()[2].split()[0]
    assert data(page, "layer-data-0")["name"] == worst
    assert data(page, "tensor-data-1")["counts"]


def test_diagnose(cli, model: Path, int8: Path, arrays: Path, out: Path) -> None:
    for number, models in enumerate(((model, int8), (model,))):
        page = out / f"{number}.html"
        result = cli("diagnose", *models, "--data", arrays, "--report", page)
        assert result.exit_code == 0, result.output
        assert {"verdict", "work", "layers", "network", "tensors"} <= set(sections(page))
        first = next((line for line in result.stdout.splitlines() if line.startswith("1. ")), "")
        assert first.partition(": ")[0][3:] in words(page)
        if "do the first:" in result.stdout:
            assert result.stdout.split("do the first:\n  ")[1].splitlines()[0] in words(page)


@pytest.mark.slow
def test_tune(cli, model: Path, arrays: Path, out: Path) -> None:
    page, promise = out / "run.html", ("--min-sqnr", "15", "--effort", "fast")
    result = cli("tune", model, "--data", arrays, *promise, "-o", out / "t.onnx", "--report", page)
    assert result.exit_code == 0, result.output
    assert sections(page)[:2] == ["verdict", "candidates"] and "promise kept" in words(page)
    assert [one["chosen"] for one in data(page, "candidates-data")["shown"]] == [True]
    too_much = ("--min-sqnr", "90", "--effort", "fast", "-o", out / "b.onnx")
    broken = cli("tune", model, "--data", arrays, *too_much, "--report", out / "b.html")
    assert broken.exit_code == 3 and "promise not kept" in words(out / "b.html")


@pytest.mark.slow
def test_the_same_again_but_for_times(cli, model: Path, images: Path, out: Path) -> None:
    pages = [out / "a.html", out / "b.html"]
    for page in pages:
        assert (
            cli("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx", "--report", page).exit_code
            == 0
        )
    facts = [data(page, "calib8-report") for page in pages]
    assert facts[0].pop("seconds") and facts[1].pop("seconds") and facts[0] == facts[1]
    assert facts[0]["title"] == "q.onnx" and len(facts[0]["layers"]) > 2
    told = re.compile(r'<script[^>]* id="calib8-report">.*')
    texts = [told.sub("", page.read_text(encoding="utf-8")) for page in pages]
    first, second = (text.split('<section id="surroundings"') for text in texts)
    assert first[0] == second[0]
    assert first[1].partition("</section>")[2] == second[1].partition("</section>")[2]


@pytest.mark.usefixtures("nothing_left")
def test_what_is_no_page_is_refused_before_the_work_starts(
    cli, refused, model: Path, images: Path, out: Path
) -> None:
    making = ("quantize", model, "--data", images, "-o", out / "q.onnx")
    picture = cli(*making, "--report", out / "run.png")
    refused(
        picture, 2, f"--report {out / 'run.png'}: is not the name of a page", "Give a name such as run.html"
    )
    assert picture.stdout == ""
    refused(cli(*making, "--report", out / "run"), 2, "is not the name of a page")
    refused(cli(*making, "--report", out), 2, f"error: --report {out}: is a folder, no file")
    missing = cli(*making, "--report", out / "missing" / "run.html")
    refused(missing, 2, "error: --report", "run.html: cannot be written", "Choose a folder that exists")
    assert missing.stdout == ""
    same = cli(*making, "--table", out / "run.html", "--report", out / "run.html")
    refused(same, 2, f"--report {out / 'run.html'}: is the same file as --table")


def test_an_input_is_not_overwritten(cli, refused, model: Path, images: Path, out: Path) -> None:
    page = out / "net.html"
    save(cnn(), page)
    before = page.read_bytes()
    refused(cli("quantize", page, "--data", images, "-o", out / "q.onnx", "--report", page), 2, "an input")
    assert page.read_bytes() == before


@pytest.mark.parametrize("command", ["evaluate", "compare", "diagnose", "tune"])
def test_other_commands_refuse_the_same(
    cli, refused, command: str, model: Path, images: Path, out: Path
) -> None:
    models = (model, model) if command in ("compare", "evaluate") else (model,)
    promise = ("--min-sqnr", "20", "-o", out / "t.onnx") if command == "tune" else ()
    result = cli(command, *models, "--data", images, *promise, "--report", out / "run.txt")
    refused(result, 2, "--report", "is not the name of a page")
    assert list(out.iterdir()) == []


def test_an_old_page_stays_when_the_run_fails(cli, model: Path, tmp_path: Path, out: Path) -> None:
    page = out / "run.html"
    page.write_text("old")
    result = cli("quantize", model, "--data", tmp_path / "nowhere", "-o", out / "q.onnx", "--report", page)
    assert result.exit_code != 0 and page.read_text() == "old"
