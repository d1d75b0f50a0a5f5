"""What is told of an int8 tmfile is what Tengine computes: compare, diagnose, tengine-quant -z 1."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import calib8
from calib8 import InferenceSession
from calib8.analysis.tmfile_pair import named_graph, qdq_graph
from calib8.cli import app
from calib8.exporting.tmfile.codes import in_codes
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from coded_nets import OPERATORS
from tmfile_nets import CONV, Net, classifier

IMAGES = 5
FACTOR = "0.02"
COPIES = ("DepthToSpace", "Flatten", "Permute", "Reshape", "ShuffleChannel", "Split")

Array = npt.NDArray[Any]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def split_net(batch: int = 1) -> Graph:
    """A layer whose halves have different ranges, taken apart and added."""
    rng, net = np.random.default_rng(3), Net()
    weight = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    weight[2:] /= 3
    w = net.const("w", weight)
    x = net.input("image", (batch, 3, 8, 8))
    y = net.add(Tensor("y", (batch, 4, 8, 8)), "Convolution", (x, w), **{**CONV, "activation": -1})
    place = net.add(Tensor("a", (batch, 2, 8, 8)), "Split", (y,), **SPLIT)
    net.tensors.append(Tensor("b", (batch, 2, 8, 8)))
    node = net.nodes[-1]
    net.nodes[-1] = type(node)(node.name, node.op, node.inputs, (place, place + 1), node.options)
    options = {"type": 2, "caffe_flavor": 0, "shift": 0.0, "power": 0.0, "scale": 0.0}
    net.add(Tensor("sum", (batch, 2, 8, 8)), "Eltwise", (place, place + 1), **options)
    return net.graph()


SPLIT = {"axis": 1, "split_dim": 2, "is_caffe": 0, "is_onnx": 1, "split_sizes": (2, 2)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The network and images, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_tmfile(split_net(), "net.tmfile")
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(2)
    for number in range(IMAGES):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(f"images/{number}.png")
    return tmp_path


def quant(model: str, *more: object) -> Result:
    zero = "0,0,0"
    return run("tengine-quant", "-m", model, "-i", "images", "-w", zero, "-s", ",".join([FACTOR] * 3), *more)


def fed() -> list[Array]:
    """The images as inputs."""
    pixels = [np.asarray(Image.open(f"images/{number}.png"), np.float32) for number in range(IMAGES)]
    return [(one * np.float32(FACTOR)).transpose(2, 0, 1)[None] for one in pixels]


def decibels(wanted: Array, found: Array) -> float:
    wanted, found = wanted.astype(np.float64), found.astype(np.float64)
    return 10 * math.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


def scale(graph: Graph, name: str) -> np.float32:
    (found,) = (tensor.quantization.scales[0] for tensor in graph.tensors if tensor.name == name)
    return np.float32(found)


def of_the_file(path: str) -> float:
    """SQNR of the outputs, by NumPy's definition of what Tengine computes."""
    graph = read_tmfile(path)
    floats, codes = open_session(load_model("net.tmfile")), InferenceSession(path, runtime="reference")
    wanted, found = list[Array](), list[Array]()
    for x in fed():
        wanted += floats.run({"image": x})
        q = np.clip(np.rint(x / scale(graph, "image")), -127, 127).astype(np.int8)
        found.append(codes.run(None, {"image": q})[0] * scale(graph, "sum"))
    return decibels(np.concatenate(wanted), np.concatenate(found))


@pytest.mark.parametrize("algorithm", [0, 1, 4])
def test_what_is_told_is_of_the_file_that_is_written(folder: Path, algorithm: int) -> None:
    result = quant("net.tmfile", "-o", "int8.tmfile", "-a", algorithm, "-z", 1)
    assert result.exit_code == 0, result.output
    (told,) = re.findall(r"outputs: SQNR ([\d.]+) dB", result.stdout)
    assert float(told) == pytest.approx(of_the_file("int8.tmfile"), abs=0.006)
    assert "a: Tengine copies the codes whatever the scales say" in " ".join(result.stdout.split())
    if algorithm == 0:
        assert float(told) < 15  # Tengine copies the codes of a Split; with rescaled ones it would be 35


