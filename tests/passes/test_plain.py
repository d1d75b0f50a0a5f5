"""Graphs of layers alone are prepared without onnxscript, and come out as they do with it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import model_hash
from calib8.passes import normalize, simplify
from calib8.passes.plain import LAYERS, SAME_SINCE, holds_layers_alone, is_plain, means_the_same
from calib8.passes.prepare import prepare
from small_models import Array, normal, onnx_model

SIZES: dict[str, Array] = {
    "w": normal(4, 3, 3, 3),
    "v": normal(4, 4, 1, 1),
    "m": normal(144, 5),
    "flat": np.array([0, -1], np.int64),
    "same": np.array([0, 4, 2, 2], np.int64),
    "zero": np.float32(0),
    "six": np.float32(6),
    "ones": np.ones(4, np.float32),
}

NETWORK = (
    "a = Conv(x, w) b = Relu(a) c = Conv(b, v) d = Add(b, c) e = Clip(d, zero, six) f = Concat<axis=1>(e, b)"
    "g = BatchNormalization(e, ones, ones, ones, ones) h = Sum(g, b) i = MaxPool<kernel_shape=[2,2]>(h)"
    "j = AveragePool<kernel_shape=[2,2]>(i) k = Reshape(j, flat) y = Gemm(k, m) z = GlobalAveragePool(f)"
)


def made(body: str, opset: int = 17, outputs: str = "y") -> ir.Model:
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    constants = {name: array for name, array in SIZES.items() if name in words}
    shown = ", ".join(f"float[N] {name}" for name in outputs.split())
    proto = onnx_model("float[2,3,10,10] x", shown, body, constants, opset)
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    model = ir.from_proto(proto)
    ir_passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    return model


@pytest.mark.parametrize("opset", [11, 13, 14, 15, 17])
def test_a_network_of_layers_is_prepared_alike_with_and_without_onnxscript(
    monkeypatch: pytest.MonkeyPatch, opset: int
) -> None:
    model = made(NETWORK, opset, "y z")
    sample = {"x": normal(2, 3, 10, 10)}
    assert is_plain(model.graph)
    assert means_the_same(model.graph, opset)
    without = prepare(model, sample).model
    monkeypatch.setattr(simplify, "is_plain", lambda graph: False)
    monkeypatch.setattr(normalize, "means_the_same", lambda graph, before: False)
    with_it = prepare(model, sample).model
    assert model_hash(without) == model_hash(with_it)
    shapes = [{v.name: str(v.shape) for n in m.graph for v in n.outputs} for m in (without, with_it)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "body",
    [
        "y = Identity(x)",
        "y = Dropout(x)",
        "y = Add(x, zero)",
        "a = Mul(x, six) y = Relu(a)",
        "a = Relu(x) y = Relu(a)",
        "a = Relu(x) y = Clip(a, zero, six)",
        "a = Clip(x, zero, six) y = Clip(a, zero, six)",
        "y = Concat<axis=1>(x)",
        'y = Conv<auto_pad="SAME_UPPER">(x, w)',
        'y = MaxPool<kernel_shape=[2,2], auto_pad="VALID">(x)',
        "a = Conv(x, w) b = MaxPool<kernel_shape=[2,2], strides=[4,4]>(a) y = Reshape(b, same)",
        "a = Add(zero, six) y = Add(x, a)",
        "a = Transpose<perm=[0,2,3,1]>(x) y = Relu(a)",
    ],
)
def test_whatever_a_rewrite_looks_for_is_not_plain(body: str) -> None:
    assert not is_plain(made(body).graph)


def test_nodes_of_other_domains_are_not_plain() -> None:
    model = made("y = Relu(x)")
    assert holds_layers_alone(model.graph) and is_plain(model.graph)
    model.graph.node(0).domain = "com.example"
    assert not holds_layers_alone(model.graph) and not is_plain(model.graph)
    assert not means_the_same(model.graph, 17)


@pytest.mark.parametrize(
    ("body", "opset", "same"),
    [
        ("y = Softmax(x)", 12, False),
        ("y = Softmax(x)", 13, True),
        ("y = Relu(x)", 9, True),
        ("y = BatchNormalization(x, w, w, w, w)", 9, True),
        ("y = Conv(x, w)", 10, False),
        ("y = Resize(x)", 13, False),
    ],
)
def test_operator_sets_that_change_a_meaning_are_known(body: str, opset: int, same: bool) -> None:
    x, w = (ir.Value(name=name) for name in "xw")
    op = body.split("= ")[1].split("(")[0]
    node = ir.Node("", op, [x, w], num_outputs=1)
    assert means_the_same(ir.Graph([x, w], node.outputs, nodes=[node]), opset) is same


def test_every_layer_says_since_when_it_means_the_same() -> None:
    assert SAME_SINCE.keys() > LAYERS
