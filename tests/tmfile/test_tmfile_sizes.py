"""Tmfiles without sizes, as Tengine's converter writes models with a free batch: what they get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import calib8
from calib8.cli import app
from calib8.errors import NoFormError, UnsupportedModelError
from calib8.model.from_tmfile.translate import float_model
from calib8.tmfile.graph import NHWC, Graph, Tensor
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.sizes import RULES, states_sizes, with_sizes
from calib8.tmfile.write import write_tmfile
from tmfile_cases import cases, run
from tmfile_nets import CONV, Net, classifier

UNKNOWN = {"MatMul", "ReduceL2", "Slice of TensorFlow"}
"""Cases whose sizes do not follow from their options, or whose operator has no rule."""

OF_FOUR = {"FullyConnected"}
"""Cases whose file states two axes where Tengine makes four."""


def bare(graph: Graph, role: str = "") -> Graph:
    """The graph without the sizes of what is computed, and of inputs."""
    tensors = (t if t.role == "const" or t.role == role else replace(t, shape=()) for t in graph.tensors)
    return replace(graph, tensors=tuple(tensors))


def fed(graph: Graph) -> dict[int, tuple[int, ...]]:
    return {place: graph.tensors[place].shape for place in graph.input_tensors()}


@pytest.mark.parametrize("name", sorted(set(cases()) - UNKNOWN))
def test_sizes_are_those_that_the_file_would_state(name: str) -> None:
    graph, _, _ = cases()[name]
    found = with_sizes(bare(graph), fed(graph))
    for one, other in zip(found.tensors, graph.tensors, strict=True):
        rows = one.shape[:2] if name in OF_FOUR else one.shape
        assert rows == other.shape or one.shape == other.shape, one.name


@pytest.mark.parametrize("name", ["mnist_fp32", "nets/net_a", "nets/net_b", "nets/net_c"])
def test_sizes_of_tengines_own_files(shared_data: Path, name: str) -> None:
    graph = read_tmfile(shared_data / "tengine" / f"{name}.tmfile")
    found = with_sizes(bare(graph), fed(graph))
    assert [tensor.shape for tensor in found.tensors] == [tensor.shape for tensor in graph.tensors]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "flavour", "expected"),
    [
        (56, 3, 2, 0, 0, 27),
        (56, 3, 2, 0, 1, 28),
        (5, 2, 2, 1, 1, 3),
        (6, 3, 2, 1, 2, 3),
        (7, 3, 2, -1, 0, 4),
    ],
)
def test_windows_of_a_pool(
    size: int, kernel: int, stride: int, pad: int, flavour: int, expected: int
) -> None:
    """``calc_output_size`` by hand: Caffe's flavour rounds up."""
    net = Net()
    options = {f"{name}_{axis}": n for name, n in (("kernel", kernel), ("stride", stride)) for axis in "hw"}
    pads = dict.fromkeys(("pad_h0", "pad_w0", "pad_h1", "pad_w1"), pad)
    kind = {"alg": 0, "global": 0, "caffe_flavor": flavour}
    x = net.input("x", (1, 3, size, size))
    net.add(Tensor("y", ()), "Pooling", (x,), **options, **pads, **kind)
    assert with_sizes(net.graph(), {}).tensors[1].shape == (1, 3, expected, expected)


def test_what_has_no_sizes_is_told() -> None:
    for name in sorted(UNKNOWN):
        graph, _, _ = cases()[name]
        with pytest.raises(NoFormError, match=f"'y' \\({name.split()[0]}\\)"):
            with_sizes(bare(graph), fed(graph))
    graph = classifier()
    with pytest.raises(NoFormError, match=r"'conv' \(Convolution\) does not take sizes of \[1, 3\] and"):
        with_sizes(graph, {graph.input_tensors()[0]: (1, 3)})
    with pytest.raises(NoFormError, match=r"'conv' \(Convolution\) makes sizes of \(0, 4, 8, 8\)"):
        with_sizes(graph, {graph.input_tensors()[0]: (0, 3, 8, 8)})


def test_rules_are_of_operators_of_the_format() -> None:
    from calib8.tmfile.schema import OPERATORS

    assert set(RULES) - {"Resize"} <= set(OPERATORS)


