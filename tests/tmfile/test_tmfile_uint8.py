"""Tmfiles in uint8: formulas of Tengine's quant_tool_uint8 written out, and the command for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calib8.cli import app
from calib8.errors import TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes_uint8 import in_uint8
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
    """The tool's zero point is below 0 or above 255 there."""
    net = Net()
    w = net.const("w", sign * np.float32([[1, 1.5, 2]]))
    net.add(Tensor("y", (1, 1)), "FullyConnected", (net.input("x", (1, 3)), w), num_output=1)
    made = in_uint8(net.graph(), {"x": (1.0, 0), "y": (1.0, 0)}).graph.tensors[w]
    scale, point = made.quantization.scales[0], made.quantization.zero_points[0]
    assert 0 <= point <= 255
    np.testing.assert_allclose(
        (made.data.astype(int) - point) * scale, sign * np.float32([[1, 1.5, 2]]), atol=scale * 1.01
    )


def test_weights_of_zeros() -> None:
    net = Net()
    w, b = net.const("w", np.zeros((2, 3), np.float32)), net.const("b", np.ones(2, np.float32))
    net.add(Tensor("y", (1, 2)), "FullyConnected", (net.input("x", (1, 3)), w, b), num_output=2)
    made = in_uint8(net.graph(), {"x": (1.0, 0), "y": (1.0, 0)}).graph
    assert not made.tensors[w].data.any()
    assert not made.tensors[b].data.any()


def test_what_cannot_be_put_into_codes() -> None:
    with pytest.raises(TableError, match="lacks 1 of the 4 tensors of net: conv"):
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


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("-a", "1", "-o", "o.tmfile"), ("-a 1", "does not go with --uint8")),
        (("-a", "4", "-o", "o.tmfile"), ("-a 4", "does not go with --uint8")),
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
