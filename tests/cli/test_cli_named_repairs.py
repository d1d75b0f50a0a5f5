"""``quantize --repair NAME``: what changes the float model is done, told and kept only where it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tiny_models import FLAGS, cnn, save

from calib8.model.metadata import read_metadata
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


@pytest.mark.parametrize("name", WORK)
def test_it_is_carried_out_and_told(cli, out: Path, images: Path, name: str) -> None:
    step, text = repaired(cli, out, images, WORK[name], name)
    assert step["name"] == name and step["kept"] and step["layers"]
    assert step["after_db"] > 20.0
    if name == "cle-replace":
        assert "upper limits of activations removed: 1" in step["notes"]
        assert "Clip" not in [node.op_type for node in onnx.load(out / "int8.onnx").graph.node]
    assert f"{name}: {step['before_db']:.1f} → {step['after_db']:.1f} dB on" in text


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
    result = cli("quantize", model, "--data", images, *FLAGS, "--effort", "fast", *files)
    assert result.exit_code == 0, result.output
    steps = json.loads((out / "q.json").read_text())["repairs"]["steps"]
    assert steps[0]["name"] == "cle, round" and steps[0]["kept"]
    stored = json.loads(read_metadata(out / "int8.onnx")["repairs"])
    assert stored == ["cle", "round", *(step["name"] for step in steps[1:] if step["kept"])]
