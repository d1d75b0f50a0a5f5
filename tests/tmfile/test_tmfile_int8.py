"""Tmfiles in int8: every scale and code of the files that Tengine's own tool made, and the command for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from calib8 import InferenceSession
from calib8.cli import app
from calib8.delivery.tmfile import tmfile_by_table
from calib8.errors import TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes import in_codes
from calib8.exporting.tmfile.hand_back import scale_sources
from calib8.exporting.tmfile.scales import scale_text
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.tmfile.graph import NCHW, NHWC, Graph, Tensor
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CONV, Net, classifier, coded

METHODS = ("minmax", "kl", "aciq")
TOOL = [("mnist_fp32", f"table_{method}", f"mnist_int8_{method}") for method in METHODS] + [
    (f"nets/net_{net}", f"nets/net_{net}_{number}_table_{method}", f"nets/net_{net}_int8_{number}")
    for net in "abc"
    for number, method in enumerate(METHODS)
]
"""Float model, table and int8 model of the tool."""

LOST = {"nets/net_a_int8_1": {"p3", "c4", "c4.b"}}
"""Inputs of an Eltwise, to which the tool's KL gives the scale 0, and the bias that one of them scales."""

UNDEFINED = {f"nets/net_b_int8_{number}": {"t3.b"} for number in range(3)}
"""The bias of a Deconvolution: the tool leaves its codes, and half of its scales, what was in memory."""


def scales_of(path: Path) -> dict[str, float]:
    return {line.split()[0]: float(np.float32(line.split()[1])) for line in path.read_text().splitlines()}


@pytest.mark.parametrize(("model", "table", "expected"), TOOL)
def test_scales_and_codes_are_those_of_the_tool(
    shared_data: Path, model: str, table: str, expected: str
) -> None:
    folder = shared_data / "tengine"
    scales = scales_of(folder / f"{table}.scale")
    lost = {name for name, scale in scales.items() if scale == 0}
    assert lost == LOST.get(expected, set()) - {"c4.b"}
    found = in_codes(read_tmfile(folder / f"{model}.tmfile"), scales | dict.fromkeys(lost, 1.0)).graph
    wanted = read_tmfile(folder / f"{expected}.tmfile")
    differing = set()
    for one, other in zip(found.tensors, wanted.tensors, strict=True):
        assert (one.name, one.shape, one.role, one.dtype) == (
            other.name,
            other.shape,
            other.role,
            other.dtype,
        )
        same = one.data is None or np.array_equal(one.data, other.data)
        for field in ("scales", "zero_points"):
            pair = getattr(one.quantization, field), getattr(other.quantization, field)
            same = same and np.array_equal(*pair)
        if not same:
            differing.add(one.name)
    assert differing == LOST.get(expected, set()) | UNDEFINED.get(expected, set())
    for one, other in zip(found.nodes, wanted.nodes, strict=True):
        assert (one.name, one.op, one.inputs, one.outputs) == (
            other.name,
            other.op,
            other.inputs,
            other.outputs,
        )
        assert dict(one.options) == dict(other.options)
    assert (found.made_from, found.inputs, found.outputs) == (wanted.made_from, wanted.inputs, wanted.outputs)


def chain(*ops: str, second_reader: str = "") -> Graph:
    """x → op → op …, tensors called after their ops; ``second_reader`` names one that a Sigmoid reads too."""
    options = {"ReLU": {"negative_slope": 0.0}, "Clip": {"max": 6.0, "min": 0.0}, "Pooling": {"alg": 0}}
    net = Net()
    place = net.input("x", (1, 4))
    for op in ops:
        place = net.add(Tensor(op, (1, 4)), op, (place,), **options.get(op, {}))
    if second_reader:
        read = next(at for at, tensor in enumerate(net.tensors) if tensor.name == second_reader)
        net.add(Tensor("other", (1, 4)), "Sigmoid", (read,))
    return net.graph()


