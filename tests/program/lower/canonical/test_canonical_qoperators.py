"""QOperator models: every op on codes becomes a float op between quantizers; the same codes come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from canonical_checks import Net, canonical, contrib, node_of, op_types, path
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from small_models import Array, normal, onnx_model

UNIT = 1.0 / 64

BODY = """
    c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r)
    d = Conv<pads=[1,1,1,1], group=2>(p, v) s = Sigmoid(d) m = Mul(d, s) a = Add(m, p)
    j = Concat<axis=1>(a, p)
l = LeakyRelu(j) e = AveragePool<kernel_shape=[2,2]>(l) g = GlobalAveragePool(e) f = Flatten(g)
    h = MatMul(f, u) i = Add(h, k) n = Gemm<transB=1>(i, t, o) y = Softmax(n)
"""


class Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.left = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(3)]

    def get_next(self) -> dict[str, Array] | None:
        return self.left.pop() if self.left else None


def quantized(folder: Path, opset: int, **options: Any) -> onnx.ModelProto:
    constants = {"w": normal(6, 3, 3, 3), "b": normal(6), "v": normal(6, 3, 3, 3, seed=1), "u": normal(12, 8)}
    constants |= {"k": normal(8, seed=2), "t": normal(5, 8, seed=3), "o": normal(5, seed=4)}
    onnx.save(onnx_model("float[N,3,8,8] x", "float[N,M] y", BODY, constants, opset), folder / "float.onnx")
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Feeds(), **options)
    return onnx.load(folder / "int8.onnx")


TYPES = {
    "U8S8": (QuantType.QUInt8, QuantType.QInt8),
    "S8S8": (QuantType.QInt8, QuantType.QInt8),
    "U8U8": (QuantType.QUInt8, QuantType.QUInt8),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("types", TYPES)
def test_models_of_quantize_static(tmp_path: Path, types: str, per_channel: bool, opset: int) -> None:
    activations, weights = TYPES[types]
    for form in (QuantFormat.QOperator, QuantFormat.QDQ):
        if form == QuantFormat.QDQ and opset < 13 and per_channel:
            continue  # its quantizers state an axis that operator set 11 does not know
        proto = quantized(
            tmp_path,
            opset,
            quant_format=form,
            per_channel=per_channel,
            activation_type=activations,
            weight_type=weights,
        )
        feeds = {"x": normal(1, 3, 8, 8, seed=9)}
        model = canonical(proto, feeds=feeds, within=0.0 if form == QuantFormat.QDQ else 1.5 / 256)
        assert {"Conv", "Gemm", "MatMul", "Sigmoid", "Concat", "AveragePool", "Softmax"} <= set(
            op_types(model)
        )


def parameters(net: Net, scale: float, zero_point: int, dtype: type = np.uint8) -> list[str]:
    return [net.constant(scale), net.constant(zero_point, dtype)]


def on_codes(op_type: str, count: int, inputs: str, **attributes: Any) -> onnx.ModelProto:
    """``op_type`` over so many quantized inputs, its result as codes and dequantized."""
    net = Net()
    operands = []
    for index in range(count):
        operands += [net.q("x" if index == 0 else "z", 0.02 + 0.01 * index, 100 + index)]
        operands += parameters(net, 0.02 + 0.01 * index, 100 + index)
    result = parameters(net, 0.025, 110)
    placed = [*result, *operands] if op_type == "QLinearConcat" else [*operands, *result]
    value = net.dq("codes", 0.025, 110)
    proto = net.model(inputs, value)
    proto.graph.node.insert(count, contrib(op_type, placed, ["codes"], **attributes))
    return proto


CASES: dict[str, tuple[str, int, str, dict[str, Any]]] = {
    "QLinearAdd": ("QLinearAdd", 2, "float[1,3,4,4] x, float[1,3,1,1] z", {}),
    "QLinearMul": ("QLinearMul", 2, "float[1,3,4,4] x, float[1,3,4,4] z", {}),
    "QLinearConcat": ("QLinearConcat", 2, "float[1,3,4,4] x, float[1,2,4,4] z", {"axis": 1}),
    "QLinearSigmoid": ("QLinearSigmoid", 1, "float[1,3,4,4] x", {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", 1, "float[1,3,4,4] x", {"alpha": 0.2}),
    "QLinearSoftmax": ("QLinearSoftmax", 1, "float[1,3,4,5] x", {"axis": -1, "opset": 13}),
    "QLinearSoftmax of a matrix": ("QLinearSoftmax", 1, "float[3,5] x", {"axis": 1, "opset": 11}),
    "QLinearSoftmax over several axes": ("QLinearSoftmax", 1, "float[2,3,2,2] x", {"axis": 1, "opset": 11}),
    "QLinearAveragePool": (
        "QLinearAveragePool",
        1,
        "float[1,3,5,5] x",
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    "QLinearAveragePool, NHWC": (
        "QLinearAveragePool",
        1,
        "float[1,5,5,3] x",
        {"kernel_shape": [2, 2], "channels_last": 1},
    ),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", 1, "float[1,3,5,5] x", {}),
    "QLinearGlobalAveragePool, NHWC": (
        "QLinearGlobalAveragePool",
        1,
        "float[1,5,5,3] x",
        {"channels_last": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_ops_of_the_runtime_become_float_ops(case: str) -> None:
    op_type, count, inputs, attributes = CASES[case]
    model = canonical(on_codes(op_type, count, inputs, **attributes), within=0.0251)
    float_op = op_type.removeprefix("QLinear")
    node = node_of(model, float_op)
    assert node.name == "codes" and not {"channels_last", "opset"} & set(node.attributes)
    assert op_types(model).count("Transpose") == 2 * attributes.get("channels_last", 0)
    assert ("Flatten" in op_types(model)) == (case == "QLinearSoftmax over several axes")


def test_a_where_of_codes() -> None:
    net = Net()
    operands = []
    for index, value in enumerate("xz"):
        operands += [net.q(value, 0.02, 100 + index), *parameters(net, 0.02, 100 + index)]
    result = parameters(net, 0.04, 110)
    back = net.dq("codes", 0.04, 110)
    proto = net.model("float[2,3] x, float[2,3] z, bool[2,3] c", back)
    proto.graph.node.insert(2, contrib("QLinearWhere", ["c", *operands, *result], ["codes"]))
    assert op_types(canonical(proto, within=0.0401)) == ["Where"]


def test_a_convolution_in_nhwc() -> None:
    net = Net()
    codes = net.q("x", 0.03, 120)
    inputs = [codes, *parameters(net, 0.03, 120), net.constant(net.codes(4, 3, 3, 3), np.int8)]
    inputs += [net.constant(net.rng.uniform(0.01, 0.02, 4)), net.constant(np.zeros(4), np.int8)]
    inputs += [*parameters(net, 0.1, 90), net.constant([-500, 0, 9, 4000], np.int32)]
    back = net.dq("codes", 0.1, 90)
    proto = net.model("float[1,6,5,3] x", back)
    proto.graph.node.insert(1, contrib("QLinearConv", inputs, ["codes"], channels_last=1, pads=[1, 1, 1, 1]))
    model = canonical(proto, within=0.1001)
    assert path(model) == ["Q", "DQ", "Transpose", "Q", "DQ", "Conv", "Q", "DQ", "Transpose", "Q", "DQ"]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("coded", [False, True])
def test_a_gemm_on_codes(coded: bool, trans_b: int, per_channel: bool) -> None:
    net = Net()
    codes = net.q("x", 0.03, 120)
    shape = (4, 6) if trans_b else (6, 4)
    scale = net.rng.uniform(0.01, 0.02, 4) if per_channel else 0.01
    points = np.zeros(4) if per_channel else 0
    inputs = [codes, *parameters(net, 0.03, 120), net.constant(net.codes(*shape), np.int8)]
    inputs += [net.constant(scale), net.constant(points, np.int8), net.constant([-500, 0, 9, 4000], np.int32)]
    inputs += parameters(net, 0.2, 90) if coded else []
    back = net.dq("y", 0.2, 90) if coded else "y"
    proto = net.model("float[3,6] x", back)
    proto.graph.node.insert(1, contrib("QGemm", inputs, ["y"], alpha=0.5, transB=trans_b))
    model = canonical(proto, within=0.2001 if coded else 1e-4)
    assert path(model) == ["Q", "DQ", "Gemm", *(["Q", "DQ"] if coded else [])]
    assert "alpha" not in node_of(model, "Gemm").attributes


def test_omitted_zero_points_are_zero() -> None:
    models = []
    for stated in (False, True):
        net = Net()
        x, z = net.q("x", 0.03, 0, np.int8), net.q("z", 0.02, 0, np.int8)
        scales = [net.constant(scale) for scale in (0.03, 0.02, 0.05)]
        point = net.constant(0, np.int8) if stated else ""
        models.append(net.model("float[2,3] x, float[2,3] z", net.dq("codes", 0.05, 0, np.int8)))
        inputs = [x, scales[0], point, z, scales[1], point, scales[2], point]
        models[-1].graph.node.insert(2, contrib("QLinearAdd", inputs, ["codes"]))
    model = canonical(models[0], meaning=models[1], within=0.0501)
    assert path(model) == ["Q", "Q", "DQ", "DQ", "Add", "Q", "DQ"]


@pytest.mark.parametrize(("opset", "axes"), [(17, "<axes = [2, 3]> ({0})"), (18, "({0}, axes)")])
def test_a_mean_of_codes(opset: int, axes: str) -> None:
    proto = on_codes("QLinearReduceMean", 1, "float[1,3,4,4] x", axes=[2, 3], keepdims=1)
    proto.opset_import[0].version = opset
    net = Net(opset)
    net.constants["axes"] = np.int64([2, 3])
    mean = net.op("ReduceMean " + axes.format(net.coded("x", 0.02, 100)))
    model = canonical(proto, meaning=net.model("float[1,3,4,4] x", net.coded(mean, 0.025, 110)))
    assert path(model) == ["Q", "DQ", "ReduceMean", "Q", "DQ"]


MOVES = {
    "MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> ({0})": "MaxPool",
    "Reshape ({0}, shape)": "Reshape",
    "Transpose <perm = [0, 2, 3, 1]> ({0})": "Transpose",
    "Flatten ({0})": "Flatten",
    "Unsqueeze ({0}, axes)": "Unsqueeze",
    "Slice ({0}, starts, ends)": "Slice",
    "Gather <axis = 1> ({0}, indices)": "Gather",
    "Concat <axis = 1> ({0}, {0})": "Concat",
    "Pad ({0}, pads)": "Pad",
    "Pad ({0}, pads, filler)": "Pad",
    'Resize <mode = "nearest"> ({0}, , scales)': "Resize",
    "Clip ({0}, low, high)": "Clip",
    "DepthToSpace <blocksize = 2> ({0})": "DepthToSpace",
    "ReduceMax <axes = [2, 3]> ({0})": "ReduceMax",
    "Max ({0}, {0})": "Max",
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("text", MOVES)
def test_moves_of_codes_stand_between_quantizers(text: str, dtype: type) -> None:
    net = Net()
    net.constants |= {
        "shape": np.int64([1, -1]),
        "axes": np.int64([1]),
        "starts": np.int64([0, 0, 1]),
        "ends": np.int64([1, 3, 4]),
        "indices": np.int64([2, 0, 3]),
        "pads": np.int64([0, 0, 1, 1, 0, 0, 2, 0]),
        "filler": np.asarray(77, dtype),
        "scales": np.float32([1, 1, 2, 2]),
        "low": np.asarray(40, dtype),
        "high": np.asarray(90, dtype),
    }
    moved = net.op(text.format(net.q("x", 0.05, 60, dtype)))
    model = canonical(net.model("float[1, 4, 5, 6] x", net.dq(moved, 0.05, 60, dtype)))
    assert path(model) == ["Q", "DQ", MOVES[text], "Q", "DQ"]


@pytest.mark.parametrize("zero_point", [0, 20])
def test_a_relu_of_codes_clips_at_code_zero(zero_point: int) -> None:
    net = Net()
    clipped = net.op(f"Relu ({net.q('x', 0.05, zero_point, np.int8)})")
    model = canonical(net.model("float[2, 30] x", net.dq(clipped, 0.05, zero_point, np.int8)))
    assert op_types(model) == ["Relu" if zero_point == 0 else "Clip"]


def test_moves_of_codes_that_are_fed() -> None:
    net = Net()
    moved = net.op(f"Flatten ({net.op('Transpose <perm = [0, 3, 1, 2]> (x)')})")
    model = canonical(net.model("uint8[1, 4, 4, 3] x", net.dq(moved, 0.05, 60)))
    assert path(model) == ["DQ", "Transpose", "Q", "DQ", "Flatten", "Q", "DQ"]


def test_bytes_without_a_scale_are_left_alone() -> None:
    net = Net()
    moved = net.op("Transpose <perm = [0, 3, 1, 2]> (x)")
    model = canonical(net.model("uint8[1, 4, 4, 3] x", net.coded(net.op(f"Cast <to = 1> ({moved})"))))
    assert path(model) == ["Transpose", "Cast", "Q", "DQ"]


def test_a_split_of_codes_and_an_arg_max() -> None:
    net = Net()
    first, second = net.op(f"Split <axis = 1> ({net.q('x')})", outputs=2).split(", ")
    best = net.op(f"ArgMax <axis = 1> ({second})")
    model = canonical(net.model("float[1, 4, 5] x", net.dq(first), best, types=["float", "int64"]))
    assert sorted(op_types(model)) == ["ArgMax", "Split"]


def test_a_pool_in_nhwc() -> None:
    net = Net()
    codes = net.q("x", 0.05, 20, np.int8)
    back = net.dq("pooled", 0.05, 20, np.int8)
    proto = net.model("float[1, 6, 6, 3] x", back)
    proto.graph.node.insert(
        1, contrib("NhwcMaxPool", [codes], ["pooled"], kernel_shape=[2, 2], strides=[2, 2])
    )
    model = canonical(proto)
    assert op_types(model) == ["Transpose", "MaxPool", "Transpose"]


def test_a_dynamically_quantized_layer_stays() -> None:
    net = Net()
    codes, scale, point = net.op("DynamicQuantizeLinear (x)", outputs=3).split(", ")
    weight = net.constant(net.codes(6, 4), np.int8)
    total = net.op(f"Cast <to = 1> ({net.op(f'MatMulInteger ({codes}, {weight}, {point})')})")
    model = canonical(net.model("float[3, 6] x", net.op(f"Mul ({total}, {scale})")))
    assert op_types(model) == ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul"]
