"""``calib8 tune``: what it prints and writes, its exit codes, and what it refuses."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_models import cnn, save

from calib8.model.metadata import read_metadata


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Forty samples with labels, as an .npz."""
    rng = np.random.default_rng(2)
    image = rng.normal(0, 1, (40, 3, 16, 16)).astype(np.float32)
    path = tmp_path / "arrays.npz"
    np.savez(path, image=image, labels=rng.integers(0, 5, 40))
    return path


def quickly(arrays: Path, decibels: str) -> tuple[object, ...]:
    """A promise of SQNR, searched for with the least effort."""
    return "--data", arrays, "--min-sqnr", decibels, "--effort", "fast"


def test_a_kept_promise(cli, model: Path, arrays: Path, out: Path) -> None:
    target, report = out / "tuned.onnx", out / "tuned.json"
    result = cli("tune", model, *quickly(arrays, "15"), "-o", target, "--json", report)
    assert result.exit_code == 0, result.output
    assert "kept: SQNR of at least 15 dB" in result.output
    assert "20 samples judged, 20 others calibrated" in result.output
    assert "0.00 % of the MACs in float, no more node in float" in result.output
    document = json.loads(report.read_text())
    assert document["kept"] and document["complete"] and document["output"] == str(target)
    assert document["promise"] == {"kind": "sqnr", "value": 15.0}
    [trial] = document["trials"]
    assert document["best"] == 0 and trial["float_macs"] == 0.0 and trial["bound"] >= 15.0
    assert 0.0 <= document["float_top1"] <= 1.0 and 0.0 <= trial["top1"] <= 1.0
    assert (out / "tuned.onnx.tune" / "trials.jsonl").exists()


def test_times_are_shown_where_they_are_asked_for(cli, model: Path, arrays: Path, out: Path) -> None:
    """A finished search is timed by a later run."""
    command = ("tune", model, *quickly(arrays, "15"), "-o", out / "t.onnx", "--json", out / "t.json")
    plain = cli(*command)
    assert [one["latency_ms"] for one in json.loads((out / "t.json").read_text())["trials"]] == [None]
    timed = cli(*command, "--measure-latency")
    [trial] = json.loads((out / "t.json").read_text())["trials"]
    assert trial["latency_ms"] > 0 and f"{trial['latency_ms']:.3f}" in timed.output
    assert " ms " in timed.output and " ms " not in plain.output


def test_agreement_says_what_counting_would_prove(cli, model: Path, arrays: Path, out: Path) -> None:
    result = cli(
        "tune", model, "--data", arrays, "--min-agreement", "20", "--effort", "fast", "-o", out / "t.onnx"
    )
    assert result.exit_code == 0, result.output
    assert "by counting alone they prove no more than 86.09 % agreement, 20 % takes 2" in result.output


def test_a_promise_that_is_not_kept_has_an_exit_code_of_its_own(
    cli, model: Path, arrays: Path, out: Path
) -> None:
    target, report = out / "tuned.onnx", out / "tuned.json"
    result = cli("tune", model, *quickly(arrays, "118"), "-o", target, "--json", report)
    assert result.exit_code == 3, result.output
    closest = out / "tuned.onnx.tune" / "closest.onnx"
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("error: SQNR of at least 118 dB: is not kept; the closest model")
    assert str(closest) in line and closest.exists() and not target.exists()
    document = json.loads(report.read_text())
    assert not document["kept"] and document["output"] == str(closest)


def test_another_model_does_not_stand_where_the_result_would(
    cli, model: Path, arrays: Path, out: Path
) -> None:
    target = out / "tuned.onnx"
    target.write_bytes(model.read_bytes())
    result = cli("tune", model, *quickly(arrays, "118"), "-o", target)
    assert result.exit_code == 3, result.output
    moved = out / "tuned.earlier.onnx"
    assert not target.exists() and moved.read_bytes() == model.read_bytes()
    assert "is not from this search" in result.stdout
    assert str(out / "tuned.onnx.tune" / "closest.onnx") in result.stderr


def test_a_folder_in_which_a_run_is_searching_is_refused(
    cli, model: Path, arrays: Path, out: Path, refused: Callable[..., str]
) -> None:
    arguments = (*quickly(arrays, "15"), "-o", out / "t.onnx")
    assert cli("tune", model, *arguments).exit_code == 0
    with (out / "t.onnx.tune" / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused(cli("tune", model, *arguments), 1, "t.onnx.tune", "another run is searching", "--work")
    assert cli("tune", model, *arguments).exit_code == 0, "a lock that nobody holds is none"


def test_a_second_run_makes_no_new_trial(cli, model: Path, arrays: Path, out: Path) -> None:
    arguments = ("tune", model, *quickly(arrays, "15"))
    assert cli(*arguments, "-o", out / "t.onnx", "--work", out / "w").exit_code == 0
    trials = (out / "w" / "trials.jsonl").read_bytes()
    assert cli(*arguments, "-o", out / "u.onnx", "--work", out / "w").exit_code == 0
    assert (out / "w" / "trials.jsonl").read_bytes() == trials
    assert (out / "u.onnx").read_bytes() == (out / "t.onnx").read_bytes()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ([], ["nothing is promised", "--min-agreement 99.5"]),
        (["--min-agreement", "99", "--max-drop", "1"], ["--min-agreement and --max-drop", "two promises"]),
        (["--min-agreement", "101"], ["--min-agreement 101", "0 … 100 %"]),
        (["--min-agreement", "0.99"], ["--min-agreement 0.99", "in per cent", "Give 99 if"]),
        (["--max-drop", "-0.5"], ["--max-drop -0.5", "no model can have that"]),
        (["--min-sqnr", "20", "--budget", "later"], ["--budget later", "90s"]),
        (["--min-sqnr", "20", "--budget", "0.01s"], ["--budget 0.01s", "before the first trial"]),
        (["--min-sqnr", "20", "--effort", "much"], ["--effort much", "unknown effort"]),
        (["--min-sqnr", "20", "--target", "moon"], ["--target moon", "unknown target"]),
        (["--min-sqnr", "20", "--activations", "int3"], ["--activations int3", "unknown type"]),
    ],
)
def test_usage_that_makes_no_sense_is_refused(
    cli,
    model: Path,
    arrays: Path,
    out: Path,
    refused: Callable[..., str],
    options: list[str],
    parts: list[str],
) -> None:
    refused(cli("tune", model, "--data", arrays, "-o", out / "t.onnx", *options), 2, *parts)
    assert not (out / "t.onnx").exists()


