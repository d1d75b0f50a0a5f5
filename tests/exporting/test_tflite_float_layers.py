"""Layers that stay in float inside an exported model: every float node beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from exported import CASES, litert_gives
from litert import Kernels, litert_outputs
from onnx import TensorProto, helper, numpy_helper, shape_inference

import calib8
from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import TfliteExport, to_tflite
from calib8.exporting.tflite.float_graphs import WRITE
from calib8.exporting.tflite.float_images import reads_image
from calib8.model.runtime import open_session
from calib8.program import instructions as op
from calib8.program.lower.lower import lower
from calib8.program.program import Port, Program, Slot
from calib8.tflite.write import serialize

Rng = np.random.Generator
Array = npt.NDArray[Any]
Case = tuple[list[tuple[int, ...]], list[onnx.NodeProto], dict[str, Array]]
"""Shapes of the inputs a, b …, nodes that end in y, and constants."""


def model_of(case: Case) -> onnx.ModelProto:
    shapes, nodes, constants = case
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip("ab", shapes, strict=False)
    ]
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "g", inputs, outputs, arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", 20)], ir_version=8)
    return shape_inference.infer_shapes(model, data_prop=True)


def program_of(model: onnx.ModelProto) -> Program:
    """A program of one float part."""
    ports = [*model.graph.input, *model.graph.output]
    slots = [
        Slot(port.name, tuple(axis.dim_value for axis in port.type.tensor_type.shape.dim), "float32")
        for port in ports
    ]
    count = len(model.graph.input)
    numbers = tuple(range(len(slots)))
    names = tuple(node.name or node.output[0] for node in model.graph.node)
    part = op.Float("part", numbers[:count], numbers[count:], model.SerializeToString(), names)
    inputs, outputs = (
        tuple(Port(slots[number].name, number) for number in some)
        for some in (numbers[:count], numbers[count:])
    )
    return Program("tflite", tuple(slots), (part,), inputs, outputs, "net")


def assert_same(case: Case, rng: Rng) -> TfliteExport:
    """LiteRT gives what ONNX Runtime gives, up to the rounding of sums."""
    model = model_of(case)
    fed = [rng.normal(0, 1, shape).astype(np.float32) for shape in case[0]]
    session = open_session(ir.from_proto(model), threads=1)
    wanted = session.run(dict(zip("ab", fed, strict=False)))
    exported = to_tflite(program_of(model))
    without_kernel = any(operator.op == "ELU" for operator in exported.graph.operators)
    lies = reads_image(model.SerializeToString(), "a")
    fed = [np.ascontiguousarray(np.moveaxis(array, 1, 3)) if lies else array for array in fed]
    kernels: Kernels = "optimized" if without_kernel else "reference"
    given = litert_outputs(serialize(exported.graph), fed, kernels)
    for got, want in zip(given, wanted, strict=True):
        limit = 1e-5 * max(float(np.abs(want).max(initial=0)), 1.0)
        np.testing.assert_allclose(got, want, rtol=0, atol=limit)
    return exported


def sizes(rng: Rng, count: int, low: int = 1, high: int = 6) -> list[int]:
    return [int(size) for size in rng.integers(low, high, count)]


def normal(rng: Rng, *shape: int) -> Array:
    return rng.normal(0, 1, shape).astype(np.float32)


def conv(rng: Rng) -> Case:
    kernel, strides, dilations = sizes(rng, 2, 1, 4), sizes(rng, 2, 1, 3), sizes(rng, 2, 1, 3)
    groups, depth, outputs = int(rng.choice([1, 1, 2, 3])), *sizes(rng, 2)
    if rng.random() < 0.4:  # depthwise
        groups, depth, outputs = groups * depth, 1, int(rng.choice([1, 2]))
    pads = [
        int(rng.integers(0, (taps - 1) * step + 1))
        for taps, step in zip(kernel * 2, dilations * 2, strict=True)
    ]
    weights = {"w": normal(rng, outputs * groups, depth, *kernel)}
    if rng.random() < 0.7:
        weights["bias"] = normal(rng, outputs * groups)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    node = helper.make_node("Conv", ["a", *weights], ["y"], **attributes)
    return [(*sizes(rng, 1, 1, 3), groups * depth, *sizes(rng, 2, 8, 12))], [node], weights


def conv_transpose(rng: Rng) -> Case:
    kernel, strides = sizes(rng, 2, 1, 5), sizes(rng, 2, 1, 4)
    depth, outputs = sizes(rng, 2)
    pads = [int(rng.integers(0, taps)) for taps in kernel * 2]
    more = [int(rng.integers(0, step)) for step in strides]
    weights = {"w": normal(rng, depth, outputs, *kernel), "bias": normal(rng, outputs)}
    node = helper.make_node(
        "ConvTranspose", ["a", *weights], ["y"], strides=strides, pads=pads, output_padding=more
    )
    return [(1, depth, *sizes(rng, 2, 4, 7))], [node], weights


def pool(name: str) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        kernel, strides = sizes(rng, 2, 1, 4), sizes(rng, 2, 1, 3)
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        if name == "MaxPool":
            attributes["pads"] = [int(rng.integers(0, taps)) for taps in kernel * 2]
        elif rng.random() < 0.5:
            attributes |= {
                "pads": [int(rng.integers(0, taps)) for taps in kernel * 2],
                "count_include_pad": 1,
            }
        node = helper.make_node(name, ["a"], ["y"], **attributes)
        return [(1, *sizes(rng, 1), *sizes(rng, 2, 6, 10))], [node], {}

    return make


def unary(name: str, positive: bool = False, **attributes: Any) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        nodes = [helper.make_node(name, ["p" if positive else "a"], ["y"], **attributes)]
        if positive:
            nodes.insert(0, helper.make_node("Exp", ["a"], ["p"]))
        return [tuple(sizes(rng, 4))], nodes, {}

    return make


def pad(rng: Rng) -> Case:
    widths = np.array([0, 0, *sizes(rng, 2, 0, 3), 0, 0, *sizes(rng, 2, 0, 3)], np.int64)
    fill = np.array(rng.choice([0.0, -1.5, 2.0]), np.float32)
    return [tuple(sizes(rng, 4))], [helper.make_node("Pad", ["a", "n", "f"], ["y"])], {"n": widths, "f": fill}


def resize(rng: Rng) -> Case:
    shape = tuple(sizes(rng, 4, 2, 6))
    nearest = bool(rng.random() < 0.5)
    factors = sizes(rng, 2, 1, 4)
    target = [size * factor for size, factor in zip(shape[2:], factors, strict=True)]
    how = str(rng.choice(["asymmetric", "half_pixel"] + ([] if nearest else ["align_corners"])))
    attributes = {"mode": "nearest" if nearest else "linear", "coordinate_transformation_mode": how}
    if nearest:
        attributes["nearest_mode"] = "floor" if how == "asymmetric" else "round_prefer_floor"
    node = helper.make_node("Resize", ["a", "", "", "s"], ["y"], **attributes)
    return [shape], [node], {"s": np.array([*shape[:2], *target], np.int64)}


def gemm(rng: Rng) -> Case:
    rows, depth, outputs = sizes(rng, 3)
    turned = bool(rng.random() < 0.5)
    weights = {"w": normal(rng, *((outputs, depth) if turned else (depth, outputs)))}
    if rng.random() < 0.7:
        weights["bias"] = normal(rng, *([outputs] if rng.random() < 0.5 else [1, 1]))
    scale = {"alpha": 0.5, "beta": 2.0} if rng.random() < 0.3 else {}
    node = helper.make_node("Gemm", ["a", *weights], ["y"], transB=int(turned), **scale)
    return [(rows, depth)], [node], weights


def mat_mul(rng: Rng) -> Case:
    rows, depth, columns = sizes(rng, 3)
    batch = sizes(rng, int(rng.integers(0, 3)))
    if rng.random() < 0.5:
        weights = {"w": normal(rng, depth, columns)}
        return [(*batch, rows, depth)], [helper.make_node("MatMul", ["a", "w"], ["y"])], weights
    shapes = [(*batch, rows, depth), (*batch, depth, columns)]
    return shapes, [helper.make_node("MatMul", ["a", "b"], ["y"])], {}


def reduction(name: str) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        rank = int(rng.integers(2, 5))
        axes = [int(axis) for axis in rng.permutation(rank)[: int(rng.integers(1, rank))]]
        keep = int(rng.random() < 0.5)
        node = helper.make_node(name, ["a", "axes"], ["y"], keepdims=keep)
        return [tuple(sizes(rng, rank))], [node], {"axes": np.array(axes, np.int64)}

    return make


def split(rng: Rng) -> Case:
    parts = sizes(rng, 2)
    shape = [*sizes(rng, 1), sum(parts), *sizes(rng, 2)]
    nodes = [
        helper.make_node("Split", ["a", "n"], ["p", "q"], axis=int(rng.choice([1, -3]))),
        helper.make_node("Concat", ["q", "p"], ["y"], axis=1),
    ]
    return [tuple(shape)], nodes, {"n": np.array(parts, np.int64)}


def gather(rng: Rng) -> Case:
    shape = sizes(rng, 3, 2, 6)
    axis = int(rng.integers(-3, 3))
    indices = rng.integers(-shape[axis], shape[axis], sizes(rng, int(rng.integers(0, 3))))
    node = helper.make_node("Gather", ["a", "n"], ["y"], axis=axis)
    return [tuple(shape)], [node], {"n": np.asarray(indices, np.int64)}


def pair(name: str) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        shape = tuple(sizes(rng, 4))
        return [shape, shape], [helper.make_node(name, ["a", "b"], ["y"])], {}

    return make


def prelu(rng: Rng) -> Case:
    shape = tuple(sizes(rng, int(rng.choice([2, 4, 4]))))
    slopes = normal(rng, shape[1], 1, 1) if len(shape) == 4 else normal(rng, shape[1])
    return [shape], [helper.make_node("PRelu", ["a", "s"], ["y"])], {"s": slopes}


def coded_gemm(rng: Rng) -> Case:
    """Weights that a DequantizeLinear makes of codes."""
    depth, outputs = sizes(rng, 2)
    codes = rng.integers(-128, 128, (outputs, depth)).astype(np.int8)
    scales = np.float32(rng.uniform(0.01, 0.1, outputs))
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
        helper.make_node("Gemm", ["a", "w"], ["y"], transB=1),
    ]
    return [(3, depth)], nodes, {"q": codes, "s": scales, "z": np.zeros(outputs, np.int8)}


def layer_norm(rng: Rng) -> Case:
    shape = tuple(sizes(rng, 3, 2, 9))
    weights = {"g": normal(rng, shape[-1])}
    if rng.random() < 0.5:
        weights["o"] = normal(rng, shape[-1])
    return [shape], [helper.make_node("LayerNormalization", ["a", *weights], ["y"], axis=-1)], weights


NODES: dict[str, Callable[[Rng], Case]] = {
    "AveragePool": pool("AveragePool"),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Elu": unary("Elu"),
    "Gather": gather,
    "Gelu": unary("Gelu"),
    "Gemm": gemm,
    "GlobalAveragePool": unary("GlobalAveragePool"),
    "GlobalMaxPool": unary("GlobalMaxPool"),
    "HardSigmoid": unary("HardSigmoid", alpha=0.25, beta=0.4),
    "HardSwish": unary("HardSwish"),
    "LayerNormalization": layer_norm,
    "LeakyRelu": unary("LeakyRelu", alpha=0.2),
    "MatMul": mat_mul,
    "Max": pair("Max"),
    "MaxPool": pool("MaxPool"),
    "Min": pair("Min"),
    "PRelu": prelu,
    "Pad": pad,
    "ReduceL2": reduction("ReduceL2"),
    "ReduceMax": reduction("ReduceMax"),
    "ReduceMean": reduction("ReduceMean"),
    "ReduceMin": reduction("ReduceMin"),
    "ReduceSum": reduction("ReduceSum"),
    "Resize": resize,
    "Split": split,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted(NODES))
def test_nodes(name: str) -> None:
    assert name in WRITE
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same(NODES[name](rng), rng)


def test_weights_in_codes_are_constants() -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        exported = assert_same(coded_gemm(rng), rng)
        assert list(exported.operators) == ["FULLY_CONNECTED"]


def test_layers_in_a_row_are_not_turned_between() -> None:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["a", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Mul", ["r", "two"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["s"]),
        helper.make_node("Conv", ["s", "v"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    weights = {"w": normal(rng, 4, 3, 3, 3), "v": normal(rng, 5, 4, 3, 3), "two": np.float32([2.0])}
    exported = assert_same(([(1, 3, 8, 8)], nodes, weights), rng)
    ops = [operator.op for operator in exported.graph.operators]
    assert ops[:6] == ["CONV_2D", "RELU", "MUL", "ADD", "CONV_2D", "MEAN"]
    assert exported.graph.tensors[exported.graph.inputs[0]].shape == (1, 8, 8, 3)


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (("MaxPool", ["a"], {"kernel_shape": [2, 2], "dilations": [2, 2]}), "a MaxPool with dilations"),
        (("Pad", ["a", "n"], {"mode": "reflect"}), "a Pad that mirrors"),
        (("Elu", ["a"], {"alpha": 0.5}), "an Elu with alpha 0.5"),
        (("Conv", ["a", "b"], {}), "the weights of a Conv are computed"),
    ],
)
def test_nodes_without_a_form(node: tuple[str, list[str], dict[str, Any]], what: str) -> None:
    name, inputs, attributes = node
    constants = {"n": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)} if "n" in inputs else {}
    shapes = [(1, 3, 7, 7), (2, 3, 3, 3)][: 2 if "b" in inputs else 1]
    nodes = [helper.make_node(name, inputs, ["y"], **attributes)]
    with pytest.raises(UnsupportedModelError, match=what):
        to_tflite(program_of(model_of((shapes, nodes, constants))))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", [["first"], ["second"], ["deep", "pool"], ["mean", "dense"]])
def test_mixed_precision(kept: list[str], tmp_path: Any) -> None:
    """Codes, a layer in float, codes: at most one code of the output's range apart from the model's own."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["a", "w1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="second", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Conv", ["c2", "w3"], ["c3"], name="deep", pads=[1, 1, 1, 1], group=8),
        helper.make_node("MaxPool", ["c3"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w4"], ["y"], name="dense"),
    ]
    weights = {
        "w1": normal(rng, 8, 3, 3, 3), "w2": normal(rng, 8, 8, 3, 3),
        "w3": normal(rng, 8, 1, 3, 3), "w4": normal(rng, 8, 5),
    }  # fmt: skip
    model = model_of(([(1, 3, 16, 16)], nodes, weights))
    samples = normal(rng, 24, 3, 16, 16)
    result = calib8.quantize(model, samples, target="tflite", effort="fast", keep_float=kept)
    program = lower(result.model, profile="tflite")
    exported = to_tflite(program)
    ops = [operator.op for operator in exported.graph.operators]
    inside = [place for place in (ops.index("DEQUANTIZE"),) if kept != ["first"]]
    assert kept == ["first"] or inside
    session = open_session(result.model, threads=1)
    for sample in samples[:4]:
        [wanted] = session.run({session.inputs[0].name: sample[None]})
        [given] = litert_gives(exported, [sample[None]])
        assert np.abs(given - wanted).max() <= 0.02 * np.abs(wanted).max()