def test_the_loss_of_a_split_is_its_own(folder: Path) -> None:
    graph = in_codes(split_net(), {"image": 0.04, "y": 0.4, "a": 0.4, "b": 0.15, "sum": 0.4}).graph
    write_tmfile(graph, "int8.tmfile")
    np.savez("images.npz", image=np.concatenate(fed()))
    found = {one.tensor: one for one in calib8.compare("net.tmfile", "int8.tmfile", "images.npz").tensors}
    between = open_session(load_model("net.tmfile"))
    conv = next(node for node in load_model("net.tmfile").graph if node.op_type == "Conv")
    assert conv.outputs[0].name == "y" and between.inputs
    weight = next(tensor.data for tensor in graph.tensors if tensor.name == "w")
    assert weight is not None
    y = np.concatenate([_convolved(x) for x in fed()])
    codes = np.clip(np.sign(y) * np.floor(np.abs(y / np.float32(0.4)) + 0.5), -127, 127)
    for name, half, step in (("a", slice(0, 2), 0.4), ("b", slice(2, 4), 0.15)):
        expected = decibels(y[:, half], codes[:, half] * step)
        assert found[name].local.sqnr_db == pytest.approx(expected, abs=0.01), name


def _convolved(x: Array) -> Array:
    """The layer of the float network, written out."""
    w = next(tensor.data for tensor in split_net().tensors if tensor.name == "w")
    assert w is not None
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((1, 4, 8, 8), np.float64)
    for row in range(3):
        for column in range(3):
            window = wide[:, :, row : row + 8, column : column + 8]
            y += np.einsum("nchw,oc->nohw", window, w[:, :, row, column], dtype=np.float64)
    return y.astype(np.float32)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name.startswith(COPIES)])
