"""The whole preparation: proved equal, or refused by name; on fixed and on random small networks."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from calib8.errors import ModelError, UnsupportedModelError
from calib8.model.graph import graph_inputs, graph_outputs, model_hash
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.passes import prepare as module
from calib8.passes.prepare import PREPARE, differences, prepare
from small_models import Array, graph, normal, onnx_model, ops, relative_difference, run

IMAGE = normal(2, 3, 8, 8, seed=2)
BATCH_NORM: dict[str, Array] = {
    "g": normal(8),
    "be": normal(8, seed=1),
    "m": normal(8, seed=2),
    "v": np.abs(normal(8, seed=3)) + np.float32(0.1),
}


def conv_bn_relu() -> onnx.ModelProto:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, g, be, m, v) d = Dropout(n) y = Relu(d)"
    return onnx_model("float[N,3,8,8] x", "float[N,8,8,8] y", body, {"w": normal(8, 3, 3, 3), **BATCH_NORM})


def test_the_report_says_what_was_done_and_how_far_the_outputs_moved() -> None:
    prepared = prepare(load_model(conv_bn_relu()), {"x": IMAGE})
    assert ops(prepared.model) == {"Conv": 1, "Relu": 1}
    assert list(prepared.rewrites) == [step.__name__ for step in PREPARE]
    assert prepared.rewrites["fold_affine"] == 1
    assert 0.0 < prepared.max_abs_diff < 1e-4
    assert 0.0 < prepared.max_rel_diff < 1e-5


def test_the_original_is_not_changed_and_the_result_is_reproducible() -> None:
    original = load_model(conv_bn_relu())
    before = ir.to_proto(original).SerializeToString(deterministic=True)
    first, second = prepare(original, {"x": IMAGE}), prepare(original, {"x": IMAGE})
    assert ir.to_proto(original).SerializeToString(deterministic=True) == before
    assert model_hash(first.model) == model_hash(second.model) != model_hash(original)
    assert model_hash(prepare(first.model, {"x": IMAGE}).model) == model_hash(first.model)


def test_the_batch_stays_free_and_names_and_shapes_survive() -> None:
    original = load_model(conv_bn_relu())
    prepared = prepare(original, {"x": IMAGE}).model
    assert graph_inputs(prepared) == graph_inputs(original)
    assert graph_outputs(prepared) == graph_outputs(original)
    for count in (1, 7):
        feeds = {"x": normal(count, 3, 8, 8)}
        assert relative_difference(run(original, feeds), run(prepared, feeds)) < 1e-5


def test_every_value_has_a_type_and_a_rank_afterwards() -> None:
    prepared = prepare(load_model(conv_bn_relu()), {"x": IMAGE}).model
    for node in prepared.graph:
        for value in node.outputs:
            assert value.dtype == ir.DataType.FLOAT and value.shape is not None and len(value.shape) == 4


def test_a_difference_is_an_error_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(model: ir.Model) -> int:
        for node in model.graph:
            if node.op_type == "Relu":
                node.op_type = "Abs"
        return 1

    monkeypatch.setattr(module, "PREPARE", (*PREPARE, spoil))
    with pytest.raises(ModelError, match="differs from the original by"):
        prepare(load_model(conv_bn_relu()), {"x": IMAGE})


def outputs_of(body: str) -> ir.Model:
    return graph("float[N] x", "float[N] y", body, {"k": np.float32(2)} if "k" in body else {})


def compare(left: ir.Model, right: ir.Model, feeds: dict[str, Array]) -> tuple[float, float]:
    return differences(open_session(left).run(feeds), open_session(right).run(feeds))


def test_differences_behind_nan_and_inf_are_seen() -> None:
    x = np.array([-1.0, 0.0, 4.0, 1.0], np.float32)
    assert compare(outputs_of("y = Sqrt(x)"), outputs_of("y = Sqrt(x)"), {"x": x}) == (0.0, 0.0)
    absolute, relative = compare(outputs_of("y = Sqrt(x)"), outputs_of("s = Sqrt(x) y = Mul(s, k)"), {"x": x})
    assert (absolute, relative) == (2.0, 1.0)
    absolute, _ = compare(outputs_of("y = Log(x)"), outputs_of("l = Log(x) y = Mul(l, k)"), {"x": x})
    assert absolute == pytest.approx(np.log(4.0))
    assert compare(outputs_of("y = Sqrt(x)"), outputs_of("y = Abs(x)"), {"x": x})[0] == np.inf


def test_outputs_of_another_shape_or_type_differ() -> None:
    x = np.zeros((2, 3), np.float32)
    flat = graph("float[2,3] x", "float[6] y", "y = Reshape(x, s)", {"s": np.array([6], np.int64)})
    same = graph("float[2,3] x", "float[2,3] y", "y = Relu(x)")
    assert compare(same, flat, {"x": x}) == (np.inf, np.inf)
    whole = graph("float[2,3] x", "int64[2,3] y", "y = Cast<to=7>(x)")
    assert compare(same, whole, {"x": x}) == (np.inf, np.inf)


def test_zero_outputs_are_compared_absolutely() -> None:
    x = np.zeros(3, np.float32)
    assert compare(outputs_of("y = Relu(x)"), outputs_of("y = Abs(x)"), {"x": x}) == (0.0, 0.0)
    assert compare(outputs_of("y = Relu(x)"), outputs_of("y = Cos(x)"), {"x": x}) == (1.0, 1.0)


def test_a_quantized_model_is_refused_with_the_node() -> None:
    body = "q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) y = Relu(d)"
    proto = onnx_model("float[N,4] x", "float[N,4] y", body, {"s": np.float32(0.1)})
    proto.graph.node[0].name = "first_q"
    with pytest.raises(UnsupportedModelError, match=r"first_q.*quantized already"):
        prepare(load_model(proto), {"x": normal(2, 4)})


def test_half_precision_is_refused() -> None:
    proto = onnx_model("float16[N,4] x", "float16[N,4] y", "y = Relu(x)")
    with pytest.raises(UnsupportedModelError, match="'x' is float16"):
        prepare(load_model(proto), {"x": normal(2, 4).astype(np.float16)})


def branching(condition: bool | None, *, name: str = "choose") -> onnx.ModelProto:
    """Conv → If(c): Relu or Neg → Conv; the condition is a constant, or an input where None."""
    shape = ["N", 4, 8, 8]
    branches = {}
    for branch, op in (("then_branch", "Relu"), ("else_branch", "Neg")):
        out = helper.make_tensor_value_info(branch, TensorProto.FLOAT, shape)
        branches[branch] = helper.make_graph([helper.make_node(op, ["a"], [branch])], branch, [], [out])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("If", ["c"], ["i"], name=name, **branches),
        helper.make_node("Conv", ["i", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])]
    weights = {"w": normal(4, 3, 3, 3), "v": normal(4, 4, 3, 3)}
    constants = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    if condition is None:
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    else:
        constants.append(numpy_helper.from_array(np.array(condition), "c"))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    made = helper.make_graph(nodes, "net", inputs, outputs, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_with_a_constant_condition_is_resolved_or_refused_by_name(condition: bool) -> None:
    try:
        prepared = prepare(load_model(branching(condition)), {"x": IMAGE})
    except UnsupportedModelError as error:
        assert "If 'choose'" in str(error)
    else:
        assert ops(prepared.model) == {"Conv": 2, "Relu" if condition else "Neg": 1}


def test_a_branch_that_depends_on_an_input_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModelError, match="If 'choose'"):
        prepare(load_model(branching(None)), {"x": IMAGE, "c": np.array(True)})
    with pytest.raises(UnsupportedModelError, match="If"):
        prepare(load_model(branching(None, name="")), {"x": IMAGE, "c": np.array(True)})


def test_a_loop_is_refused_by_name() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[4] x, int64 n) => (float[4] y) {
        t = Constant<value = bool {1}>()
        y = Loop (n, t, x) <body = step (int64 i, bool on, float[4] a) => (bool go, float[4] b) {
            go = Identity(on) b = Add(a, a) }>
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node[1].name = "again"
    with pytest.raises(UnsupportedModelError, match="Loop 'again'"):
        prepare(load_model(proto), {"x": normal(4), "n": np.array(2)})


@dataclass
class Network:
    """A network under construction: its text, its constants, and the sizes of every value so far."""

    lines: list[str] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=lambda: {"x": 3})
    size: dict[str, int] = field(default_factory=lambda: {"x": 8})

    def constant(self, array: Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, call: str, channels: int, size: int) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {call}")
        self.channels[name], self.size[name] = channels, size
        return name


def convolution(net: Network, value: str, seed: int) -> str:
    source, out = net.channels[value], 2 + seed % 5
    if seed % 4 == 0:
        weight, text, out = normal(source, 1, 3, 3, seed=seed), f", group={source}", source
    else:
        weight, text = normal(out, source, 3, 3, seed=seed), ""
    operands = [value, net.constant(weight)]
    if seed % 3:
        operands.append(net.constant(normal(out, seed=seed + 1)))
    return net.add(f"Conv<pads=[1,1,1,1]{text}>({', '.join(operands)})", out, net.size[value])


def batch_normalization(net: Network, value: str, seed: int) -> str:
    channels = net.channels[value]
    parameters = [net.constant(normal(channels, seed=seed + k)) for k in range(3)]
    parameters.append(net.constant(np.abs(normal(channels, seed=seed)) + np.float32(0.2)))
    return net.add(f"BatchNormalization({value}, {', '.join(parameters)})", channels, net.size[value])


def arithmetic(net: Network, value: str, seed: int) -> str:
    channels = net.channels[value]
    shape = [(), (channels, 1, 1), (1, channels, 1, 1), (net.size[value],), (1,)][seed % 5]
    numbers = np.abs(normal(*shape, seed=seed)) + np.float32(0.3)
    k = net.constant(np.asarray(numbers, np.float32).reshape(shape))
    op = ["Mul", "Add", "Sub", "Div"][seed // 5 % 4]
    operands = (value, k) if seed // 20 % 2 else (k, value)
    if op == "Div":
        operands = (value, k)
    return net.add(f"{op}({operands[0]}, {operands[1]})", channels, net.size[value])


def activation(net: Network, value: str, seed: int) -> str:
    limits = (net.constant(np.float32(0)), net.constant(np.float32(6)))
    call = [
        f"Relu({value})",
        f"Clip({value}, {limits[0]}, {limits[1]})",
        f"Sigmoid({value})",
        f"HardSwish({value})",
        f"Dropout({value})",
        f"Identity({value})",
        f"LeakyRelu<alpha=0.1>({value})",
    ][seed % 7]
    return net.add(call, net.channels[value], net.size[value])


def pool(net: Network, value: str, seed: int) -> str:
    channels, size = net.channels[value], net.size[value]
    if size < 4:
        return value
    op = ["MaxPool", "AveragePool"][seed % 2]
    return net.add(f"{op}<kernel_shape=[2,2], strides=[2,2]>({value})", channels, size // 2)


def pad(net: Network, value: str, seed: int) -> str:
    amounts = net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    fill = net.constant(np.float32(seed % 3))
    return net.add(f"Pad({value}, {amounts}, {fill})", net.channels[value], net.size[value] + 2)


def join(net: Network, value: str, seed: int) -> str:
    partners = [name for name in net.channels if net.size[name] == net.size[value]]
    partner = partners[seed % len(partners)]
    if net.channels[partner] == net.channels[value] and seed % 2:
        return net.add(f"Add({value}, {partner})", net.channels[value], net.size[value])
    total = net.channels[value] + net.channels[partner]
    return net.add(f"Concat<axis=1>({value}, {partner})", total, net.size[value])


def normalized_layer(net: Network, value: str, seed: int) -> str:
    return batch_normalization(net, convolution(net, value, seed), seed)


def scaled_layer(net: Network, value: str, seed: int) -> str:
    return arithmetic(net, convolution(net, value, seed), seed + 1)


def padded_layer(net: Network, value: str, seed: int) -> str:
    return convolution(net, pad(net, value, seed), seed)


SINGLE = (convolution, batch_normalization, arithmetic, activation, pool, pad, join)
STEPS = (*SINGLE, normalized_layer, scaled_layer, padded_layer)


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    """Small CNNs of two to ten steps; every step continues the chain or an earlier value."""
    net, value = Network(), "x"
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=10)):
        if draw(st.integers(0, 4)) == 0:
            value = draw(st.sampled_from(sorted(net.channels)))
        value = step(net, value, draw(st.integers(0, 1000)))
    names = [name for name in net.channels if name != "x"] or [net.add("Relu(x)", 3, 8)]
    outputs = sorted({names[-1], draw(st.sampled_from(names))})
    shapes = ", ".join(f"float[N{k},C{k},H{k},W{k}] {name}" for k, name in enumerate(outputs))
    return onnx_model("float[N,3,8,8] x", shapes, "\n".join(net.lines), net.constants)


def tolerance(proto: onnx.ModelProto, feeds: dict[str, Array]) -> float:
    """What outputs may differ by, relative to the largest of each: 1e-4, and 4 ulp of the largest inside.

    A Clip behind values in the thousands cuts them to 6, and leaves their rounding errors.
    """
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    known = {value.name for value in shown.graph.output}
    inside = [name for node in shown.graph.node for name in node.output if name and name not in known]
    shown.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, inside))
    largest = [float(np.max(np.abs(array))) for array in run(shown, feeds)]
    return 1e-4 + 4 * 2.0**-23 * max(largest) / max(min(largest[: len(known)]), 1e-30)


@settings(max_examples=150)
@given(networks())
def test_random_networks_stay_the_same_function(proto: onnx.ModelProto) -> None:
    model, feeds = load_model(proto), {"x": IMAGE}
    prepared = prepare(model, feeds)
    assert prepared.max_rel_diff < tolerance(proto, feeds)
    assert [spec.name for spec in graph_outputs(prepared.model)] == [out.name for out in proto.graph.output]
    onnx.checker.check_model(ir.to_proto(prepared.model), full_check=True)
    other = {"x": normal(3, 3, 8, 8, seed=77)}
    assert relative_difference(run(proto, other), run(prepared.model, other)) < tolerance(proto, other)
    assert ops(prepared.model)["BatchNormalization"] == 0


def test_a_prepared_graph_keeps_nothing_of_the_file_alive() -> None:
    body = "a = Conv(x, w) b = BatchNormalization(a, s, s, s, s) y = Conv(b, v)"
    ones = np.ones(4, np.float32)
    constants = {"w": normal(4, 3, 3, 3), "s": ones, "v": normal(2, 4, 1, 1)}
    shown = "float[N,3,8,8] x, float[4,3,3,3] w"  # old files list constants as inputs
    proto = onnx_model(shown, "float[N,2,6,6] y", body, constants)
    original = ir.from_proto(proto)
    kept = [weakref.ref(value) for value in original.graph.initializers.values()]
    tensors = [weakref.ref(ref().const_value) for ref in kept]
    prepared = prepare(original, {"x": normal(1, 3, 8, 8)})
    del original
    gc.collect()
    assert [ref() for ref in tensors] == [None] * len(tensors)
    assert len(prepared.model.graph.initializers) == 3
