"""EQ of tmfiles: the tool's search written out in loops over two layers, and what is left out of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner, Result

from calib8.cli import app
from calib8.errors import TableError
from calib8.exporting.tmfile import eq
from calib8.exporting.tmfile.codes import in_codes
from calib8.exporting.tmfile.eq import deaf, searched_scales
from calib8.progress import silent
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CONV, Net, classifier

SCALES = {"x": 0.02, "a": 0.03, "p": 0.05, "y": 0.06}
POOL = {
    "alg": 0, "kernel_h": 2, "kernel_w": 2, "stride_h": 2, "stride_w": 2, "global": 0, "caffe_flavor": 0,
    "pad_h0": 0, "pad_w0": 0, "pad_h1": 0, "pad_w1": 0,
}  # fmt: skip
ZOOMS = [float(np.float32(1.3 / 200 * (number + 1))) for number in range(0, 200, 20)]

Floats = npt.NDArray[np.float64]


def two_layers(batch: int = 1, second: str = "dense.w") -> Graph:
    """Convolution with ReLU, a max pool that hands its scale back, and a FullyConnected, called so."""
    rng, net = np.random.default_rng(3), Net()
    w = net.const("w", rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
    b = net.const("b", rng.normal(size=4).astype(np.float32))
    dense = net.const(second, rng.normal(size=(5, 36)).astype(np.float32))
    x = net.input("x", (batch, 3, 6, 6))
    a = net.add(Tensor("a", (batch, 4, 6, 6)), "Convolution", (x, w, b), **CONV)
    p = net.add(Tensor("p", (batch, 4, 3, 3)), "Pooling", (a,), **POOL)
    net.add(Tensor("y", (batch, 5)), "FullyConnected", (p, dense), num_output=5)
    return net.graph()


def fed(count: int) -> list[dict[int, npt.NDArray[np.float32]]]:
    """Inputs by place."""
    rng = np.random.default_rng(7)
    return [{3: rng.normal(size=(1, 3, 6, 6)).astype(np.float32)} for _ in range(count)]


def code(values: Floats, scale: float | Floats) -> Floats:
    """What codes of values stand for."""
    steps = np.abs(values) / scale
    return np.sign(values) * np.minimum(np.floor(steps + 0.5), 127) * scale


def convolved(x: Floats, w: Floats, b: Floats) -> Floats:
    """3×3 with a border of zeros and a ReLU."""
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    rows, columns = x.shape[1:]
    windows = [wide[:, i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    sums = sum(np.einsum("oc,chw->ohw", w[:, :, n // 3, n % 3], window) for n, window in enumerate(windows))
    return np.maximum(sums + b[:, None, None], 0.0)


def pooled(x: Floats) -> Floats:
    return x.reshape(4, 3, 2, 3, 2).max(axis=(2, 4))


def best(expected: list[Floats], found: list[list[Floats]]) -> tuple[float, list[float]]:
    """Zoom of the largest cosine, and all cosines, of one channel; ``found`` by zoom."""
    one = np.concatenate([values.ravel() for values in expected])
    cosines = []
    for outputs in found:
        other = np.concatenate([values.ravel() for values in outputs])
        length = np.sqrt(one @ one) * np.sqrt(other @ other)
        cosines.append(float(one @ other / length) if length >= 1e-7 else float(one @ other))
    return ZOOMS[int(np.argmax(cosines))], cosines


def slow_scales(graph: Graph, runs: list[dict[int, npt.NDArray[np.float32]]]) -> tuple[Floats, Floats]:
    """Scales of both layers; those of one sample have all outputs of the second together."""
    w, b, dense = (graph.tensors[place].data.astype(np.float64) for place in range(3))
    x = [run[3][0].astype(np.float64) for run in runs]
    coded_x = [code(one, SCALES["x"]) for one in x]
    plain = np.abs(w).max(axis=(1, 2, 3)) / 127
    coded_b = np.floor(np.abs(b) / (plain * SCALES["x"]) + 0.5) * np.sign(b) * plain * SCALES["x"]
    a = [convolved(one, w, b) for one in x]
    first = np.empty(4)
    for row in range(4):
        found = []
        for zoom in ZOOMS:
            rounded = code(w[row], plain[row] * zoom)[None]
            found.append(
                [code(convolved(one, rounded, coded_b[row : row + 1]), SCALES["p"]) for one in coded_x]
            )
        first[row] = plain[row] * best([one[row] for one in a], found)[0]
    rounded = code(w, first[:, None, None, None])
    coded_p = [pooled(code(convolved(one, rounded, coded_b), SCALES["p"])).ravel() for one in coded_x]
    expected = [dense @ pooled(one).ravel() for one in a]
    steps = np.abs(dense).max(axis=1) / 127
    outputs = [
        [code(code(dense, (steps * zoom)[:, None]) @ one, SCALES["y"]) for one in coded_p] for zoom in ZOOMS
    ]
    if len(runs) == 1:
        return first, steps * best(expected, outputs)[0]
    rows = [
        best([one[row] for one in expected], [[one[row] for one in some] for some in outputs])[0]
        for row in range(5)
    ]
    return first, steps * rows


@pytest.mark.parametrize("count", [1, 6])
def test_the_scales_are_those_of_a_slow_definition(count: int) -> None:
    graph, runs = two_layers(), fed(count)
    found = searched_scales(graph, SCALES, runs, threads=2, progress=silent)
    first, second = slow_scales(graph, runs)
    assert found[0] == pytest.approx(first, rel=1e-6)
    assert found[2] == pytest.approx(second, rel=1e-6)
    plain = np.abs(graph.tensors[0].data).max(axis=(1, 2, 3)) / 127
    assert len({round(float(zoom), 3) for zoom in found[0] / plain}) > 1


def test_few_zooms_at_a_time_and_threads_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, runs = two_layers(), fed(5)
    expected = searched_scales(graph, SCALES, runs, threads=1, progress=silent)
    monkeypatch.setattr(eq, "MOST_ELEMENTS", 3 * 180)  # 144 outputs, 180 weights of the second layer
    found = searched_scales(graph, SCALES, runs, threads=3, progress=silent)
    for name, scales in expected.items():
        np.testing.assert_array_equal(scales, found[name])


def test_rows_of_a_run_count_like_runs_of_a_row() -> None:
    runs = fed(6)
    expected = searched_scales(two_layers(), SCALES, runs, threads=1, progress=silent)
    thirds = [{3: np.concatenate([run[3] for run in runs[first : first + 3]])} for first in (0, 3)]
    found = searched_scales(two_layers(batch=3), SCALES, thirds, threads=1, progress=silent)
    for name, scales in expected.items():
        np.testing.assert_array_equal(scales, found[name])


def test_weights_of_one_name_have_scales_of_their_own() -> None:
    runs = fed(2)
    expected = searched_scales(two_layers(), SCALES, runs, threads=1, progress=silent)
    found = searched_scales(two_layers(second="w"), SCALES, runs, threads=1, progress=silent)
    assert expected.keys() == found.keys() == {0, 2}
    for place, scales in expected.items():
        np.testing.assert_array_equal(scales, found[place])
    made = [in_codes(graph, SCALES, steps=found).graph for graph in (two_layers(), two_layers(second="w"))]
    for place in (0, 2):
        one, other = (graph.tensors[place] for graph in made)
        np.testing.assert_array_equal(one.quantization.scales, found[place])
        np.testing.assert_array_equal(one.data, other.data)
        np.testing.assert_array_equal(one.quantization.scales, other.quantization.scales)


def test_only_fifty_samples_count() -> None:
    runs = fed(53)
    expected = searched_scales(two_layers(), SCALES, runs[:50], threads=1, progress=silent)
    found = searched_scales(two_layers(), SCALES, runs, threads=1, progress=silent)
    for name, scales in expected.items():
        np.testing.assert_array_equal(scales, found[name])


def test_a_channel_of_zeros_has_the_scale_zero_and_a_dead_one_the_smallest() -> None:
    graph = two_layers()
    graph.tensors[0].data[1] = 0.0
    graph.tensors[1].data[2] = -99.0
    found = searched_scales(graph, SCALES, fed(4), threads=1, progress=silent)
    assert found[0][1] == 0.0
    plain = np.abs(graph.tensors[0].data[2]).max() / np.float32(127)
    assert found[0][2] == plain * np.float32(ZOOMS[0])


def test_a_tensor_without_a_scale_is_told() -> None:
    with pytest.raises(TableError, match="has the scale 0 for 1 of the 4 tensors of net: y"):
        searched_scales(two_layers(), SCALES | {"y": 0.0}, fed(1), "net", threads=1, progress=silent)


@pytest.mark.parametrize(
    ("options", "size", "expected"),
    [
        ({}, 11, ("y",)),
        ({}, 10, ()),
        ({"stride_h": 2, "stride_w": 2}, 11, ()),
        ({"group": 16}, 11, ()),
        ({"output_channel": 24}, 11, ()),
        ({"input_channel": 15}, 11, ()),
    ],
)
def test_layers_whose_weights_the_tool_never_changes(
    options: dict[str, int], size: int, expected: tuple[str, ...]
) -> None:
    net = Net()
    w = net.const("w", np.ones((16, 16, 3, 3), np.float32))
    x = net.input("x", (1, 16, size, 7))
    made = {**CONV, "input_channel": 16, "output_channel": 16, **options}
    net.add(Tensor("y", (1, 16, size, 7)), "Convolution", (x, w), **made)
    assert deaf(net.graph()) == expected


def quant(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["tengine-quant", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_the_command_with_a_table_or_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    write_tmfile(classifier(), "net.tmfile")
    Path("images").mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"images/{number}.png")
    given = ("-m", "net.tmfile", "-i", "images", "-w", "99,99,99", "-s", "0.02,0.02,0.02", "-a", 4)
    quant(*given, "-o", "out.tmfile", "-z", 1)
    Path("table_minmax.scale").rename("own.scale")
    quant(*given, "-o", "again.tmfile", "-f", "own.scale")
    assert not Path("table_minmax.scale").exists()
    assert Path("again.tmfile").read_bytes() == Path("out.tmfile").read_bytes()
    weight = next(tensor for tensor in read_tmfile("out.tmfile").tensors if tensor.name == "w")
    data = next(tensor for tensor in classifier().tensors if tensor.name == "w").data
    plain = np.abs(data).max(axis=(1, 2, 3)) / np.float32(127)
    zooms = weight.quantization.scales / plain
    assert np.all(np.min(np.abs(zooms[:, None] - np.float32(ZOOMS)), axis=1) < 1e-6)
    steps = weight.quantization.scales[:, None, None, None]
    assert np.array_equal(weight.data, np.clip(np.rint(data / steps), -127, 127))
