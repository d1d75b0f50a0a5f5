"""What is written for what Tengine's kernels compute otherwise or do not load; names of fusions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.delivery.exporting import export
from calib8.errors import ModelError, UnsupportedModelError
from calib8.exporting.tmfile.codes import in_codes
from calib8.exporting.tmfile.quantized import float_graph, int8_graph
from calib8.model.from_tmfile.translate import float_model
from calib8.model.load import load_model
from calib8.passes.converter_names import CONVERTER_NAMES
from calib8.program.lower_tmfile.lower import lower_tmfile
from calib8.program.reference.executor import run_program
from calib8.tmfile.graph import CONST, Graph, Tensor
from calib8.tmfile.read import parse, read_tmfile
from calib8.tmfile.write import serialize
from coded_nets import IMAGE, image_of, met_by, quantization, some_codes, with_tensor
from small_models import graph as graph_of
from small_models import onnx_model
from tmfile_cases import run
from tmfile_nets import CONV, Net

RNG = np.random.default_rng(29)
SHAPE = (1, 2, 5, 4)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op not in (CONST, "InputOp")]


def computed_alike(model: ir.Model) -> Graph:
    """The Tengine graph, which computes what ONNX Runtime does."""
    graph = parse(serialize(float_graph(model, "net")))
    x = RNG.normal(size=model.graph.inputs[0].shape.numpy()).astype(np.float32)
    np.testing.assert_array_equal(run(float_model(graph, "net"), x), run(model, x))
    return graph


def padded(mode: str, shape: str, amounts: list[int], value: float | None = None) -> ir.Model:
    constants = {"p": np.array(amounts)} | ({} if value is None else {"v": np.float32(value)})
    inputs = "x, p" if value is None else "x, p, v"
    return graph_of(
        f"float[{shape}] x", "float[a, b, c, d] y", f'y = Pad <mode = "{mode}"> ({inputs})', constants
    )


@pytest.mark.parametrize("value", [None, 0.0, 1.5])
@pytest.mark.parametrize(
    "amounts", [[0, 0, 1, 2, 0, 0, 2, 1], [0, 0, 0, 3, 0, 0, 0, 0], [1, 2, 0, 0, 0, 1, 1, 0]]
)
def test_constants_around_an_image_are_joined(value: float | None, amounts: list[int]) -> None:
    graph = computed_alike(padded("constant", "1, 2, 5, 4", amounts, value))
    axes = sum(bool(amounts[axis] or amounts[axis + 4]) for axis in range(4))
    assert operators(graph) == ["Concat"] * axes


@pytest.mark.parametrize(
    ("shape", "amounts"),
    [
        ("1, 2, 5, 4", [0, 0, 1, 2, 0, 0, 2, 1]),
        ("1, 2, 5, 4", [0, 0, 0, 0, 0, 0, 3, 0]),
        ("1, 2, 1, 2", [0, 0, 2, 1, 0, 0, 1, 3]),
        ("1, 2, 1, 2", [0, 0, 0, 2, 0, 0, 0, 0]),
        ("1, 3, 2, 2", [0, 1, 0, 0, 0, 2, 0, 0]),
    ],
)
def test_edges_are_split_off_and_joined(shape: str, amounts: list[int]) -> None:
    graph = computed_alike(padded("edge", shape, amounts))
    assert set(operators(graph)) <= {"Split", "Concat"}


def test_a_reflected_image_is_a_pad_and_reflected_channels_are_refused() -> None:
    assert operators(computed_alike(padded("reflect", "1, 2, 5, 4", [0, 0, 1, 2, 0, 0, 2, 1]))) == ["Pad"]
    with pytest.raises(UnsupportedModelError, match="it reflects channels"):
        float_graph(padded("reflect", "1, 2, 5, 4", [0, 1, 0, 0, 0, 0, 0, 0]), "net")


def test_a_pad_by_nothing_is_nothing() -> None:
    model = graph_of(
        "float[1, 2, 5, 4] x", "float[1, 2, 5, 4] y",
        'a = Pad <mode = "edge"> (x, p) y = Relu (a)', {"p": np.zeros(8, np.int64)},
    )  # fmt: skip
    assert operators(computed_alike(model)) == ["ReLU"]


def test_the_least_of_several_is_written_by_the_largest() -> None:
    model = graph_of(
        "float[1, 2, 5, 4] x", "float[1, 2, 5, 4] y", "n = Neg (x) r = Relu (x) y = Min (n, r, c)",
        {"c": RNG.normal(size=SHAPE).astype(np.float32)},
    )  # fmt: skip
    found = operators(computed_alike(model))
    assert found == ["Unary", "ReLU", *["Eltwise"] * 6]


def test_the_least_and_the_largest_of_two_have_int8_kernels() -> None:
    for op, expected in (("Min", ["ReLU", *["Eltwise"] * 4]), ("Max", ["ReLU", "Eltwise"])):
        model = graph_of("float[1, 2, 5, 4] x", "float[1, 2, 5, 4] y", f"r = Relu (x) y = {op} (r, x)")
        graph = computed_alike(model)
        assert operators(graph) == expected
        live = [tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")]
        x = image_of(RNG, SHAPE)
        (found,) = run_program(lower_tmfile(in_codes(graph, dict.fromkeys(live, 0.02)).graph), {"x": x})
        wanted = {"Min": np.minimum, "Max": np.maximum}[op](np.maximum(x, 0), x)
        np.testing.assert_array_equal(found, np.maximum(wanted, -127))


def test_tensors_of_two_axes_have_other_operators() -> None:
    negative = ["Unary", "Unary", "Maximum", "Unary"]
    for op, expected in (("Min", ["ReLU", *negative]), ("Max", ["ReLU", "Maximum"])):
        model = graph_of("float[2, 5] x", "float[2, 5] y", f"r = Relu (x) y = {op} (r, x)")
        assert operators(computed_alike(model)) == expected


def one_row() -> Graph:
    """A Convolution with one output channel, and a fully connected layer with one output."""
    net = Net()
    w = net.const("w", RNG.normal(size=(1, 3, 3, 3)).astype(np.float32))
    b = net.const("b", RNG.normal(size=1).astype(np.float32))
    options = {**CONV, "input_channel": 3, "output_channel": 1}
    place = net.add(Tensor("c", (1, 1, 6, 6)), "Convolution", (net.input("x", (1, 3, 6, 6)), w, b), **options)
    place = net.add(Tensor("flat", (1, 36)), "Flatten", (place,), axis=1, end_axis=3)
    dense = net.const("dense", RNG.normal(size=(1, 36)).astype(np.float32))
    net.add(Tensor("y", (1, 1)), "FullyConnected", (place, dense), num_output=1)
    return net.graph()


def test_a_single_scale_of_weights_stands_twice() -> None:
    """Of one entry Tengine's loader makes no list, and its kernels read one."""
    made = in_codes(one_row(), {"x": 0.02, "c": 0.05, "flat": 0.05, "y": 0.1}).graph
    again = parse(serialize(made))
    for name in ("w", "dense"):
        tensor = next(one for one in again.tensors if one.name == name)
        largest = np.abs(next(one for one in one_row_tensors(made) if one.name == name).data).max()
        assert largest == 127
        assert tensor.quantization.scales.size == 2
        assert tensor.quantization.scales[0] == tensor.quantization.scales[1]
    assert next(one for one in again.tensors if one.name == "b").quantization.scales.size == 1
    single = again
    for name in ("w", "dense"):
        scales = next(one for one in again.tensors if one.name == name).quantization.scales
        single = with_tensor(single, name, quantization=quantization(float(scales[0])))
    x = {"x": image_of(RNG, (1, 3, 6, 6))}
    found, wanted = (run_program(lower_tmfile(one), x) for one in (again, single))
    np.testing.assert_array_equal(found, wanted)


