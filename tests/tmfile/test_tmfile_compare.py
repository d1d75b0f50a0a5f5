"""Int8 tmfiles beside their float models in compare and benchmark; inputs that are fixed in a tmfile."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner, Result

import calib8
from calib8 import InferenceSession
from calib8.analysis.bound_calls import BoundCall
from calib8.analysis.speed import benchmark
from calib8.analysis.workloads import open_workload
from calib8.cli import app
from calib8.errors import ModelError, UsageError
from calib8.exporting.tmfile.codes import in_codes
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.save import save_model
from calib8.tmfile.graph import Graph
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CLASSES, classifier

SCALES = {"image": 0.025, "conv": 0.09, "pooled": 0.03, "scores": 0.06}
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
IMAGES = 24

Array = npt.NDArray[Any]


def int8() -> Graph:
    return in_codes(classifier(), SCALES).graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compared")
    write_tmfile(classifier(), place / "net.tmfile")
    save_model(load_model(place / "net.tmfile"), place / "net.onnx")
    write_tmfile(int8(), place / "int8.tmfile")
    images = np.random.default_rng(1).normal(size=(IMAGES, 3, 8, 8)).astype(np.float32)
    np.savez(place / "images.npz", image=images, labels=np.arange(IMAGES) % CLASSES)
    return place


def images(folder: Path) -> Array:
    loaded: Array = np.load(folder / "images.npz")["image"]
    return loaded


def decibels(wanted: Array, found: Array) -> float:
    wanted, found = wanted.astype(np.float64), found.astype(np.float64)
    return 10 * math.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


def tensor_of(graph: Graph, name: str) -> Any:
    return next(tensor for tensor in graph.tensors if tensor.name == name)


def computed(folder: Path, name: str) -> Array:
    """The tensor in FP32, of all images."""
    graph = read_tmfile(folder / "net.tmfile")
    node = next(at for at, one in enumerate(graph.nodes) if one.name == name)
    path = folder / f"until_{name}.tmfile"
    write_tmfile(replace(graph, outputs=(node,)), path)
    session = open_session(load_model(path))
    return np.concatenate([session.run({"image": one[None]})[0] for one in images(folder)])


def coded(folder: Path, name: str) -> Array:
    """What the codes of the int8 file mean, in the reference."""
    graph = int8()
    node = next(at for at, one in enumerate(graph.nodes) if one.name == name)
    path = folder / f"int8_until_{name}.tmfile"
    write_tmfile(replace(graph, outputs=(node,)), path)
    session = InferenceSession(path, runtime="reference")
    fed = np.clip(np.rint(images(folder) / np.float32(SCALES["image"])), -128, 127).astype(np.int8)
    codes = np.concatenate([session.run(None, {"image": one[None]})[0] for one in fed])
    return codes * np.float32(SCALES[name])


@pytest.mark.parametrize("fp32", ["net.tmfile", "net.onnx"])
def test_every_tensor_is_compared_with_what_tengine_computes(folder: Path, fp32: str) -> None:
    found = calib8.compare(folder / fp32, folder / "int8.tmfile", folder / "images.npz")
    assert {one.tensor: one.scale for one in found.tensors} == {
        name: (float(np.float32(scale)),) for name, scale in SCALES.items()
    }
    assert not found.left_out and found.images == IMAGES
    for one in found.tensors:
        if one.tensor != "image":
            expected = decibels(computed(folder, one.tensor), coded(folder, one.tensor))
            assert one.cumulative.sqnr_db == pytest.approx(expected, abs=1e-6), one.tensor
    assert found.outputs.sqnr_db == pytest.approx(
        decibels(computed(folder, "scores"), coded(folder, "scores")), abs=1e-6
    )
    by_name = {one.tensor: one for one in found.tensors}
    assert (by_name["conv"].op_type, by_name["scores"].op_type) == ("Conv", "Gemm")
    assert by_name["scores"].local.sqnr_db > by_name["scores"].cumulative.sqnr_db
    stored = tensor_of(int8(), "w")
    real = stored.data * stored.quantization.scales.reshape(-1, 1, 1, 1)
    floats = tensor_of(classifier(), "w").data
    assert by_name["conv"].weight_sqnr_db == pytest.approx(decibels(floats, real), abs=1e-4)


def test_both_own_runtimes_give_the_same_and_no_other_is_taken(folder: Path) -> None:
    paths = (folder / "net.tmfile", folder / "int8.tmfile", folder / "images.npz")
    native, reference = (calib8.compare(*paths, runtime=name) for name in ("calib8", "reference"))
    assert [one.cumulative for one in native.tensors] == [one.cumulative for one in reference.tensors]
    with pytest.raises(UsageError, match="is a Tengine model"):
        calib8.compare(*paths, runtime="onnxruntime")
    with pytest.raises(UsageError, match="tengine"):
        calib8.compare(*paths, profile="single")


def test_names_of_the_converter_are_those_of_the_onnx_model(folder: Path, tmp_path: Path) -> None:
    """The converter calls the result of Conv and Relu what the Conv's is called in the ONNX model."""
    model = onnx.load(folder / "net.onnx")
    for node in model.graph.node:
        if node.op_type == "Conv":
            before = node.output[0]
            node.output[0] = "before"
        if node.op_type == "Relu":
            node.input[0] = "before" if node.input[0] == before else node.input[0]
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "net.onnx")
    graph = int8()
    tensors = tuple(replace(one, name="before" if one.name == "conv" else one.name) for one in graph.tensors)
    write_tmfile(replace(graph, tensors=tensors), tmp_path / "int8.tmfile")
    found = calib8.compare(tmp_path / "net.onnx", tmp_path / "int8.tmfile", folder / "images.npz")
    one = next(one for one in found.tensors if one.tensor == "conv")
    assert one.cumulative.sqnr_db == pytest.approx(
        decibels(computed(folder, "conv"), coded(folder, "conv")), abs=1e-6
    )
    assert not found.left_out