def test_operators_that_copy_codes_do_so_in_the_graph_to_look_at(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(7)
    path = str(tmp_path / "net.tmfile")
    write_tmfile(OPERATORS[name](rng), path)
    graph = named_graph(path, {})
    session, model = InferenceSession(path, runtime="reference"), qdq_graph(graph, path)
    float_session = open_session(ir.to_proto(model).SerializeToString())
    feeds = {
        spec.name: rng.integers(-127, 128, tuple(map(int, spec.shape))).astype(np.int8)
        for spec in session.inputs
    }
    reals = {title: codes * scale(graph, title) for title, codes in feeds.items()}
    found = float_session.run(reals)
    for port, one, codes in zip(session.outputs, found, session.run(None, feeds), strict=True):
        np.testing.assert_array_equal(one, codes * scale(graph, port.name))


def test_a_file_that_tengine_does_not_run_is_not_judged(folder: Path) -> None:
    net = Net()
    x = net.input("image", (1, 3, 8, 8))
    w = net.const("w", np.ones((4, 3, 3, 3), np.float32))
    y = net.add(Tensor("y", (1, 4, 8, 8)), "Convolution", (x, w), **CONV)
    net.add(Tensor("t", (1, 4, 8, 8)), "Tanh", (y,))
    write_tmfile(net.graph(), "tanh.tmfile")
    before = sorted(folder.iterdir())
    result = quant("tanh.tmfile", "-o", "int8.tmfile", "-z", 1)
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "'t' (Tanh): Tengine's runtime has no int8 kernel" in told and "Leave -z 1 out" in told
    assert sorted(folder.iterdir()) == before
    assert quant("tanh.tmfile", "-o", "int8.tmfile").exit_code == 0


def test_diagnose_looks_at_an_int8_tmfile(folder: Path) -> None:
    assert quant("net.tmfile", "-o", "int8.tmfile").exit_code == 0
    np.savez("images.npz", image=np.concatenate(fed()))
    found = calib8.diagnose("net.tmfile", "int8.tmfile", "images.npz")
    assert found.diagnosis.sqnr_db == pytest.approx(of_the_file("int8.tmfile"), abs=0.3)
    assert {loss.row.tensor for loss in found.diagnosis.layers} == {"image", "y", "a", "b", "sum"}
    assert found.basis.target == "tengine"
    assert found.remedies and all(not remedy.wish.keep_float for remedy in found.remedies)
    best = max(remedy.sqnr_db for remedy in found.remedies)
    assert best > found.diagnosis.sqnr_db + 10  # a Split that shares its scale loses nothing
    result = run("diagnose", "net.tmfile", "int8.tmfile", "--data", "images.npz")
    assert result.exit_code == 0, result.output
    command = next(line for line in result.stdout.splitlines() if line.strip().startswith("calib8 quantize"))
    assert command.endswith("-o net.repaired.tmfile")
    made = run(*command.split()[1:])
    assert made.exit_code == 0, made.output
    assert of_the_file("net.repaired.tmfile") > found.diagnosis.sqnr_db + 10
    page = run("diagnose", "net.tmfile", "int8.tmfile", "--data", "images.npz", "--report", "page.html")
    assert page.exit_code == 2 and "is a Tengine model" in page.output


@pytest.mark.parametrize("more", [(), ("-a", 4), ("-a", 1, "--uint8"), ("-z", 1)])
def test_a_model_of_several_images_needs_the_size_of_one(folder: Path, more: tuple[object, ...]) -> None:
    write_tmfile(split_net(2), "two.tmfile")
    result = quant("two.tmfile", "-o", "int8.tmfile", *more)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert "two.tmfile: its input 'image' takes 2 images at once" in told and "Give -g 3,8,8" in told
    assert "ONNXRuntimeError" not in told and not Path("int8.tmfile").exists()
    result = quant("two.tmfile", "-o", "int8.tmfile", "-g", "3,8,8", *more)
    assert result.exit_code == 0, result.output
    assert [read_tmfile("int8.tmfile").tensors[1].shape] == [(1, 3, 8, 8)]


def test_other_commands_say_how_many_samples_a_model_takes(folder: Path) -> None:
    write_tmfile(classifier(), "one.tmfile")
    write_tmfile(split_net(2), "two.tmfile")
    result = run(
        "calibrate", "two.tmfile", "--data", "images", "--mean", 0, "--scale", FACTOR, "-o", "t.json"
    )
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "input 'image' takes 2 samples at once, and 1 came" in told
    assert "Give a number of samples that 2 divides" in told


TABLE = {"image": 0.04, "conv": 0.09, "pooled": 0.03, "scores": 0.06}


def test_a_table_of_int8_codes_makes_no_uint8_model(folder: Path) -> None:
    write_tmfile(classifier(), "one.tmfile")
    for name, point in (("int8", 0), ("uint8", 31)):
        text = "".join(f"{tensor} {step} {point}\n" for tensor, step in TABLE.items())
        Path(f"{name}.scale").write_text(text)
    result = run("tengine-quant", "-m", "one.tmfile", "-f", "int8.scale", "-o", "o.tmfile", "--uint8")
    assert result.exit_code == 1
    assert "int8.scale: all its zero points are 0, as in a table of int8 codes" in result.stderr
    assert not Path("o.tmfile").exists()
    for name, more in (("int8", ()), ("uint8", ("--uint8",))):
        made = run("tengine-quant", "-m", "one.tmfile", "-f", f"{name}.scale", "-o", "o.tmfile", *more)
        assert made.exit_code == 0, made.output


def test_a_softmax_tells_the_uint8_table(folder: Path) -> None:
    """Of a network of which nothing is below 0 all zero points are 0."""
    net = Net()
    x = net.input("image", (1, 3, 8, 8))
    y = net.add(
        Tensor("y", (1, 4, 8, 8)),
        "Convolution",
        (x, net.const("w", np.ones((4, 3, 3, 3), np.float32))),
        **CONV,
    )
    net.add(Tensor("p", (1, 4, 8, 8)), "Softmax", (y,), axis=1)
    write_tmfile(net.graph(), "soft.tmfile")
    assert quant("soft.tmfile", "-o", "first.tmfile", "--uint8").exit_code == 0
    table = Path("table_minmax.scale").rename("own.scale")
    assert {line.split()[2] for line in table.read_text().splitlines()} == {"0"}
    again = run("tengine-quant", "-m", "soft.tmfile", "-f", "own.scale", "-o", "again.tmfile", "--uint8")
    assert again.exit_code == 0, again.output
    assert Path("first.tmfile").read_bytes() == Path("again.tmfile").read_bytes()
    Path("own.scale").write_text(table.read_text().replace("0.003922", "0.007874"))
    again = run("tengine-quant", "-m", "soft.tmfile", "-f", "own.scale", "-o", "again.tmfile", "--uint8")
    assert again.exit_code == 1 and "as in a table of int8 codes" in again.stderr
