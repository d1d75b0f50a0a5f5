"""QDQ models as int8 tmfiles: every scale and code of the model, and what has no form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

import calib8
from calib8.cli import app
from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.tmfile.quantized import int8_graph
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.model.save import save_model
from calib8.quantization.qdq import codes_of, constant_codes_of
from calib8.tmfile.graph import CONST, Graph, Tensor
from calib8.tmfile.read import read_tmfile
from tmfile_nets import CLASSES, CONV, GLOBAL_AVERAGE, Net

RNG = np.random.default_rng(8)


def residual() -> Graph:
    """Conv, ReLU; Conv; sum; ReLU; max pool; product with channels; mean; fully connected; Softmax."""
    net = Net()

    def conv(name: str, x: int, channels: int, activation: int) -> int:
        w = net.const(f"{name}.w", RNG.normal(size=(4, channels, 3, 3)).astype(np.float32) / 3)
        b = net.const(f"{name}.b", RNG.normal(size=4).astype(np.float32))
        options = {**CONV, "input_channel": channels, "activation": activation}
        return net.add(Tensor(name, (1, 4, 8, 8)), "Convolution", (x, w, b), **options)

    dense = net.const("dense.w", RNG.normal(size=(CLASSES, 4)).astype(np.float32))
    factors = net.const("factors", np.float32([0.5, 1, 1.5, 2]).reshape(1, 4, 1, 1))
    x = net.input("image", (1, 3, 8, 8))
    first = conv("first", x, 3, 0)
    second = conv("second", first, 4, -1)
    total = net.add(Tensor("total", (1, 4, 8, 8)), "Eltwise", (first, second), type=2, caffe_flavor=0)
    place = net.add(Tensor("rectified", (1, 4, 8, 8)), "ReLU", (total,), negative_slope=0.0)
    pool = {
        **GLOBAL_AVERAGE,
        "alg": 0,
        "kernel_h": 2,
        "kernel_w": 2,
        "stride_h": 2,
        "stride_w": 2,
        "global": 0,
    }
    place = net.add(Tensor("pooled", (1, 4, 4, 4)), "Pooling", (place,), **pool)
    place = net.add(Tensor("scaled", (1, 4, 4, 4)), "Eltwise", (place, factors), type=0, caffe_flavor=0)
    mean = {**GLOBAL_AVERAGE, "kernel_h": 4, "kernel_w": 4}
    place = net.add(Tensor("mean", (1, 4, 1, 1)), "Pooling", (place,), **mean)
    place = net.add(Tensor("flat", (1, 4)), "Flatten", (place,), axis=1, end_axis=3)
    place = net.add(Tensor("scores", (1, CLASSES)), "FullyConnected", (place, dense), num_output=CLASSES)
    net.add(Tensor("shares", (1, CLASSES)), "Softmax", (place,), axis=1)
    return net.graph(made_from=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float model, images, and a QDQ model for Tengine."""
    place = tmp_path_factory.mktemp("qdq")
    save_model(float_model(residual(), "net"), place / "net.onnx")
    np.savez(place / "images.npz", image=RNG.normal(size=(16, 3, 8, 8)).astype(np.float32))
    quantized(place).save(place / "int8.onnx")
    return place


def quantized(folder: Path, **words: object) -> calib8.Quantization:
    words = {"target": "tengine", "repair": ("none",), **words}
    return calib8.quantize(folder / "net.onnx", folder / "images.npz", **words)


def activations(model: ir.Model) -> dict[str, float]:
    """Value → scale of the QuantizeLinear that reads it; outputs under their own names."""
    return {
        node.inputs[0].name.removesuffix("/float"): float(np.float32(codes_of(node).scale))
        for node in model.graph
        if node.op_type == "QuantizeLinear"
    }


def test_scales_and_codes_are_those_of_the_model(folder: Path) -> None:
    model = load_model(folder / "int8.onnx")
    graph = int8_graph(model, "int8.onnx").graph
    named = {tensor.name: tensor for tensor in graph.tensors}
    scales = activations(model)
    assert {"image", "second", "rectified", "scaled", "mean", "scores", "shares"} <= scales.keys()
    fused = {"first/sums": "first"}  # what the Conv yields before the ReLU names both
    for tensor in graph.tensors:
        if tensor.role == "const":
            continue
        title = fused.get(tensor.name, tensor.name)
        assert tensor.dtype == "int8"
        wanted = scales.get(title, scales["rectified"] if title == "total" else None)
        assert float(tensor.quantization.scales[0]) == wanted, tensor.name
    stored = 0
    for node in model.graph:
        codes = constant_codes_of(node) if node.op_type == "DequantizeLinear" else None
        if codes is None:
            continue
        tensor = named[node.inputs[0].name.removesuffix("/codes")]
        np.testing.assert_array_equal(tensor.data.ravel(), codes.values.ravel())
        np.testing.assert_array_equal(tensor.quantization.scales, np.ravel(codes.scale))
        stored += 1
    assert stored == sum(node.op == CONST for node in graph.nodes) == 6