def test_what_has_no_codes_to_compare_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a float model"):
        calib8.compare(folder / "net.tmfile", folder / "net.tmfile", folder / "images.npz")
    with pytest.raises(ModelError, match="is a quantized Tengine model"):
        calib8.compare(folder / "int8.tmfile", folder / "int8.tmfile", folder / "images.npz")
    graph = int8()
    tensors = tuple(
        replace(one, quantization=replace(one.quantization, scales=np.zeros(1, np.float32)))
        if one.name == "pooled" and one.quantization is not None
        else one
        for one in graph.tensors
    )
    write_tmfile(replace(graph, tensors=tensors), tmp_path / "lost.tmfile")
    with pytest.raises(ModelError, match="the scale 0: 'pooled'"):
        calib8.compare(folder / "net.tmfile", tmp_path / "lost.tmfile", folder / "images.npz")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_the_commands(folder: Path, tmp_path: Path) -> None:
    paths = (folder / "net.tmfile", folder / "int8.tmfile")
    data = ("--data", folder / "images.npz")
    compared = run("compare", *paths, *data)
    assert compared.exit_code == 0, compared.output
    assert "pooled" in compared.output and "4 of 4 tensors shown" in compared.output
    refused = run("compare", *paths, *data, "--report", tmp_path / "page.html")
    assert refused.exit_code == 2 and "is a Tengine model" in refused.output
    timed = run("benchmark", *paths, "--threads", 1, "--rounds", 1, "--profile")
    assert timed.exit_code == 0, timed.output
    assert "the float model" in timed.output


def test_workloads_of_tmfiles(folder: Path) -> None:
    plain, codes, twin = (open_workload(folder / name) for name in ("net.tmfile", "int8.tmfile", "net.onnx"))
    assert (plain.form, codes.form) == ("float Tengine model", "Tengine model")
    assert plain.macs == codes.macs == twin.macs == 4 * 64 * 27 + 4 * CLASSES
    fed = codes.feeds["image"]
    assert (fed.dtype.name, fed.shape) == ("int8", (1, 3, 8, 8))
    assert plain.feeds["image"].dtype.name == "float32"
    here = BoundCall(plain, "onnxruntime", 1).outputs()[0]
    np.testing.assert_array_equal(here, open_session(load_model(folder / "net.onnx")).run(plain.feeds)[0])
    coded = BoundCall(codes, "calib8", 1).outputs()[0]
    reference = InferenceSession(folder / "int8.tmfile", runtime="reference")
    np.testing.assert_array_equal(coded, reference.run(None, codes.feeds)[0])
    with pytest.raises(UsageError, match="is a Tengine model, which calib8 alone runs"):
        benchmark(folder / "int8.tmfile", runtimes=["onnxruntime"])
    with pytest.raises(UsageError, match="Add the runtime onnxruntime"):
        benchmark(folder / "net.tmfile", runtimes=["calib8"])
    with pytest.raises(UsageError, match="batch=2"):
        open_workload(folder / "int8.tmfile", 2)


def test_an_input_that_is_fixed_is_a_constant_of_the_tmfile(tmp_path: Path) -> None:
    text = f"""{HEAD} net (float[1,3,4,4] x, float[1,3,1,1] s) => (float[1,3,4,4] y) {{
        r = Relu (x)
        y = Mul (r, s)
    }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    made = run(
        "export", tmp_path / "net.onnx", "--to", "tmfile", "-o", tmp_path / "net.tmfile", "--fix", "s=1.5"
    )
    assert made.exit_code == 0, made.output
    graph = read_tmfile(tmp_path / "net.tmfile")
    assert [graph.tensors[place].name for place in graph.input_tensors()] == ["x"]
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    found = open_session(load_model(tmp_path / "net.tmfile")).run({"x": x})[0]
    np.testing.assert_array_equal(found, np.maximum(x, 0) * np.float32(1.5))
    with pytest.raises(UsageError, match="is not an input"):
        calib8.export(tmp_path / "net.onnx", tmp_path / "net.tmfile", "tmfile", fix={"t": 1.0})
