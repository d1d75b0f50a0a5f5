"""Tmfiles in uint8: formulas of Tengine's quant_tool_uint8 written out, and the command for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calib8.cli import app
from calib8.errors import TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes_uint8 import in_uint8
from calib8.exporting.tmfile.kl_uint8 import in_bins, kl_range
from calib8.exporting.tmfile.scales import uint8_texts
from calib8.table import Range
from calib8.tmfile.graph import Tensor
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tmfile_nets import Net, classifier, coded

CODES = {"image": (0.1, 12), "conv": (0.05, 0), "pooled": (0.05, 0), "scores": (0.2, 99)}


def test_weights_have_one_scale_and_a_zero_point() -> None:
    graph = classifier()
    made = in_uint8(graph, CODES).graph
    for name, x in (("w", 0.1), ("dense.w", 0.05)):
        place = next(at for at, tensor in enumerate(graph.tensors) if tensor.name == name)
        floats, found = graph.tensors[place].data, made.tensors[place]
        scale = np.float32((floats.max() - floats.min()) / np.float32(255))
        point = int(-floats.min() / scale)
        assert found.dtype == "uint8"
        assert (found.quantization.scales.tolist(), found.quantization.zero_points.tolist()) == (
            [scale],
            [point],
        )
        for value, code in zip(floats.ravel(), found.data.ravel(), strict=True):
            exact = float(np.float32(value / scale) + np.float32(point))
            assert code == min(max(int(np.floor(exact + 0.5)), 0), 255)
        assert x > 0
    bias = made.tensors[1]
    step = np.float32(0.1) * made.tensors[0].quantization.scales[0]
    assert (bias.dtype, bias.quantization.scales.tolist()) == ("int32", [step])
    wanted = [
        int(np.copysign(np.floor(abs(value / step) + np.float32(0.5)), value))
        for value in graph.tensors[1].data
    ]
    assert bias.data.tolist() == wanted


def test_activations_have_the_codes_of_the_table_and_hand_them_back() -> None:
    net = Net()
    place = net.add(Tensor("s", (1, 4)), "Sigmoid", (net.input("x", (1, 4)),))
    net.add(Tensor("y", (1, 4)), "ReLU", (place,), negative_slope=0.0)
    made = in_uint8(net.graph(), {"x": (0.1, 3), "s": (0.2, 4), "y": (0.3, 5)}).graph
    found = [
        (t.dtype, float(t.quantization.scales[0]), int(t.quantization.zero_points[0])) for t in made.tensors
    ]
    assert found == [("uint8", float(np.float32(s)), z) for s, z in ((0.1, 3), (0.3, 5), (0.3, 5))]


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_on_one_side_of_zero(sign: int) -> None:
    """The zero point is below 0 or above 255 there, as the tool's is."""
    weights = sign * np.float32([[1, 1.5, 2]])
    made = _of_layer(weights)
    scale, point = made.quantization.scales[0], made.quantization.zero_points[0]
    assert scale == np.float32(np.float32(1) / np.float32(255))
    assert (point < 0) == (sign > 0) and not 0 <= point <= 255
    np.testing.assert_allclose((made.data.astype(int) - point) * scale, weights, atol=scale * 1.01)


@pytest.mark.parametrize("value", [0.5, -3.0])
def test_weights_that_are_all_one_number(value: float) -> None:
    """Their own range is empty, and gives the tool a division by 0."""
    made = _of_layer(np.full((1, 3), value, np.float32))
    scale, point = made.quantization.scales[0], made.quantization.zero_points[0]
    np.testing.assert_allclose((made.data.astype(int) - point) * scale, value, rtol=1e-6)


def _of_layer(weights: np.ndarray) -> Tensor:
    net = Net()
    w = net.const("w", weights)
    net.add(Tensor("y", (1, 1)), "FullyConnected", (net.input("x", (1, 3)), w), num_output=1)
    return in_uint8(net.graph(), {"x": (1.0, 0), "y": (1.0, 0)}).graph.tensors[w]


def test_weights_of_zeros() -> None:
    net = Net()
    w, b = net.const("w", np.zeros((2, 3), np.float32)), net.const("b", np.ones(2, np.float32))
    net.add(Tensor("y", (1, 2)), "FullyConnected", (net.input("x", (1, 3)), w, b), num_output=2)
    made = in_uint8(net.graph(), {"x": (1.0, 0), "y": (1.0, 0)}).graph
    assert not made.tensors[w].data.any()
    assert not made.tensors[b].data.any()


def test_what_cannot_be_put_into_codes() -> None:
    with pytest.raises(TableError, match="has the scale 0 for 1 of the 4 tensors of net: conv"):
        in_uint8(classifier(), {**CODES, "conv": (0.0, 0)}, "net")
    with pytest.raises(UnsupportedModelError, match="is a quantized Tengine model"):
        in_uint8(coded(classifier()), CODES, "net")