def handed(graph: Graph) -> dict[str, float]:
    """Names → scales, where tensor number i has the scale i + 1 before."""
    scales = {tensor.name: place + 1.0 for place, tensor in enumerate(graph.tensors)}
    found = scale_sources(graph)
    return {graph.tensors[place].name: scales[source] for place, source in found.items()}


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (chain("Sigmoid", "ReLU"), {"x": 1, "Sigmoid": 3, "ReLU": 3}),
        (chain("ReLU", "Flatten", "Pooling"), {"x": 4, "ReLU": 4, "Flatten": 4, "Pooling": 4}),
        (chain("ReLU", "Sigmoid", "Clip"), {"x": 2, "ReLU": 2, "Sigmoid": 4, "Clip": 4}),
        (
            chain("Sigmoid", "ReLU", second_reader="Sigmoid"),
            {"x": 1, "Sigmoid": 2, "ReLU": 3, "other": 4},
        ),
        (chain("Sigmoid", "Tanh"), {"x": 1, "Sigmoid": 2, "Tanh": 3}),
    ],
)
def test_scales_are_handed_back(graph: Graph, expected: dict[str, float]) -> None:
    assert handed(graph) == expected


def test_slopes_and_averages_keep_the_scale_before_them() -> None:
    for op, options in (("ReLU", {"negative_slope": 0.1}), ("Pooling", {"alg": 1})):
        net = Net()
        place = net.add(Tensor("s", (1, 4)), "Sigmoid", (net.input("x", (1, 4)),))
        net.add(Tensor("y", (1, 4)), op, (place,), **options)
        assert handed(net.graph()) == {"x": 1, "s": 2, "y": 3}


def test_a_slice_has_the_scale_of_what_it_reads() -> None:
    net = Net()
    place = net.add(Tensor("s", (1, 4)), "Sigmoid", (net.input("x", (1, 4)),))
    net.add(Tensor("y", (1, 2)), "Slice", (place,))
    assert handed(net.graph()) == {"x": 1, "s": 3, "y": 3}


def test_codes_round_halves_away_from_zero() -> None:
    weight = np.array([127, 0.5, -0.5, 1.5, -2.5, 0.49999997], np.float32).reshape(1, 6)
    net = Net()
    w, b = net.const("w", weight), net.const("b", np.array([-1.25], np.float32))
    net.add(Tensor("y", (1, 1)), "FullyConnected", (net.input("x", (1, 6)), w, b), num_output=1)
    made = in_codes(net.graph(), {"x": 0.5, "y": 1.0})
    assert made.graph.tensors[w].data.ravel().tolist() == [127, 1, -1, 2, -3, 0]
    assert made.graph.tensors[b].data.tolist() == [-3]
    assert (made.layers[0].weight_scales.tolist(), made.layers[0].bias_scales.tolist()) == ([1.0], [0.5])


def test_channels_of_zeros_have_codes_of_zeros() -> None:
    net = classifier()
    tensors = [replace(t, data=np.zeros_like(t.data)) if t.name == "w" else t for t in net.tensors]
    made = in_codes(
        replace(net, tensors=tuple(tensors)), dict.fromkeys(("image", "conv", "pooled", "scores"), 0.1)
    )
    assert not made.graph.tensors[0].data.any()
    assert not made.graph.tensors[0].quantization.scales.any()
    assert not made.graph.tensors[1].data.any()


def test_slopes_of_prelu_become_half_floats() -> None:
    net = Net()
    slopes = net.const("slopes", np.array([0.1, 0.25], np.float32))
    net.add(Tensor("y", (1, 2, 1, 1)), "PReLU", (net.input("x", (1, 2, 1, 1)), slopes))
    made = in_codes(net.graph(), {"x": 1.0, "y": 1.0}).graph.tensors[slopes]
    assert (made.dtype, made.quantization) == ("float16", None)
    np.testing.assert_array_equal(made.data, np.float16([0.09998, 0.25]))