def test_labels_are_needed_for_a_drop(
    cli, model: Path, tmp_path: Path, out: Path, refused: Callable[..., str]
) -> None:
    bare = tmp_path / "bare.npz"
    np.savez(bare, image=np.random.default_rng(3).normal(0, 1, (40, 3, 16, 16)).astype(np.float32))
    result = cli("tune", model, "--data", bare, "--max-drop", "1", "-o", out / "t.onnx")
    refused(result, 2, "--max-drop", "needs labels")


@pytest.mark.usefixtures("nothing_left")
def test_too_few_samples_are_refused(
    cli, model: Path, images: Path, out: Path, refused: Callable[..., str]
) -> None:
    flags = ("--mean", "128", "--scale", "1/64")
    result = cli("tune", model, "--data", images, "--min-sqnr", "20", *flags, "-o", out / "t.onnx")
    refused(result, 1, "leaves 3 samples", "--judge-data")


def test_the_folder_of_another_model_is_refused(
    cli, model: Path, arrays: Path, tmp_path: Path, out: Path, refused: Callable[..., str]
) -> None:
    other = save(cnn(seed=5), tmp_path / "other.onnx")
    arguments = ("--data", arrays, "--min-sqnr", "15", "--effort", "fast", "--work", out / "w")
    assert cli("tune", model, *arguments, "-o", out / "t.onnx").exit_code == 0
    result = cli("tune", other, *arguments, "-o", out / "t.onnx")
    refused(result, 1, str(out / "w"), "another model", "--work")


def test_a_folder_with_other_things_is_refused(
    cli, model: Path, arrays: Path, out: Path, refused: Callable[..., str]
) -> None:
    (out / "w").mkdir()
    (out / "w" / "letter.txt").write_text("dear")
    result = cli(
        "tune", model, "--data", arrays, "--min-sqnr", "15", "--work", out / "w", "-o", out / "t.onnx"
    )
    refused(result, 1, "holds other things", "--work")
    assert [path.name for path in (out / "w").iterdir()] == ["letter.txt"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["trials.jsonl", "fast.npz", "statistics", "seconds.json"])
def test_a_broken_folder_is_told(
    cli, model: Path, arrays: Path, out: Path, refused: Callable[..., str], name: str
) -> None:
    arguments = (*quickly(arrays, "15"), "-o", out / "t.onnx")
    assert cli("tune", model, *arguments).exit_code == 0
    (out / "t.onnx.tune" / name).write_bytes(b"{]")
    (out / "t.onnx").unlink()
    refused(cli("tune", model, *arguments), 1, f"{name}: ", "Remove it and tune again")
    (out / "t.onnx.tune" / name).unlink()
    assert cli("tune", model, *arguments).exit_code == 0, "the cure that was told"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("content", [b"{]", b"[1]", None])
def test_without_settings_the_whole_folder_has_to_go(
    cli, model: Path, arrays: Path, out: Path, refused: Callable[..., str], content: bytes | None
) -> None:
    arguments = (*quickly(arrays, "15"), "-o", out / "t.onnx")
    assert cli("tune", model, *arguments).exit_code == 0
    folder = out / "t.onnx.tune"
    settings = folder / "settings.json"
    if content is None:
        settings.unlink()
    else:
        settings.write_bytes(content)
    refused(cli("tune", model, *arguments), 1, "settings.json", "Remove the whole folder", "--work")
    shutil.rmtree(folder)
    assert cli("tune", model, *arguments).exit_code == 0, "the cure that was told"


def test_scales_are_asked_for_as_of_quantize(
    cli, model: Path, arrays: Path, out: Path, refused: Callable[..., str]
) -> None:
    scales = ("--weights", "per-tensor", "--power-of-two", "--range", "features=-4,8")
    search = ("--data", arrays, "--min-sqnr", "5", "--effort", "fast", "-o", out / "t.onnx")
    assert cli("tune", model, *search, *scales).exit_code == 0
    stored = read_metadata(out / "t.onnx")
    assert stored["weights"] == "per-tensor" and stored["power_of_two"] == "true"
    assert json.loads(stored["ranges"]) == {"features": [-4.0, 8.0]}
    refused(cli("tune", model, *search, "--range", "nobody=1"), 2, "--range nobody", "matches none")
    refused(cli("tune", model, *search, "--range", "x"), 2, "--range x", "names no tensor")
    refused(cli("tune", model, *search, "--weights", "many"), 2, "--weights many")