def quant(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tengine-quant", *map(str, arguments)])


def made_from_images(folder: Path, *options: object) -> dict[str, list[str]]:
    """The table of a run."""
    from PIL import Image

    write_tmfile(classifier(), folder / "net.tmfile")
    (folder / "images").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    result = quant("-m", "net.tmfile", "-i", "images", "-o", "out.tmfile", "-w", "9,9,9", "--uint8", *options)
    assert result.exit_code == 0, result.output
    assert not (folder / "scale_weight.txt").exists()
    table = next(folder.glob("table_*.scale")).read_text()
    return {line.split()[0]: line.split()[1:] for line in table.splitlines()}


def test_the_command_by_min_max(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = made_from_images(tmp_path)
    assert table["image"][1] == str(int(9 / np.float32(table["image"][0])))  # pixels of 0 become −9
    assert float(table["image"][0]) == pytest.approx(255 / 255, abs=0.02)
    assert table["conv"][1] == "0"
    graph = read_tmfile("out.tmfile")
    scores = next(tensor for tensor in graph.tensors if tensor.name == "scores")
    assert scores.quantization.scales[0] == np.float32(table["scores"][0])
    again = quant("-m", "net.tmfile", "-f", "table_minmax.scale", "-o", "again.tmfile", "--uint8")
    assert again.exit_code == 0, again.output
    assert Path("again.tmfile").read_bytes() == Path("out.tmfile").read_bytes()


def test_the_command_by_aciq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = made_from_images(tmp_path, "-a", 2)
    assert {point for _, point in table.values()} == {"127"}


KL_OF_THE_TOOL = """\
images 0.003661 0
11 0.006607 0
13 0.012504 0
15 0.024647 0
17 0.024832 0
19 0.024832 0
20 0.122857 162
21 0.044754 0
output 0.045445 148
"""
"""The table that quant_tool_uint8 -a 1 writes for mnist on the stored images."""


def test_kl_gives_the_table_of_the_tool(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared_data / "tengine"
    monkeypatch.chdir(tmp_path)
    given = ("-m", folder / "mnist_fp32.tmfile", "-i", folder / "images", "-g", "1,28,28", "-w", "0,0,0")
    scale = ",".join(["0.003921568"] * 3)
    result = quant(*given, "-s", scale, "-b", 0, "-a", 1, "--uint8", "-o", "q.tmfile")
    assert result.exit_code == 0, result.output
    assert Path("table_kl.scale").read_text() == KL_OF_THE_TOOL


@pytest.mark.parametrize("limits", [(-0.7, 3.1), (0.2, 3.0), (-4.0, -1.5)])
def test_values_lie_in_bins_from_the_smallest_to_the_largest(limits: tuple[float, float]) -> None:
    low, high = map(np.float32, limits)
    values = np.random.default_rng(5).uniform(low, high, 500).astype(np.float32)
    values[:3] = low, high, 0.0
    width = (high - low) / np.float32(2047)
    expected = np.zeros(2048, np.int64)
    for value in values:
        if value != 0:
            expected[int(value / width + np.float32(int(-low / width)))] += 1
    np.testing.assert_array_equal(in_bins(values, Range(float(low), float(high))), expected)


def test_equal_values_lie_in_the_first_bin() -> None:
    counts = in_bins(np.float32([2.0, 0.0, 2.0]), Range(2.0, 2.0))
    assert (counts[0], counts.sum()) == (2, 2)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_tensor_that_is_zero_everywhere_has_a_scale(symmetric: bool) -> None:
    """The tool gives it the scale 0, with which no code can be read."""
    assert kl_range(np.zeros(2048, np.int64), Range(0.0, 0.0)) == Range(0.0, 0.0)
    graph = classifier()
    ranges = {tensor.name: Range(0.0, 0.0) for tensor in graph.tensors}
    texts = uint8_texts(graph, ranges, symmetric=symmetric)
    assert texts and set(texts.values()) == {("1.000000", 0)}


def test_outliers_on_both_sides_are_cut_off() -> None:
    counts = (1e6 * np.exp(-(((np.arange(2048) - 1000) / 90) ** 2) / 2)).astype(np.int64)
    counts[[1, 2046]] = 1
    found = kl_range(counts, Range(-10.0, 10.0))
    step = 20 / 2048
    assert -10 + 500 * step < found.min <= -10 + 701 * step
    assert -10 + 1299 * step <= found.max < -10 + 1500 * step


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("-a", "4", "-o", "o.tmfile"), ("-a 4", "does not go with --uint8", "has no such algorithm")),
        (("-z", "1", "-o", "o.tmfile"), ("-z 1", "compares layers in int8 alone")),
        (("-o", "o.onnx"), ("--uint8", "is for tmfiles alone")),
    ],
)
def test_what_uint8_does_not_go_with(
    tmp_path: Path, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    write_tmfile(classifier(), tmp_path / "net.tmfile")
    result = quant("-m", tmp_path / "net.tmfile", "-i", tmp_path, "--uint8", *options)
    assert result.exit_code == 2
    assert all(part in result.stderr for part in parts)
