"""The command line tells branches of outputs, takes names for them, and ends ``quantize`` with a verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load

from detector_nets import detector, pictures
from small_models import onnx_model


@pytest.fixture
def detecting(tmp_path: Path) -> tuple[Path, Path]:
    onnx.save(detector(), tmp_path / "detector.onnx")
    np.savez(tmp_path / "data.npz", x=pictures(40))
    return tmp_path / "detector.onnx", tmp_path / "data.npz"


def test_branches_are_told_by_all(cli, detecting: tuple[Path, Path], out: Path) -> None:
    model, data = detecting
    made = cli(
        "quantize", model, "--data", data, "--effort", "fast", "-o", out / "q.onnx", "--json", out / "q.json"
    )
    assert made.exit_code == 0, made.output
    assert "outputs    boxes y[:,0:4] (sure), scores y[:,4:7] (sure)\n" in made.output
    lines = made.output.splitlines()
    [verdict] = [line for line in lines if line.startswith("accuracy   ")]
    assert "scores" in verdict and "32 samples held back" in verdict
    assert lines[-1].startswith("next       calib8 ")
    document = load(out / "q.json")
    assert [(one["kind"], one["where"]) for one in document["outputs"]] == [
        ("boxes", "y[:,0:4]"), ("scores", "y[:,4:7]"),
    ]  # fmt: skip
    assert {one["name"] for one in document["verdict"]["branches"]} == {"boxes", "scores"}
    assert f"next       {document['verdict']['next']}" == lines[-1]
    judged = cli("evaluate", model, out / "q.onnx", "--data", data, "--json", out / "e.json")
    assert judged.exit_code == 0, judged.output
    reference, coded = load(out / "e.json")["models"]
    assert reference["verdict"] is None and coded["verdict"]["samples"] == 40
    assert f"accuracy of {out / 'q.onnx'}  {coded['verdict']['text']}\n" in judged.output
    assert "data       data.npz, 40 samples\n" in judged.output and "images     " not in judged.output
    branches = {one["name"]: one["sqnr_db"] for one in coded["branches"]}
    worst = f"{branches['scores']:.2f} scores"
    assert worst in judged.output and f"boxes {branches['boxes']:.1f} dB" in judged.output
    for command in (("compare", "--top", "1"), ("diagnose", "--top", "1")):
        told = cli(command[0], model, out / "q.onnx", "--data", data, *command[1:])
        assert told.exit_code == 0, told.output
        assert "scores" in told.output and "boxes" in told.output


def test_names_are_taken_and_stay_in_the_next_command(cli, detecting: tuple[Path, Path], out: Path) -> None:
    model, data = detecting
    flags = ("--branch", "y[0:4]=keypoints", "--branch", "y[4:7]=unused", "--effort", "fast")
    made = cli("quantize", model, "--data", data, *flags, "-o", out / "q.onnx", "--json", out / "q.json")
    assert made.exit_code == 0, made.output
    [branch] = load(out / "q.json")["verdict"]["branches"]
    assert branch["kind"] == "keypoints"
    assert "--branch 'y[0:4]=keypoints' --branch 'y[4:7]=unused'" in made.output.splitlines()[-1]
    whole = cli("evaluate", model, out / "q.onnx", "--data", data, "--branch", "y=embedding")
    assert whole.exit_code == 0, whole.output


@pytest.mark.parametrize("command", ["quantize", "evaluate", "compare", "diagnose", "tune"])
def test_what_does_not_fit_is_refused(
    cli, refused, detecting: tuple[Path, Path], out: Path, command: str
) -> None:
    model, data = detecting
    promise = ("--min-sqnr", "10") if command == "tune" else ()
    output = ("-o", out / "q.onnx") if command in ("quantize", "tune") else ()
    models = (model, model) if command == "compare" else (model,)
    rest = ("--data", data, *promise, *output)
    refused(cli(command, *models, *rest, "--branch", "y"), 2, "--branch y: names no kind", "Give NAME=KIND")
    if command != "compare":  # which looks at the models first
        refused(
            cli(command, *models, *rest, "--task", "paint"), 2, "--task paint: unknown task", "Use one of"
        )
        refused(
            cli(command, *models, *rest, "--branch", "z=map"), 2, "no float output 'z'", "It has y [N, 7, 64]"
        )


def test_an_output_that_is_0_in_fp32_alone_is_not_one_without_a_difference(cli, out: Path) -> None:
    for name, factors in (("a", (1.0, 0.0, 1.0)), ("b", (1.001, 0.5, 1.0))):
        constants = {f"c{place}": np.float32(factor) for place, factor in enumerate(factors)}
        text = "u = Mul(x, c0) v = Mul(x, c1) w = Mul(x, c2)"
        proto = onnx_model("float[1,4] x", "float[1,4] u, float[1,4] v, float[1,4] w", text, constants)
        onnx.save(proto, out / f"{name}.onnx")
    np.savez(out / "data.npz", x=np.ones((3, 1, 4), np.float32))
    told = cli("evaluate", out / "a.onnx", out / "b.onnx", "--data", out / "data.npz")
    assert told.exit_code == 0, told.output
    [line] = [line for line in told.output.splitlines() if line.startswith(f"{out / 'b.onnx'}: ")]
    assert "60.0 dB" in line and line.count("without a difference") == 1
    assert line.count("without a signal: FP32 is 0 throughout, INT8 is not") == 1