def test_a_transposed_layer_with_more_outputs_than_inputs(tmp_path: Path) -> None:
    """ONNX has a scale of the bias per output, Tengine one per input: the codes are found anew."""
    weight, bias = RNG.normal(size=(4, 6, 3, 3)).astype(np.float32), RNG.normal(size=6).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["image", "w", "b"], ["y"], "up", kernel_shape=[3, 3])], "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 7, 7])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    images = RNG.normal(size=(16, 4, 5, 5)).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=images)
    quantized(tmp_path).save(tmp_path / "int8.tmfile")
    made = read_tmfile(tmp_path / "int8.tmfile")
    [layer] = [node for node in made.nodes if node.op == "Deconvolution"]
    codes = made.tensors[layer.inputs[2]]
    assert codes.quantization is not None and codes.data is not None
    steps = np.resize(codes.quantization.scales, 6)  # as Tengine pairs them
    np.testing.assert_allclose(codes.data.reshape(-1) * steps, bias, atol=steps.max())


def test_a_constant_that_is_multiplied_has_codes(folder: Path) -> None:
    graph = int8_graph(load_model(folder / "int8.onnx"), "int8.onnx").graph
    factors = next(tensor for tensor in graph.tensors if tensor.name == "factors")
    assert (factors.dtype, factors.quantization.scales.size) == ("int8", 1)
    back = factors.data * factors.quantization.scales[0]
    np.testing.assert_allclose(back.ravel(), [0.5, 1, 1.5, 2], atol=0.01)


def test_quantize_and_export_write_the_same_file(folder: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [*map(str, arguments)])

    data = ("--data", folder / "images.npz", "--repair", "none")
    made = run("quantize", folder / "net.onnx", *data, "-o", tmp_path / "a.tmfile")
    assert made.exit_code == 0, made.output
    made = run(
        "export",
        folder / "int8.onnx",
        "--to",
        "tmfile",
        "-o",
        tmp_path / "b.tmfile",
        "--json",
        tmp_path / "b.json",
    )
    assert made.exit_code == 0, made.output
    assert "quantized Tengine model of 10 operators" in made.output
    assert (tmp_path / "a.tmfile").read_bytes() == (tmp_path / "b.tmfile").read_bytes()
    assert '"Convolution": 2' in (tmp_path / "b.json").read_text()


def test_a_float_model_becomes_a_float_tmfile(folder: Path, tmp_path: Path) -> None:
    found = calib8.export(folder / "net.onnx", tmp_path / "net.tmfile", "tmfile")
    assert found.operators == {"Convolution": 2, "Eltwise": 2, "Pooling": 2, "ReLU": 1, "Flatten": 1,
                               "FullyConnected": 1, "Softmax": 1}  # fmt: skip
    again = calib8.export(tmp_path / "net.tmfile", tmp_path / "again.tmfile", "tmfile")
    assert (
        repr(again) == f"<Export: '{tmp_path / 'again.tmfile'}', tmfile, 10 operators, {again.bytes:,} bytes>"
    )
    ops = [
        [node.op for node in read_tmfile(tmp_path / name).nodes] for name in ("net.tmfile", "again.tmfile")
    ]
    assert ops[0] == ops[1]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"target": "onnxruntime"}, "has codes of type uint8, not int8"),
        ({"target": "tflite"}, "has the zero point"),
        ({"target": "tengine", "keep_float": ["second"]}, "in float: second"),
    ],
)
def test_codes_that_no_int8_tmfile_has(
    folder: Path, tmp_path: Path, words: dict[str, object], reason: str
) -> None:
    made = quantized(folder, **words)
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        made.save(tmp_path / "int8.tmfile")
    assert "target='tengine'" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_names_and_sources_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not end in \.tmfile"):
        calib8.export(folder / "int8.onnx", tmp_path / "a.onnx", "tmfile")
    calib8.export(folder / "int8.onnx", tmp_path / "a.c8p", "program")
    with pytest.raises(calib8.errors.ModelError, match="is a saved program"):
        calib8.export(tmp_path / "a.c8p", tmp_path / "a.tmfile", "tmfile")
    with pytest.raises(UsageError, match=r"has no layers in float"):
        calib8.tune(folder / "net.onnx", folder / "images.npz", tmp_path / "a.tmfile", min_sqnr=1)
