"""One form for all exporters: every operator set, functions, Constant nodes, names."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from calib8.errors import UnsupportedModelError
from calib8.passes.normalize import MINIMUM_IR_VERSION, WORKING_OPSET, normalize
from small_models import Array, normal, onnx_model, ops, relative_difference, run

IMAGE = normal(2, 3, 8, 8, seed=2)


def checked(proto: onnx.ModelProto, x: Array = IMAGE, tolerance: float = 1e-6) -> ir.Model:
    """The normalized model, proved to be valid and to compute the same."""
    model = ir.from_proto(proto)
    normalize(model)
    result = ir.to_proto(model)
    onnx.checker.check_model(result, full_check=True)
    assert relative_difference(run(proto, {"x": x}), run(result, {"x": x})) < tolerance
    return model


def classifier(opset: int) -> onnx.ModelProto:
    clip = "r = Clip<min=0.0, max=6.0>(n)" if opset < 11 else "r = Clip(n, lo, hi)"
    squeeze = "f = Squeeze<axes=[2,3]>(q)" if opset < 13 else "f = Squeeze(q, axes)"
    body = f"""c = Conv<pads=[1,1,1,1]>(x, w, b) n = BatchNormalization(c, g, be, m, v) {clip}
               p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) q = GlobalAveragePool(p) {squeeze}
               l = Gemm<transB=1>(f, fw, fb) y = Softmax<axis=1>(l)"""
    constants: dict[str, Array] = {
        "w": normal(8, 3, 3, 3),
        "b": normal(8),
        **{name: normal(8, seed=k) for k, name in enumerate(("g", "be", "m"))},
        "v": np.abs(normal(8, seed=4)),
        "fw": normal(5, 8),
        "fb": normal(5),
    }
    if opset >= 11:
        constants |= {"lo": np.float32(0), "hi": np.float32(6)}
    if opset >= 13:
        constants["axes"] = np.array([2, 3], np.int64)
    return onnx_model("float[N,3,8,8] x", "float[N,5] y", body, constants, opset)


@pytest.mark.parametrize("opset", range(7, 23))
def test_every_operator_set_arrives_at_17_or_stays_newer(opset: int) -> None:
    proto = classifier(opset)
    model = ir.from_proto(proto)
    assert normalize(model) == max(WORKING_OPSET - opset, 0)
    assert model.opset_imports[""] == max(WORKING_OPSET, opset)
    assert model.ir_version >= MINIMUM_IR_VERSION
    assert relative_difference(run(proto, {"x": IMAGE}), run(model, {"x": IMAGE})) < 1e-6


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_an_old_upsample_becomes_a_resize(opset: int) -> None:
    if opset == 10:
        body, scales = 'y = Resize<mode="nearest">(x, s)', {"s": np.array([1, 1, 2, 2], np.float32)}
    elif opset == 9:
        body, scales = 'y = Upsample<mode="nearest">(x, s)', {"s": np.array([1, 1, 2, 2], np.float32)}
    else:
        body, scales = 'y = Upsample<mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]>(x)', {}
    model = checked(onnx_model("float[N,3,8,8] x", "float[N,3,16,16] y", body, scales, opset))
    assert ops(model) == {"Resize": 1}


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("kind", ["Upsample", "Resize"])
@pytest.mark.parametrize("factor", [2.0, 2.5, 3.0])
def test_an_old_upsample_keeps_the_positions_of_its_pixels(kind: str, mode: str, factor: float) -> None:
    size = int(8 * factor)
    scales = {"s": np.array([1, 1, factor, factor], np.float32)}
    outputs = f"float[N,3,{size},{size}] y"
    body = f'y = {kind}<mode="{mode}">(x, s)'
    checked(onnx_model("float[N,3,8,8] x", outputs, body, scales, 9 if kind == "Upsample" else 10))


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_an_old_softmax_keeps_its_flattened_meaning(opset: int) -> None:
    checked(
        onnx_model("float[2,3,4,5] x", "float[2,3,4,5] y", "y = Softmax<axis=1>(x)", opset=opset),
        normal(2, 3, 4, 5),
    )


def test_an_operator_set_that_cannot_be_converted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __call__(self, _: ir.Model) -> None:
            raise RuntimeError("no adapter for Foo")

    monkeypatch.setattr("onnxscript.version_converter.ConvertVersionPass", Broken)
    with pytest.raises(UnsupportedModelError, match=r"operator set 9 cannot be converted to 17.*Foo"):
        normalize(ir.from_proto(classifier(9)))


def test_an_operator_set_that_silently_stays_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onnxscript.version_converter.ConvertVersionPass", lambda *_, **__: lambda model: model
    )
    with pytest.raises(UnsupportedModelError, match="operator set 9 cannot be converted"):
        normalize(ir.from_proto(classifier(9)))


def test_initializers_leave_the_inputs() -> None:
    proto = onnx_model(
        "float[N,3,8,8] x, float[4,3,3,3] w", "float[N,4,6,6] y", "y = Conv(x, w)", {"w": normal(4, 3, 3, 3)}
    )
    model = checked(proto)
    assert [value.name for value in model.graph.inputs] == ["x"]


def test_constant_nodes_become_initializers() -> None:
    values = {
        "w": helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(normal(4, 3, 3, 3))),
        "k": helper.make_node("Constant", [], ["k"], value_float=2.0),
        "s": helper.make_node("Constant", [], ["s"], value_ints=[-1, 144]),
    }
    layers = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "k"], ["m"]),
        helper.make_node("Reshape", ["m", "s"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 144])]
    made = helper.make_graph([*values.values(), *layers], "net", inputs, outputs)
    model = checked(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert ops(model) == {"Conv": 1, "Mul": 1, "Reshape": 1}
    assert set(model.graph.initializers) == {"w", "k", "s"}


def test_functions_are_inlined() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "local": 1]>
        net (float[N,3,8,8] x) => (float[N,3,8,8] y) { a = local.twice(x) y = local.twice(a) }
        <domain: "local", opset_import: ["": 17]>
        twice (t) => (u) { r = Relu(t) u = Add(r, r) }"""
    )
    assert ops(checked(proto)) == {"Relu": 2, "Add": 2}


def test_every_node_gets_a_name_of_its_own_and_values_keep_theirs() -> None:
    proto = onnx_model(
        "float[N,4] x", "float[N,4] y", "a = Relu(x) b = Neg(a) c = Relu(b) d = Neg(c) y = Relu(d)"
    )
    for node, name in zip(proto.graph.node, ["", "same", "same", "", "same"], strict=True):
        node.name = name
    model = ir.from_proto(proto)
    normalize(model)
    assert [node.name for node in model.graph] == ["a", "same", "same_1", "d", "same_2"]
    assert [node.outputs[0].name for node in model.graph] == ["a", "b", "c", "d", "y"]