def test_slopes_are_cut_as_tengines_tools_cut_them() -> None:
    values = np.float32([1.7368555, -1.7368555, 65530.0, 1e6, -1e6, 6.1e-5, 3e-8, 0.0])
    net = Net()
    slopes = net.const("slopes", values)
    net.add(Tensor("y", (1, 8, 1, 1)), "PReLU", (net.input("x", (1, 8, 1, 1)), slopes))
    made = in_codes(net.graph(), {"x": 1.0, "y": 1.0}).graph.tensors[slopes]
    bits = np.array([0x3EF2, 0xBEF2, 0x7BFF, 0x7C00, 0xFC00, 0x03FF, 0x0000, 0x0000], np.uint16)
    np.testing.assert_array_equal(made.data.view(np.uint16), bits)


def test_what_cannot_be_put_into_codes() -> None:
    net = classifier()
    with pytest.raises(
        TableError, match="has the scale 0 for 1 of the 4 tensors of net: conv; lacks 1 of the 4"
    ):
        in_codes(net, {"image": 1.0, "pooled": 1.0, "conv": 0.0}, "net")
    with pytest.raises(UnsupportedModelError, match="is a quantized Tengine model"):
        in_codes(coded(net), {}, "net")


@pytest.mark.parametrize(
    ("scale", "text"),
    [(0.0073799998, "0.007380"), (1 / 127, "0.007874"), (3.25e-7, "3.25000002e-07"), (2.5, "2.500000")],
)
def test_scales_have_six_decimals_or_nine_digits(scale: float, text: str) -> None:
    assert scale_text(scale) == text


FLAGS = ["-g", "1,28,28", "-w", "0,0,0", "-s", "0.003921568,0.003921568,0.003921568", "-b", "0", "-t", "1"]


def quant(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["tengine-quant", *map(str, arguments)])


@pytest.mark.parametrize(("algorithm", "method"), list(enumerate(METHODS)))
def test_the_command_makes_the_tools_table(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: int, method: str
) -> None:
    """Sums of the last layers are rounded in another order, so that a scale may differ by its last decimal;
    KL's curve is flat to 4e-6 at two tensors, where such a bit may choose another bin."""
    folder = shared_data / "tengine"
    monkeypatch.chdir(tmp_path)
    model = folder / "mnist_fp32.tmfile"
    result = quant("-m", model, "-i", folder / "images", "-o", "int8.tmfile", "-a", algorithm, *FLAGS)
    assert result.exit_code == 0, result.output
    found, wanted = (
        scales_of(path) for path in (tmp_path / f"table_{method}.scale", folder / f"table_{method}.scale")
    )
    assert list(found) == list(wanted)
    flat = {"13", "17", "19"} if method == "kl" else set()
    for name, scale in wanted.items():
        near = {"rel": 0.01} if name in flat else {"abs": 1.1e-6}
        assert found[name] == pytest.approx(scale, **near), name
    exact = sum(found[name] == scale for name, scale in wanted.items())
    assert exact >= (5 if flat else 7)
    weights = (tmp_path / "scale_weight.txt").read_text()
    assert weights == (folder / f"scale_weight_{method}.txt").read_text()
    assert read_tmfile("int8.tmfile").tensors[1].dtype == "int8"