def one_row_tensors(graph: Graph) -> list[Tensor]:
    return [tensor for tensor in graph.tensors if tensor.data is not None]


def test_two_different_scales_of_one_row_are_refused() -> None:
    made = in_codes(one_row(), {"x": 0.02, "c": 0.05, "flat": 0.05, "y": 0.1}).graph
    broken = with_tensor(made, "w", quantization=quantization(0.5, 0.25))
    with pytest.raises(ModelError, match="2 scales, and the shape"):
        parse(serialize(broken))


@pytest.mark.parametrize("shape", [(1,), (6, 1, 1), (1, 6, 1, 1), (1, 6, 5, 4)])
@pytest.mark.parametrize("kind", [0, 2, 4])
def test_constants_in_codes_meet_a_tensor(kind: int, shape: tuple[int, ...]) -> None:
    codes, x = some_codes(RNG, *shape), image_of(RNG, IMAGE)
    (found,) = run_program(lower_tmfile(met_by(kind, codes)), {"x": x})
    left, right = x.astype(np.float32) * np.float32(0.023), codes.astype(np.float32) * np.float32(0.041)
    real = {0: left * right, 2: left + right, 4: left - right}[kind]
    ratio = (real / np.float32(0.03)).astype(np.float64)
    np.testing.assert_array_equal(found, np.clip(np.sign(ratio) * np.floor(np.abs(ratio) + 0.5), -127, 127))


