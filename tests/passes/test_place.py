"""Which nodes are quantized, which tensors carry Q/DQ, and the reason wherever it is not so."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper
from place_nets import ANY, CONV, IMAGE, ORT, TENSORRT, WEIGHTS, carriers, image, reasons

from calib8.passes.place import (
    NodeDecision,
    Placement,
    calibration_tensors,
    clip_limits,
    fused_activation,
    place,
)
from calib8.scheme import TARGETS
from small_models import Array, graph, normal, onnx_model


def test_a_chain_of_layers_is_quantized_from_input_to_output() -> None:
    model = image(f"c = {CONV}(x, w) r = Relu(c) y = {CONV}(r, v)")
    placement = place(model, ORT)
    assert reasons(placement) == {}
    assert placement.quantized_nodes() == {"c", "r", "y"}
    assert carriers(model, placement) == ["x", "r", "y"]
    assert all(readers is None for readers in placement.readers.values())


def test_an_activation_is_fused_only_if_nobody_else_reads_the_layer() -> None:
    model = image(f"c = {CONV}(x, w) r = Relu(c) s = Sigmoid(x) m = Mul(c, s) a = Add(m, r) y = {CONV}(a, v)")
    assert carriers(model, place(model, ORT)) == ["x", "c", "r", "s", "m", "a", "y"]
    model = image(f"c = {CONV}(x, w) y = Relu(c)", outputs=f"{ANY}, float[A,B2,C2,D2] c")
    assert carriers(model, place(model, ORT)) == ["x", "c", "y"]


@pytest.mark.parametrize(
    ("limits", "fused"),
    [
        ((0.0, 6.0), True),
        ((0.0, None), True),
        ((-1.0, 1.0), False),
        ((1.0, 6.0), False),
        ((None, 6.0), False),
    ],
)
def test_a_clip_is_fused_if_it_starts_at_zero(limits: tuple[float | None, float | None], fused: bool) -> None:
    given = {name: np.float32(v) for name, v in zip(("lo", "hi"), limits, strict=True) if v is not None}
    operands = ", ".join(name if name in given else "" for name in ("lo", "hi")).rstrip(", ")
    model = image(f"c = {CONV}(x, w) y = Clip(c, {operands})", given)
    conv, clip = list(model.graph)
    assert (fused_activation(conv, ORT) is clip) is fused
    assert ("c" not in place(model, ORT).readers) is fused


def test_only_ops_with_sums_fuse_an_activation() -> None:
    for op, fused in (
        ("Add(x, x)", True),
        ("AveragePool<kernel_shape=[2,2]>(x)", True),
        ("Sigmoid(x)", False),
    ):
        model = image(f"a = {op} y = Relu(a)")
        assert (fused_activation(next(iter(model.graph)), ORT) is not None) is fused


def test_limits_of_a_clip() -> None:
    model = image(
        "r = Relu(x) a = Clip(r, lo, hi) y = Clip(a, , hi)", {"lo": np.float32(-2), "hi": np.float32(3)}
    )
    assert [clip_limits(node) for node in model.graph] == [(0.0, math.inf), (-2.0, 3.0), (-math.inf, 3.0)]
    model = graph("float[N] x, float h", "float[N] y", "y = Clip(x, , h)")
    assert clip_limits(next(iter(model.graph))) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "limits"), [(math.nan, 2, (-math.inf, 2)), (1, math.nan, (1, math.inf))]
)
def test_limits_that_are_no_number_are_none(low: float, high: float, limits: tuple[float, float]) -> None:
    model = ir.from_proto(onnx_model(
        "float[N] x", "float[N] y", "y = Clip(x, low, high)",
        {"low": np.float32(low), "high": np.float32(high)},
    ))  # fmt: skip
    assert clip_limits(next(iter(model.graph))) == limits


FILTER = np.ones((4, 4, 3, 3), np.float32)
FLOAT_NODES: dict[str, tuple[str, dict[str, Array], str]] = {
    "no integer form": (
        f"c = {CONV}(x, w) y = LRN<size=3>(c) z = {CONV}(y, v)",
        {},
        "the op has no integer form",
    ),
    "alpha": (
        "f = Flatten(x) y = Gemm<alpha=0.5>(f, a)",
        {"a": normal(256, 4)},
        "its input is transposed or scaled",
    ),
    "beta": (
        "f = Flatten(x) y = Gemm<beta=0.5>(f, a, b)",
        {"a": normal(256, 4), "b": normal(4)},
        "its input is transposed or scaled",
    ),
    "bias matrix": (
        "f = Flatten(x) y = Gemm(f, a, b)",
        {"a": normal(256, 4), "b": normal(2, 4)},
        "its bias is a matrix",
    ),
    "NaN": (
        f"y = {CONV}(x, n)",
        {"n": np.full((4, 4, 3, 3), np.nan, np.float32)},
        "its weight holds NaN or Inf",
    ),
    "infinity": (
        f"y = {CONV}(x, n)",
        {"n": np.full((4, 4, 3, 3), np.inf, np.float32)},
        "its weight holds NaN or Inf",
    ),
    "batched product": ("y = MatMul(x, a)", {"a": normal(4, 8, 8)}, "its weight is float32 with 3 axes"),
    "computed slope": ("s = Sigmoid(x) y = PRelu(x, s)", {}, "one of its parameters is computed"),
    "infinite padding": (
        "y = Pad(x, p, i)",
        {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "i": np.float32(-np.inf)},
        "it pads with a computed or infinite value",
    ),
}


@pytest.mark.parametrize("name", FLOAT_NODES)
def test_what_cannot_be_computed_from_codes_stays_float_with_its_reason(name: str) -> None:
    body, constants, reason = FLOAT_NODES[name]
    inputs = "float[2,4,8,8] x"
    used = {key: array for key, array in WEIGHTS.items() if f", {key})" in body}
    outputs = "float[A,B,C,D] z" if "z =" in body else "float y"
    proto = onnx_model(inputs, outputs, body, {**used, **constants})
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    model = ir.from_proto(proto)
    for node in model.graph:
        node.name = node.outputs[0].name
        node.outputs[0].dtype = ir.DataType.FLOAT
    assert reasons(place(model, ORT))["y"] == reason


def test_computed_weights_biases_and_limits_stay_float() -> None:
    cases = {
        "float[4,4,3,3] w": (f"y = {CONV}(x, w)", {}, "its weight is computed, not constant"),
        "float[4] b": (f"y = {CONV}(x, w, b)", {"w": WEIGHTS["w"]}, "its bias is computed, not constant"),
        "float h": ("y = Clip(x, , h)", {}, "one of its parameters is computed"),
    }
    for extra, (body, constants, reason) in cases.items():
        model = graph(f"{IMAGE}, {extra}", ANY, body, constants)
        assert reasons(place(model, ORT)) == {"y": reason}
        assert place(model, ORT).readers == {}


def test_a_bias_of_one_row_is_a_vector() -> None:
    model = graph(
        IMAGE, "float[A,B] y", "f = Flatten(x) y = Gemm(f, a, b)", {"a": normal(256, 4), "b": normal(1, 4)}
    )
    assert reasons(place(model, ORT)) == {}


@pytest.mark.parametrize(("mode", "kept"), [("reflect", True), ("edge", True), ("constant", False)])
def test_a_border_of_pixels_needs_no_value(mode: str, kept: bool) -> None:
    """What would be filled in counts for nothing where nothing is."""
    constants = {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "i": np.float32(np.inf)}
    model = image(f'b = Pad<mode="{mode}">(x, p, i) y = {CONV}(b, w)', constants)
    assert ("b" not in reasons(place(model, ORT))) == kept


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("op", ["Add(x, k)", "Mul(k, x)", "Concat<axis=1>(x, k)"])
def test_arithmetic_with_what_is_not_finite_stays_float(op: str, value: float) -> None:
    constants = {
        "k": np.full((1, 4, 8, 8), value, np.float32),
        "u": normal(4, 8 if "Concat" in op else 4, 1, 1),
    }
    model = graph("float[1,4,8,8] x", ANY, f"a = {op} y = Conv(a, u)", constants)
    assert reasons(place(model, ORT)) == {"a": "one of its constants is empty or holds NaN or Inf"}


def test_a_transposed_input_of_gemm_stays_float() -> None:
    model = graph("float[6,N] x", "float[N,4] y", "y = Gemm<transA=1>(x, w)", {"w": normal(6, 4)})
    assert reasons(place(model, ORT)) == {"y": "its input is transposed or scaled"}


def test_the_user_keeps_nodes_in_float_and_their_neighbours_stay_quantized() -> None:
    model = image(f"a = {CONV}(x, w) b = {CONV}(a, v) y = {CONV}(b, w)")
    placement = place(model, ORT, frozenset({"b"}))
    assert reasons(placement) == {"b": "the user keeps it in float"}
    assert carriers(model, placement) == ["x", "a", "b", "y"]


def test_a_value_of_unknown_type_is_named_not_forgotten() -> None:
    proto = onnx_model(IMAGE, ANY, f"a = {CONV}(x, w) g = Relu(a) y = {CONV}(g, v)", WEIGHTS)
    proto.graph.node[1].op_type, proto.graph.node[1].domain = "Gelu", "com.microsoft"
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model = ir.from_proto(proto)
    for node in model.graph:
        node.name = node.outputs[0].name
    next(iter(model.graph)).outputs[0].dtype = ir.DataType.FLOAT
    placement = place(model, ORT)
    assert reasons(placement) == {"g": "the op has no integer form", "y": "the type of its input is unknown"}
    assert carriers(model, placement) == ["x", "a"]


def test_an_op_of_another_domain_is_not_what_its_name_says() -> None:
    proto = onnx_model(IMAGE, ANY, f"a = {CONV}(x, w) g = Sigmoid(a) y = {CONV}(g, v)", WEIGHTS)
    proto.graph.node[1].domain = "mine"
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    model = ir.from_proto(proto)
    for node in model.graph:
        node.name, node.outputs[0].dtype = node.outputs[0].name, ir.DataType.FLOAT
    assert reasons(place(model, ORT)) == {"g": "the op has no integer form"}


def test_shape_arithmetic_is_no_concern() -> None:
    body = """s = Shape(x) g = Gather(s, i) u = Unsqueeze(g, z) h = Concat<axis=0>(u, m)
              r = Reshape(x, h) y = Gemm(r, a)"""
    constants = {
        "i": np.int64(0),
        "z": np.array([0], np.int64),
        "m": np.array([-1], np.int64),
        "a": normal(256, 4),
    }
    model = graph(IMAGE, "float[A,B] y", body, constants)
    names = [decision.node for decision in place(model, ORT).decisions]
    assert names == ["r", "y"]


def test_weighted_inputs_only_for_tensorrt() -> None:
    body = f"a = {CONV}(x, w) r = Relu(a) p = GlobalAveragePool(r) y = Conv(p, u)"
    model = image(body, {"u": normal(4, 4, 1, 1)})
    placement = place(model, TENSORRT)
    assert placement.readers == {"x": {"a"}, "r": {"p"}, "p": {"y"}}
    assert reasons(placement) == {}


def test_one_branch_of_a_residual_addition_for_tensorrt() -> None:
    body = f"a = {CONV}(x, w) r = Relu(a) b = {CONV}(r, v) s = Add(r, b) y = {CONV}(s, w)"
    assert place(image(body), TENSORRT).readers == {"x": {"a"}, "r": {"b", "s"}, "s": {"y"}}
    two_layers = f"a = {CONV}(x, w) b = {CONV}(x, v) s = Add(a, b) y = {CONV}(s, w)"
    assert place(image(two_layers), TENSORRT).readers == {"x": {"a", "b"}, "a": {"s"}, "s": {"y"}}
    no_layer = f"a = Relu(x) b = Sigmoid(x) s = Add(a, b) y = {CONV}(s, w)"
    assert place(image(no_layer), TENSORRT).readers == {"a": {"s"}, "b": {"s"}, "s": {"y"}}
    constant = f"a = Relu(x) s = Add(a, k) y = {CONV}(s, w)"
    assert place(image(constant, {"k": normal(4, 1, 1)}), TENSORRT).readers == {"s": {"y"}}


def test_a_layer_that_others_read_too_is_a_branch_for_tensorrt() -> None:
    """Its sums are needed by themselves, so the other branch cannot be added to them."""
    model = image(f"a = {CONV}(x, w) r = Sigmoid(x) s = Add(r, a) m = Mul(s, a) y = {CONV}(m, v)")
    assert place(model, TENSORRT).readers == {"x": {"a"}, "r": {"s"}, "a": {"s"}, "m": {"y"}}


def test_a_number_that_is_added_is_no_branch_for_tensorrt() -> None:
    model = image(f"a = {CONV}(x, w) m = ReduceMean<keepdims=0>(x) s = Add(a, m) y = {CONV}(s, v)")
    assert place(model, TENSORRT).readers == {"x": {"a"}, "s": {"y"}}


@pytest.mark.parametrize("name", TARGETS)
def test_calibration_covers_every_target(name: str) -> None:
    body = f"""a = {CONV}(x, w) r = Relu(a) b = {CONV}(r, v) s = Add(r, b) p = GlobalAveragePool(s)
               f = Flatten(p) g = Gemm(f, m) y = Softmax(g)"""
    model = image(body, {"m": normal(4, 5)}, outputs="float[A,B] y")
    assert set(place(model, TARGETS[name]).readers) <= set(calibration_tensors(model))


def test_the_summary_counts_and_names_reasons() -> None:
    decisions = (
        NodeDecision("a", "Conv", True, ""),
        NodeDecision("b", "Conv", False, "the user keeps it in float"),
        NodeDecision("c", "Relu", True, ""),
        NodeDecision("d", "Erf", False, "the op has no integer form"),
        NodeDecision("e", "Erf", False, "the op has no integer form"),
    )
    assert Placement(decisions, {}).summary().split("\n") == [
        "1 of 2 Conv quantized; 1 float because the user keeps it in float (Conv)",
        "1 of 3 other ops quantized; 2 float because the op has no integer form (Erf)",
    ]


def test_an_activation_behind_a_float_layer_is_float_too() -> None:
    model = image(f"a = {CONV}(x, w) r = Relu(a) y = {CONV}(r, v)")
    found = place(model, ORT, frozenset({"a"}))
    assert reasons(found) == {"a": "the user keeps it in float", "r": "the layer before it is float"}
    assert carriers(model, found) == ["r", "y"]
    assert set(found.readers) <= set(calibration_tensors(model))


def test_a_clip_behind_a_float_layer_is_float_where_it_would_be_fused() -> None:
    limits = {"zero": np.float32(0), "minus": np.float32(-1), "six": np.float32(6)}
    for low, fused in (("zero", True), ("minus", False)):
        used = {name: limits[name] for name in (low, "six")}
        model = image(f"a = {CONV}(x, w) r = Clip(a, {low}, six) y = {CONV}(r, v)", used)
        assert ("r" in reasons(place(model, ORT, frozenset({"a"})))) == fused


def test_what_is_in_float_anyway_is_read_without_codes_by_float_nodes() -> None:
    model = image(f"c = {CONV}(x, w) s = Add(c, x) d = {CONV}(s, v) y = Add(d, s)")
    placement = place(model, ORT, keep_float=frozenset({"s", "y"}))
    assert carriers(model, placement) == ["x", "c", "s", "d"]
    assert placement.readers == {"x": frozenset({"c"}), "c": None, "s": frozenset({"d"}), "d": None}


def test_a_float_output_that_is_read_again_leaves_the_graph_without_codes() -> None:
    model = graph(IMAGE, f"{ANY}, float[A,B,C,D] s", f"s = Sigmoid(x) y = {CONV}(s, w)", {"w": WEIGHTS["w"]})
    assert place(model, ORT).readers["s"] is None
    assert place(model, ORT, keep_float=frozenset({"s"})).readers["s"] == frozenset({"y"})


ATTENTION = (
    "q = MatMul(x, a) k = MatMul(x, b) t = Transpose<perm=[0,2,1]>(k) m = MatMul(q, t) "
    "e = Softmax(m) v = MatMul(x, c) n = MatMul(e, v) y = MatMul(n, a)"
)


def attention() -> ir.Model:
    weights = {name: normal(8, 8, seed=place) for place, name in enumerate("abc")}
    return graph("float[1,5,8] x", "float[A,B,C] y", ATTENTION, weights)


def test_both_sides_of_a_product_of_activations_have_codes_where_the_target_multiplies_them() -> None:
    """Without them the projections before it would give floats: no other node reads their results."""
    placement = place(attention(), TARGETS["calib8"])
    assert carriers(attention(), placement) == ["x", "q", "k", "t", "m", "e", "v", "n"]
    assert reasons(placement) == dict.fromkeys("mn", "its weight is computed, not constant")
    assert set(placement.readers) <= set(calibration_tensors(attention()))
    assert carriers(attention(), place(attention(), ORT)) == ["x", "m", "e", "n"]


def test_a_product_of_activations_behind_the_last_layer_or_that_stays_float_takes_no_codes() -> None:
    placement = place(attention(), TARGETS["calib8"], frozenset({"m"}))
    assert {"q", "k", "t"}.isdisjoint(placement.readers) and "v" in placement.readers
    body = "q = MatMul(x, a) t = Transpose<perm=[0,2,1]>(q) y = MatMul(q, t)"
    tail = graph("float[1,5,8] x", "float[A,B,C] y", body, {"a": normal(8, 8)})
    assert carriers(tail, place(tail, TARGETS["calib8"])) == ["x"]