def test_a_given_table_gives_the_tools_model(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared_data / "tengine"
    monkeypatch.chdir(tmp_path)
    result = quant(
        "-m", folder / "mnist_fp32.tmfile", "-f", folder / "table_kl.scale", "-o", "int8.tmfile", *FLAGS
    )
    assert result.exit_code == 0, result.output
    assert "5 layers and all 9 tensors in int8" in result.stdout
    assert (tmp_path / "scale_bias.txt").read_text() == (folder / "scale_bias_kl.txt").read_text()
    found, wanted = (Path("int8.tmfile").read_bytes(), (folder / "mnist_int8_kl.tmfile").read_bytes())
    assert len(found) == len(wanted)
    assert not (tmp_path / "table_minmax.scale").exists()


@pytest.mark.parametrize("output", ["o.tmfile", "o.onnx"])
def test_a_model_that_is_not_there_is_told_as_that(tmp_path: Path, output: str) -> None:
    images = ["-i", tmp_path, "-o", tmp_path / output]
    (tmp_path / "folder.tmfile").mkdir()
    for name, problem in (("none.tmfile", "no such file"), ("folder.tmfile", "is a folder")):
        result = quant("-m", tmp_path / name, *images)
        assert result.exit_code == 1
        assert f"{name}: {problem}" in " ".join(result.stderr.split())


def test_dfq_equalizes_first(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shared_data / "tengine"
    monkeypatch.chdir(tmp_path)
    result = quant(
        "-m", folder / "mnist_fp32.tmfile", "-i", folder / "images", "-o", "q.tmfile", "-a", 3, *FLAGS
    )
    assert result.exit_code == 0, result.output
    assert "3 layers equalized" in result.stdout
    plain = scales_of(folder / "table_minmax.scale")
    found = scales_of(tmp_path / "table_minmax.scale")
    differing = {name for name in plain if found[name] != pytest.approx(plain[name], rel=1e-3)}
    assert differing == {"11", "13"}  # what the first two layers yield: factors end in the third
    given = ("-m", folder / "mnist_fp32.tmfile", "-f", "table_minmax.scale", "-g", "1,28,28")
    again = quant(*given, "-o", "again.tmfile", "-a", 3)
    assert again.exit_code == 0, again.output
    assert "has to be one of the equalized weights, made with the same -a 3" in " ".join(again.output.split())
    assert (tmp_path / "again.tmfile").read_bytes() == (tmp_path / "q.tmfile").read_bytes()
    plain_table = quant(*given, "-o", "plain.tmfile", "-a", 0)
    assert "equalized weights" not in plain_table.output


def test_images_that_cannot_be_read_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tmfile(classifier(), "net.tmfile")
    Path("images").mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"images/{number}.png")
    options = ("-m", "net.tmfile", "-i", "images", "-o", "o.tmfile", "-g", "3,8,8", "-a", 0)
    assert quant(*options).exit_code == 0
    whole = Path("o.tmfile").read_bytes()
    Path("images/9.png").write_text("no picture")
    refused = quant(*options)
    assert refused.exit_code == 1
    assert "9.png: cannot be decoded as an image" in " ".join(refused.stderr.split())
    assert quant(*options, "--skip-bad").exit_code == 0
    assert Path("o.tmfile").read_bytes() == whole


EQ_OF_THE_TOOL = {
    "conv1.0.weight": "89589880",
    "conv1.2.weight": "8788989069988888",
    "conv1.4.weight": "67888896880969090989987760870759",
    "dense.0.weight": "69687768189879866878668776587968687787796575677768778889547797667768878787877875"
    "467697866856677677577962157799787798772687786789",
    "dense.2.weight": "8768888867",
}
"""What quant_tool_int8 -a 4 chooses for channels of mnist on the stored images: n of 1.3/200 (20 n + 1)."""


def test_eq_gives_the_zooms_of_the_tool(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared_data / "tengine"
    monkeypatch.chdir(tmp_path)
    model, images = folder / "mnist_fp32.tmfile", folder / "images"
    result = quant("-m", model, "-i", images, "-o", "q.tmfile", "-a", 4, "-z", 1, *FLAGS)
    assert result.exit_code == 0, result.output
    assert "outputs: SQNR" in result.stdout
    plain, found = (
        {tensor.name: tensor for tensor in read_tmfile(path).tensors}
        for path in (folder / "mnist_int8_minmax.tmfile", "q.tmfile")
    )
    for name, digits in EQ_OF_THE_TOOL.items():
        zooms = np.float32([1.3 / 200 * (20 * int(digit) + 1) for digit in digits])
        expected = zooms * plain[name].quantization.scales
        np.testing.assert_array_equal(found[name].quantization.scales, expected)


def test_a_table_need_not_have_what_is_handed_back() -> None:
    """As tables of ONNX models have none for what lies before a ReLU, and the tool takes them."""
    graph = chain("Sigmoid", "ReLU")
    made = in_codes(graph, {"x": 1.0, "ReLU": 3.0}).graph
    assert [float(tensor.quantization.scales[0]) for tensor in made.tensors] == [1, 3, 3]
    with pytest.raises(TableError, match="lacks 2 of the 3 tensors of model: Sigmoid, ReLU"):
        in_codes(graph, {"x": 1.0, "Sigmoid": 3.0})


def test_a_model_in_nhwc_becomes_one_in_nchw(tmp_path: Path) -> None:
    """Weights of a depthwise layer lie h w c there, and a scale is of a channel."""
    rng, net = np.random.default_rng(0), Net()
    weight = (rng.normal(size=(3, 3, 4)) * [0.1, 1, 10, 100]).astype(np.float32)
    place = net.input("x", (1, 6, 6, 4))
    w = net.const("w", weight.reshape(4, 3, 3, 1))
    options = {**CONV, "input_channel": 4, "group": 4, "activation": -1}
    place = net.add(Tensor("y", (1, 6, 6, 4)), "Convolution", (place, w), **options)
    shape = {"is_mxnet": 0, "reverse": 0, "shape": (1, 144), "is_onnx": 0}
    net.add(Tensor("z", (1, 144)), "Reshape", (place,), **shape)
    write_tmfile(net.graph(model_layout=NHWC), tmp_path / "net.tmfile")
    (tmp_path / "t.scale").write_text("x 0.1 0\ny 0.5 0\nz 0.5 0\n")
    found = tmfile_by_table(tmp_path / "net.tmfile", tmp_path / "t.scale").coded
    wanted = np.abs(weight).max((0, 1)) / np.float32(127)
    np.testing.assert_array_equal(found.layers[0].weight_scales, wanted)
    assert (found.graph.model_layout, found.graph.tensors[0].shape) == (NCHW, (1, 4, 6, 6))
    assert [node.op for node in found.graph.nodes[-3:]] == ["Convolution", "Transpose", "Reshape"]
    write_tmfile(found.graph, tmp_path / "int8.tmfile")
    codes = rng.integers(-9, 10, (1, 4, 6, 6)).astype(np.int8)
    (fp32,) = open_session(load_model(tmp_path / "net.tmfile")).run({"x": codes * np.float32(0.1)})
    (int8,) = InferenceSession(tmp_path / "int8.tmfile").run(None, {"x": codes})
    assert np.abs(np.clip(fp32 / 0.5, -127, 127) - int8).max() < 4  # the weights are rounded too


def test_a_model_in_nhwc_without_a_rule_is_refused(tmp_path: Path) -> None:
    net = Net()
    place = net.input("x", (1, 6, 6, 4))
    net.add(Tensor("y", (1, 6, 6, 4)), "Softmax", (place,), axis=2)
    write_tmfile(net.graph(model_layout=NHWC, graph_layout=NHWC), tmp_path / "net.tmfile")
    (tmp_path / "t.scale").write_text("x 0.1 0\ny 0.5 0\n")
    with pytest.raises(UnsupportedModelError, match=r"net\.tmfile: it has no form in codes: 'y' \(Softmax\)"):
        tmfile_by_table(tmp_path / "net.tmfile", tmp_path / "t.scale")


def test_a_table_that_lacks_tensors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tmfile(classifier(), "net.tmfile")
    Path("t.scale").write_text("image 0.1 0\nconv 0.0 0\npooled 0.2 0\n")
    result = quant("-m", "net.tmfile", "-f", "t.scale", "-o", "o.tmfile", "-g", "3,8,8")
    assert result.exit_code == 1
    told = (
        "t.scale: has the scale 0 for 1 of the 4 tensors of net.tmfile: conv; lacks 1 of the 4 tensors of "
        "net.tmfile: "
    )
    assert f"{told}scores. Calibrate the same model again, or write scales above 0 there" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.tmfile", "t.scale"]


def test_convolutions_of_the_classifier_have_a_scale_per_filter() -> None:
    net = classifier()
    made = in_codes(net, dict.fromkeys(("image", "conv", "pooled", "scores"), 0.1)).graph
    weight = made.tensors[0]
    assert weight.quantization.scales.size == CONV["output_channel"]
    back = weight.data * weight.quantization.scales.reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(back, net.tensors[0].data, atol=float(weight.quantization.scales.max()) / 2)