def test_a_constant_in_codes_may_come_first_and_have_no_scale() -> None:
    x, codes = image_of(RNG, IMAGE), some_codes(RNG, *IMAGE)
    (behind,), (before,) = (
        run_program(lower_tmfile(met_by(2, codes, first=first)), {"x": x}) for first in (False, True)
    )
    np.testing.assert_array_equal(behind, before)
    zero = with_tensor(met_by(2, codes), "c", quantization=quantization(0.0))
    nothing = met_by(2, np.zeros_like(codes))
    (found,), (wanted,) = (run_program(lower_tmfile(graph), {"x": x}) for graph in (zero, nothing))
    np.testing.assert_array_equal(found, wanted)


def test_constants_of_other_types_are_refused() -> None:
    graph = met_by(2, np.ones((6, 1, 1), np.float32))
    with pytest.raises(UnsupportedModelError, match="the constant 'c', which Tengine takes for codes"):
        lower_tmfile(graph)


FUSED = onnx_model(
    "float[1, 3, 8, 8] x", "float[1, 4, 4, 4] y",
    """a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
       b = BatchNormalization (a, g, h, h, g)
       c = Relu (b)
       d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
       e = BatchNormalization (d, g, h, h, g)
       f = Relu (e)
       i = Conv <kernel_shape = [1, 1]> (f, v)
       j = Mul (i, m)
       y = Relu (j)""",
    {
        "w": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32), "g": np.float32([1, 2, 0.5, 1.5]),
        "h": np.float32([0.1, -0.2, 0, 0.3]), "v": RNG.normal(size=(4, 4, 1, 1)).astype(np.float32),
        "m": np.float32([1, -2, 3, 0.5]).reshape(1, 4, 1, 1),
    },
)  # fmt: skip
"""Two fusions that the converter makes, a and what behind it, and two that it does not: e and f, i and y."""


def computed(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.tensors if tensor.role == "var"]


def test_what_the_converter_would_leave_apart_has_the_last_name(tmp_path: Path) -> None:
    """Tables name it so, whether they were made for the ONNX model or for the converter's file."""
    onnx.save(FUSED, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=RNG.normal(size=(8, 3, 8, 8)).astype(np.float32))
    export(tmp_path / "net.onnx", tmp_path / "float.tmfile", "tmfile")
    made = calib8.quantize(tmp_path / "net.onnx", tmp_path / "x.npz", target="tengine", repair=("none",))
    made.save(tmp_path / "int8.onnx")
    made.save(tmp_path / "int8.tmfile")
    again = int8_graph(load_model(tmp_path / "int8.onnx"), "int8.onnx").graph
    for graph in (read_tmfile(tmp_path / "float.tmfile"), read_tmfile(tmp_path / "int8.tmfile"), again):
        assert computed(graph) == ["a", "d", "f", "y"]


def test_broken_names_are_refused(tmp_path: Path) -> None:
    onnx.save(FUSED, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=RNG.normal(size=(8, 3, 8, 8)).astype(np.float32))
    model = calib8.quantize(
        tmp_path / "net.onnx", tmp_path / "x.npz", target="tengine", repair=("none",)
    ).model
    for text in ("[]", '{"a": 1}', '{"c": ""}', "{", "[" * 100_000):
        model.metadata_props[f"calib8.{CONVERTER_NAMES}"] = text
        with pytest.raises(ModelError, match="metadata 'converter_names' are broken"):
            int8_graph(model, "int8.onnx")
    model.metadata_props[f"calib8.{CONVERTER_NAMES}"] = '{"c": "x"}'
    with pytest.raises(UnsupportedModelError, match="would be called 'x', as another tensor is"):
        int8_graph(model, "int8.onnx")
