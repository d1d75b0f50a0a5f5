"""``quantize --repair NAME``: what changes the float model is done, told and kept only where it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from PIL import Image
from tiny_models import FLAGS, cnn, save

from calib8.model.metadata import read_metadata
from calib8.repair.plain_words import PLAIN_WORDS
from calib8.repair.repairs import EFFORTS, Effort


def limited(limit: float) -> onnx.ModelProto:
    """The small network with an upper limit in place of its Relu."""
    proto = cnn()
    bounds = [numpy_helper.from_array(np.float32(x), n) for n, x in (("zero", 0.0), ("limit", limit))]
    proto.graph.initializer.extend(bounds)
    proto.graph.node[1].CopyFrom(
        helper.make_node("Clip", ["sums", "zero", "limit"], ["features"], name="clip1")
    )
    return proto


def loud(limit: float = 900.0) -> onnx.ModelProto:
    """The same function as ``cnn``, a channel behind conv1 300 times as large, and a limit."""
    proto = limited(limit)
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor).copy()
        if tensor.name in ("w1", "b1", "w2"):
            array[(slice(None), 2) if tensor.name == "w2" else 2] *= np.float32(
                1 / 300 if tensor.name == "w2" else 300
            )
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto


def normalized(high: float = 0.0) -> onnx.ModelProto:
    """The small network with a normalization behind conv1, whose β is ``high`` and γ 1 in two channels."""
    proto = cnn()
    values = {"g": [1, 1, 1, 1], "h": [high, high, 0, 0], "m": [0.5, 0, 0, 1], "v": [2, 1, 3, 1]}
    for name, array in values.items():
        proto.graph.initializer.append(numpy_helper.from_array(np.array(array, np.float32), name))
    proto.graph.node[0].output[0] = "conv"
    norm = helper.make_node("BatchNormalization", ["conv", "g", "h", "m", "v"], ["sums"], name="norm1")
    proto.graph.node.insert(1, norm)
    return proto


def biased() -> onnx.ModelProto:
    """The small network, all sums of conv1 far above zero."""
    proto = cnn()
    for tensor in proto.graph.initializer:
        if tensor.name == "b1":
            tensor.CopyFrom(numpy_helper.from_array(np.full(4, 20.0, np.float32), "b1"))
    return proto


WORK = {
    "cle-replace": loud(),
    "absorb": biased(),
    "absorb-analytic": normalized(40.0),
    "bn": normalized(),
}


def repaired(cli: Any, out: Path, images: Path, proto: onnx.ModelProto, names: str) -> tuple[Any, str]:
    """The step of the first repair, and what was said."""
    model = save(proto, out / "float.onnx")
    files = ("-o", out / "int8.onnx", "--json", out / "q.json")
    result = cli("quantize", model, "--data", images, *FLAGS, "--method", "mse", "--repair", names, *files)
    assert result.exit_code == 0, result.output
    document = json.loads((out / "q.json").read_text())
    steps = document["repairs"]["steps"]
    kept = [step["name"] for step in steps if step["kept"]]
    assert json.loads(read_metadata(out / "int8.onnx")["repairs"]) == kept
    return steps[0], result.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", WORK)
def test_it_is_carried_out_and_told(cli, out: Path, images: Path, name: str) -> None:
    step, text = repaired(cli, out, images, WORK[name], name)
    assert step["name"] == name and step["kept"] and step["layers"]
    assert step["after_db"] > 20.0
    if name == "cle-replace":
        assert "upper limits of activations removed: 1" in step["notes"]
        assert "Clip" not in [node.op_type for node in onnx.load(out / "int8.onnx").graph.node]
    total, typical = (
        f"{step['before'][key]:.1f} → {step['after'][key]:.1f} dB" for key in ("evaluated_db", "typical_db")
    )
    assert f"{name} ({PLAIN_WORDS[name]}): total {total}, typical {typical} on" in text


@pytest.mark.parametrize("name", WORK)
def test_nothing_to_do_is_told(cli, out: Path, images: Path, name: str) -> None:
    step, text = repaired(cli, out, images, limited(0.5) if name != "cle-replace" else one_layer(), name)
    assert not step["kept"] and step["layers"] == []
    assert step["before_db"] == step["after_db"]
    assert f"nothing to do for: {name}" in text
    assert all(f"note: {note}" in text for note in step["notes"])
    assert step["notes"] or name == "cle-replace"


def one_layer() -> onnx.ModelProto:
    proto = cnn()
    proto.graph.node[1].CopyFrom(helper.make_node("Sigmoid", ["sums"], ["features"], name="sigmoid1"))
    proto.graph.node[3].CopyFrom(helper.make_node("GlobalMaxPool", ["maps"], ["top"], name="pool"))
    proto.graph.node[4].CopyFrom(helper.make_node("Flatten", ["top"], ["flat0"], name="flatten"))
    proto.graph.node.insert(5, helper.make_node("Sigmoid", ["flat0"], ["flat"], name="sigmoid2"))
    return proto


def test_a_limit_that_the_network_needs_is_left(cli, out: Path, images: Path) -> None:
    step, text = repaired(cli, out, images, limited(0.5), "cle-replace,bias")
    assert not step["kept"] and step["layers"] and step["after_db"] < step["before_db"]
    assert "tried, and left out: cle-replace" in text
    before, after = (onnx.load(out / name) for name in ("float.onnx", "int8.onnx"))
    assert [node.op_type for node in before.graph.node].count("Clip") == 1
    assert [node.op_type for node in after.graph.node].count("Clip") == 1


def test_repairs_that_were_tried_in_turn_are_stored_one_by_one(
    cli, out: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = Effort(stages=((("cle", "round"),),), finish=("bias",), method="mse")
    monkeypatch.setitem(EFFORTS, "fast", effort)  # type: ignore[arg-type]
    model = save(loud(1e6), out / "float.onnx")
    files = ("-o", out / "int8.onnx", "--json", out / "q.json")
    for seed in range(18):
        pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"more{seed}.png")
    result = cli("quantize", model, "--data", images, *FLAGS, "--effort", "fast", *files)
    assert result.exit_code == 0, result.output
    steps = json.loads((out / "q.json").read_text())["repairs"]["steps"]
    assert steps[0]["name"] == "cle, round" and steps[0]["kept"]
    stored = json.loads(read_metadata(out / "int8.onnx")["repairs"])
    assert stored == ["cle", "round", *(step["name"] for step in steps[1:] if step["kept"])]


def test_without_data_notes_are_told_as_with_them(cli, out: Path, images: Path) -> None:
    model, stats = save(cnn(), out / "float.onnx"), out / "stats"
    gathered = cli("calibrate", model, "--data", images, *FLAGS, "--stats", stats)
    assert gathered.exit_code == 0, gathered.output
    options = ("--method", "mse", "--repair", "scales,bias-analytic", "-o", out / "int8.onnx")
    texts = [
        cli("quantize", model, *source, *options).stdout
        for source in (("--data", images, *FLAGS), ("--from-stats", stats))
    ]
    notes = [[line for line in text.splitlines() if line.startswith("  note: ")] for text in texts]
    assert notes[0] == notes[1] and any("batch normalizations tell nothing" in note for note in notes[0])


def test_notes_of_kept_repairs_without_data_are_told(cli, out: Path, images: Path) -> None:
    model, stats = save(normalized(), out / "float.onnx"), out / "stats"
    assert cli("calibrate", model, "--data", images, *FLAGS, "--stats", stats).exit_code == 0
    files = ("-o", out / "int8.onnx", "--json", out / "q.json")
    result = cli("quantize", model, "--from-stats", stats, "--repair", "scales,bias-analytic", *files)
    steps = json.loads((out / "q.json").read_text())["repairs"]["steps"]
    kept = [step for step in steps if step["kept"] and step["notes"]]
    assert kept and all(f"  note: {note}" in result.stdout for step in kept for note in step["notes"])


def test_notes_of_what_was_left_out_are_told(cli, out: Path, images: Path) -> None:
    step, text = repaired(cli, out, images, limited(0.5), "cle-replace,bias")
    assert not step["kept"] and step["layers"] and step["notes"]
    left_out = text[text.index("tried, and left out: cle-replace") :]
    assert all(f"  note: {note}" in left_out for note in step["notes"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["bias-analytic", "absorb-analytic", "bn"])
def test_what_a_repair_made_can_be_diagnosed(cli, out: Path, images: Path, name: str) -> None:
    repaired(cli, out, images, normalized(40.0 if name == "absorb-analytic" else 0.0), name)
    models = (out / "float.onnx", out / "int8.onnx")
    result = cli("diagnose", *models, "--data", images, "--json", out / "d.json")
    assert result.exit_code == 0, result.output
    document = json.loads((out / "d.json").read_text())
    assert document["estimated_batch_norms"] == (name == "bn")
    compared = cli("compare", *models, "--data", images, "--json", out / "c.json")
    assert compared.exit_code == 0, compared.output
    figures = json.loads((out / "c.json").read_text())
    assert figures["estimated_batch_norms"] == (name == "bn") and figures["outputs"]["sqnr_db"] > 20.0
    for text in (result.stdout, compared.stdout):
        assert ("was repaired with 'bn': it is compared with" in text) == (name == "bn")
    for remedy in document["remedies"]:
        assert name != "bn" or "--repair bn" in remedy["command"]


def test_statistics_that_do_not_fit_the_float_model_are_refused(
    cli, refused, out: Path, images: Path, tmp_path: Path
) -> None:
    repaired(cli, out, images, normalized(), "bn")
    shown = cli("inspect", out / "int8.onnx")
    assert shown.exit_code == 0 and "batch_norms" not in shown.stdout
    other = save(cnn(), tmp_path / "other.onnx")
    command = ("compare", other, out / "int8.onnx", "--data", images)
    refused(cli(*command), 1, "statistics of a batch normalization 'sums'", "the float model that it was")
    model = onnx.load(out / "int8.onnx")
    for entry in model.metadata_props:
        if entry.key == "calib8.batch_norms":
            entry.value = '{"sums": {"mean": [0]}}'
    onnx.save(model, out / "int8.onnx")
    command = ("compare", out / "float.onnx", out / "int8.onnx", "--data", images)
    refused(cli(*command), 1, "metadata 'batch_norms' are broken")


@pytest.mark.parametrize("effort", EFFORTS)
def test_with_few_samples_an_effort_tries_no_repair_and_warns(
    cli, out: Path, model: Path, images: Path, effort: str
) -> None:
    files = ("-o", out / "int8.onnx", "--json", out / "q.json")
    result = cli("quantize", model, "--data", images, *FLAGS, "--effort", effort, *files)
    assert result.exit_code == 0, result.output
    document = json.loads((out / "q.json").read_text())["repairs"]
    warning = document.pop("warning")
    assert document == {"effort": effort, "held_back": 0, "shared": True, "steps": []}
    assert warning.startswith("6 samples are too few to prove a repair on (16): none was tried")
    assert result.stdout.count(f"warning: {warning}") == 1
    assert json.loads(read_metadata(out / "int8.onnx")["repairs"]) == []


def test_with_few_samples_a_named_repair_comes_without_proof(cli, out: Path, images: Path) -> None:
    _, text = repaired(cli, out, images, cnn(), "bias")
    assert "dB on the 6 samples it was made from: no proof" in text
    assert "held back" not in text and "too few to prove" not in text


def test_the_total_of_a_repair_is_what_evaluate_tells(cli, out: Path, model: Path, images: Path) -> None:
    """Six samples judge as they are all that there are, so that both look at the same ones."""
    step, _ = repaired(cli, out, images, cnn(), "bias")
    result = cli("evaluate", model, out / "int8.onnx", "--data", images, "--json", out / "e.json")
    assert result.exit_code == 0, result.output
    [_, told] = json.loads((out / "e.json").read_text())["models"]
    assert step["after"]["evaluated_db"] == pytest.approx(told["sqnr_db"], abs=0.01)
    assert step["after"]["evaluated_db"] != step["after"]["typical_db"]