def test_a_file_in_nhwc_needs_sizes() -> None:
    net = Net()
    x = net.input("x", ())
    net.add(Tensor("y", ()), "Concat", (x, x), axis=3)
    with pytest.raises(NoFormError, match=r"'y' \(Concat\) reads a tensor without sizes"):
        as_nchw(net.graph(model_layout=NHWC))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network without sizes, the same with them, images."""
    monkeypatch.chdir(tmp_path)
    write_tmfile(classifier(), "stated.tmfile")
    write_tmfile(bare(classifier()), "bare.tmfile")
    (tmp_path / "images").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    return tmp_path


def codes(path: str) -> list[tuple[object, ...]]:
    """All fields of tensors but the sizes: here Tengine makes four axes of a layer whose file states two."""
    return [
        (t.name, t.dtype, None if t.data is None else t.data.tobytes(), t.quantization.scales.tolist(),
         t.quantization.zero_points.tolist())
        for t in read_tmfile(path).tensors
    ]  # fmt: skip


def quant(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tengine-quant", *map(str, arguments)])


@pytest.mark.parametrize("more", [(), ("-a", 1), ("-a", 3), ("-a", 4), ("--uint8",), ("-z", 1)])
def test_tengine_quant_takes_the_sizes_from_its_option(folder: Path, more: tuple[object, ...]) -> None:
    plain = "-i", "images", "-g", "3,8,8", "-w", "9,9,9", "-s", "0.1,0.1,0.1", *more
    for name in ("stated", "bare"):
        result = quant("-m", f"{name}.tmfile", "-o", f"{name}.int8.tmfile", *plain)
        assert result.exit_code == 0, result.output
    assert not states_sizes(read_tmfile("bare.tmfile"))
    assert codes("bare.int8.tmfile") == codes("stated.int8.tmfile")


def test_tengine_quant_by_a_table(folder: Path) -> None:
    table = "".join(f"{name} 0.1 0\n" for name in ("image", "conv", "pooled", "scores"))
    (folder / "t.scale").write_text(table)
    for name in ("stated", "bare"):
        assert (
            quant("-m", f"{name}.tmfile", "-f", "t.scale", "-o", f"{name}.q.tmfile", "-g", "3,8,8").exit_code
            == 0
        )
    assert codes("bare.q.tmfile") == codes("stated.q.tmfile")


def test_tengine_quant_on_other_sizes_than_the_file_states(folder: Path) -> None:
    """The tool sets the sizes of -g whatever the file says."""
    net = Net()
    w = net.const("w", np.ones((4, 3, 3, 3), np.float32))
    net.add(Tensor("y", (1, 4, 8, 8)), "Convolution", (net.input("x", (1, 3, 8, 8)), w), **CONV)
    write_tmfile(net.graph(), "conv.tmfile")
    result = quant("-m", "conv.tmfile", "-i", "images", "-o", "o.tmfile", "-g", "3,6,4")
    assert result.exit_code == 0, result.output
    assert [tensor.shape for tensor in read_tmfile("o.tmfile").tensors[1:]] == [(1, 3, 6, 4), (1, 4, 6, 4)]


def test_sizes_that_do_not_fit_are_refused(folder: Path) -> None:
    result = quant("-m", "bare.tmfile", "-i", "images", "-o", "o.tmfile", "-g", "3,8,8", "-c", 1, "-y", "8,8")
    assert result.exit_code == 2
    net = Net()
    net.add(Tensor("y", ()), "MatMul", (net.input("x", ()), net.const("w", np.ones((4, 4), np.float32))))
    write_tmfile(net.graph(), "mat.tmfile")
    result = quant("-m", "mat.tmfile", "-i", "images", "-o", "o.tmfile", "-g", "3,8,8")
    assert result.exit_code == 1
    assert "mat.tmfile: it has no form in codes: the sizes behind 'y' (MatMul) are not known" in result.stderr


def test_other_commands_say_how_to_write_the_sizes(folder: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="states no sizes of its input 'image'") as caught:
        calib8.calibrate("bare.tmfile", "images")
    assert "Export it to a tmfile with shapes of its inputs" in str(caught.value)
    result = CliRunner().invoke(
        app, ["export", "bare.tmfile", "--to", "tmfile", "--shape", "image=1,3,8,8", "-o", "sized.tmfile"]
    )
    assert result.exit_code == 0, result.output
    found = read_tmfile("sized.tmfile")
    assert [found.tensors[place].shape for place in found.input_tensors()] == [(1, 3, 8, 8)]
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    results = [run(float_model(graph, "net"), x).ravel() for graph in (found, classifier())]
    np.testing.assert_array_equal(*results)
