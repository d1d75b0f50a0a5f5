"""``inspect`` of tmfiles: what it tells, and what does not go with one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.errors import UsageError
from calib8.tmfile.graph import Graph, Quantization
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CLASSES, classifier, coded

MACS = 4 * 8 * 8 * 3 * 9 + CLASSES * 4


def written(folder: Path, graph: Graph) -> Path:
    path = folder / "net.tmfile"
    write_tmfile(graph, path)
    return path


def test_a_float_network(tmp_path: Path) -> None:
    found = calib8.inspect(written(tmp_path, classifier()))
    assert found.kind == "tmfile"
    net = found.tmfile
    assert (net.kind, net.made_from, net.layout) == ("float", "ONNX", "NCHW")
    assert net.ops == {"Convolution": 1, "Pooling": 1, "FullyConnected": 1}
    assert net.parameters == 4 * 27 + 4 + CLASSES * 4
    assert net.macs == MACS
    assert [str(spec) for spec in net.inputs] == ["image: float32 1×3×8×8"]
    assert [str(spec) for spec in net.outputs] == [f"scores: float32 1×{CLASSES}"]
    assert net.caveats == ()
    assert "conv" in found._repr_html_()


def test_a_scale_that_was_lost_is_told(tmp_path: Path) -> None:
    net = coded(classifier())
    zero = Quantization(np.zeros(1, np.float32), np.zeros(1, np.int32))
    tensors = [replace(t, quantization=zero) if t.name == "pooled" else t for t in net.tensors]
    result = CliRunner().invoke(
        app, ["inspect", str(written(tmp_path, replace(net, tensors=tuple(tensors))))]
    )
    assert result.exit_code == 0
    assert "quantized Tengine model, NCHW, from ONNX" in result.stdout
    assert "1 of 4 tensors have the scale 0, 'pooled' first" in result.stdout


def test_the_document_holds_all_scales_and_options(tmp_path: Path) -> None:
    path, target = written(tmp_path, coded(classifier())), tmp_path / "found.json"
    assert CliRunner().invoke(app, ["inspect", str(path), "--json", str(target)]).exit_code == 0
    found = json.loads(target.read_text())["tmfile"]
    conv = next(node for node in found["nodes"] if node["op"] == "Convolution")
    assert conv["inputs"] == ["image", "w", "b"]
    assert conv["options"]["pad_w1"] == 1
    weight = next(tensor for tensor in found["tensors"] if tensor["name"] == "w")
    np.testing.assert_allclose(weight["scales"], [0.01, 0.02, 0.03, 0.04], rtol=1e-6)
    assert (weight["type"], weight["bytes"]) == ("int8", 108)


@pytest.mark.parametrize("words", [{"target": "tengine"}, {"program": True}, {"data": "images"}])
def test_what_does_not_go_with_it_is_refused(tmp_path: Path, words: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is a Tengine model"):
        calib8.inspect(written(tmp_path, classifier()), **words)


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, classifier())
    path.write_bytes(path.read_bytes()[:700])
    result = CliRunner().invoke(app, ["inspect", str(path)])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "net.tmfile: is damaged" in result.stderr
