"""The check of the canonical form finds each way of breaking it, and lets the form itself pass."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest
from canonical_checks import Net, canonical
from onnx import numpy_helper, parser, shape_inference

from calib8.program.lower.canonical import spec
from calib8.program.lower.canonical.spec import GUARANTEES, BrokenGuaranteeError, check_canonical
from small_models import Array, normal

CODED: Mapping[str, Array] = {
    "s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.02), "u": np.int8(0),
    "w": np.ones((4, 3, 1, 1), np.int8), "b": np.zeros(4, np.int32), "v": np.float32(0.002), "o": np.int32(0),
}  # fmt: skip
LAYER = (
    "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) f = DequantizeLinear(w, t, u) "
    "c = DequantizeLinear(b, v, o) "
)
CONV = "y = Conv<kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0]>"

BROKEN: dict[str, tuple[str, str, str]] = {
    "a constant node": ("shapes", "k = Constant<value = float {1.0}>() y = Add(x, k)", "Constant 'k'"),
    "an identity between nodes": ("shapes", "a = Exp(x) y = Identity(a)", "Identity 'y' of a value that has"),
    "a scale that is computed": (
        "quantizers", "r = Exp(s) q = QuantizeLinear(x, r, z) y = DequantizeLinear(q, r, z)",
        "'q' has no constant float32 scale"),
    "a negative scale": ("quantizers", "y = QuantizeLinear(x, n, z)", "'y' has no constant float32 scale"),
    "no zero point": (
        "quantizers", "q = QuantizeLinear(x, s) y = DequantizeLinear(q, s)", "'q' states no zero point"),
    "an operator on codes": (
        "operators", "q = QuantizeLinear(x, s, z) y = QLinearConv(q, s, z, w, t, u, s, z)",
        "QLinearConv 'y' computes"),
    "a constant that is quantized": ("constants", "q = QuantizeLinear(r4, s, z) y = Add(x, r4)",
                                     "'q' quantizes a constant"),
    "a node behind the codes of a weight": (
        "constants", f"{LAYER} m = Cast<to = 3>(w) g = DequantizeLinear(m, t, u) {CONV}(d, g)",
        "codes of the weight of 'y' come from Cast"),
    "a transposed input": ("constants", "p = Flatten(x) y = Gemm<transA = 1>(p, p)", "Gemm 'y' has transA"),
    "a bias in other steps": ("biases", f"{LAYER} {CONV}(d, f, c)", "bias of 'y' is not in steps"),
    "a normalization": ("biases", "y = BatchNormalization(x, r3, r3, r3, r3)", "BatchNormalization 'y'"),
    "a window that is not stated": ("windows", f"{LAYER} y = Conv(d, f)", "Conv 'y' lacks"),
    "a window that is derived": (
        "windows",
        'y = MaxPool<kernel_shape = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], auto_pad = "NOTSET">(x)',
        "derives by ['auto_pad']"),
    "a move that is read as floats": ("moves", f"{LAYER} m = Transpose(d) y = Exp(m)",
                                      "Transpose 'm' moves codes"),
    "two equal quantizers": (
        "once", "q = QuantizeLinear(x, s, z) r = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) "
        "e = DequantizeLinear(r, s, z) y = Add(a, e)", "2 quantizers of one value"),
    "codes that are quantized again": (
        "once", f"{LAYER} e = QuantizeLinear(d, s, z) y = DequantizeLinear(e, s, z)",
        "'e' quantizes codes of its own scale"),
    "two nodes of one name": ("names", "a = Exp(x) y = Exp(a)", "2 nodes of the name 'twin'"),
}  # fmt: skip


def broken(name: str) -> ir.Model:
    constants = {**CODED, "n": np.float32(-1.0), "r4": normal(1, 3, 4, 4), "r3": np.ones(3, np.float32)}
    body = BROKEN[name][1]
    words = set(re.findall(r"\w+", body))
    text = f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,4,4] x) => (float y) {{ {body} }}'
    proto = parser.parse_model(text)
    for key in constants.keys() & words:
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(constants[key]), key))
    model = ir.from_proto(shape_inference.infer_shapes(proto))
    for node in model.graph:
        node.name = "twin" if name == "two nodes of one name" else node.outputs[0].name
    return model


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_guarantee_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guarantee, _, text = BROKEN[name]
    assert any(text in found for found in GUARANTEES[guarantee](broken(name)))
    with pytest.raises(BrokenGuaranteeError, match=guarantee):
        check_canonical(broken(name))
    monkeypatch.setenv(spec.VARIABLE, "0")
    check_canonical(broken(name))


def test_every_guarantee_is_broken_once() -> None:
    assert {guarantee for guarantee, _, _ in BROKEN.values()} == set(GUARANTEES)


def test_the_canonical_form_passes() -> None:
    net = Net()
    model = canonical(
        net.model("float[1, 4, 6, 6] x", net.coded(net.op(f"Relu ({net.coded('x', 0.05)})"), 0.05))
    )
    assert [text for check in GUARANTEES.values() for text in check(model)] == []
