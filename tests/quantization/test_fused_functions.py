"""Targets that compute a function of one tensor together with the layer before it: no code in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from quantized_models import CONV, ORT, quantized

from calib8.analysis.inspect import inspect_model
from calib8.analysis.lint import lint
from calib8.analysis.openvino_model import compile_in_openvino
from calib8.ops.groups import CLAMPS
from calib8.passes.function_factors import function_entries
from calib8.passes.place import place
from calib8.scheme import TARGETS
from exact_sums import exact
from small_models import Array, graph, normal, onnx_model, run

CALIB8 = TARGETS["calib8"]
OPENVINO = TARGETS["openvino"]
FEEDS = {"x": normal(2, 8, 12, 12, seed=9)}
CONSTANTS: dict[str, Array] = {
    "w": normal(16, 8, 3, 3) * np.float32(0.2),
    "t": normal(8, 16, 3, 3) * np.float32(0.2),
    "u": normal(8, 16, 3, 3, seed=1) * np.float32(0.1),
    "k": np.float32(1.4142135),
    "h": np.float32(0.5),
    "one": np.float32(1),
    "slope": np.abs(normal(16, 1, 1, seed=3)),
    "wide": np.abs(normal(1, 16, 1, 1, seed=4)),
    "m": normal(8, 16),
    "n2": normal(16, 8, seed=2),
}
FUNCTIONS = {
    "Swish": "s = Sigmoid(c) n = Mul(c, s)",
    "Gelu": "d = Div(c, k) e = Erf(d) a = Add(e, one) p = Mul(c, a) n = Mul(p, h)",
    "Mish": "p = Softplus(c) q = Tanh(p) n = Mul(c, q)",
    "HardSwish": "n = HardSwish(c)",
    "LeakyRelu": "n = LeakyRelu<alpha=0.1>(c)",
    "PRelu": "n = PRelu(c, slope)",
    "Sigmoid": "n = Sigmoid(c)",
    "Tanh": "n = Tanh(c)",
    "Elu": "n = Elu(c)",
    "Abs": "n = Abs(c)",
}
"""By the names that ``QuantScheme.fuses`` has for them."""


def constants(body: str) -> Mapping[str, Array]:
    return {
        name: array
        for name, array in CONSTANTS.items()
        if any(part in body for part in (f"({name},", f", {name},", f", {name})"))
    }


def network(function: str, layer: str = f"c = {CONV}(x, w)") -> onnx.ModelProto:
    body = f"{layer} {function} y = {CONV}(n, u)"
    return onnx_model("float[N,8,12,12] x", "float[N,8,12,12] y", body, constants(body))


def error(model: ir.Model, expected: Array) -> float:
    return float(np.mean(np.square(run(model, FEEDS)[0] - expected)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", ["calib8", "openvino"])
def test_the_function_gets_the_sums(name: str, target: str) -> None:
    prepared, placement, fused = quantized(network(FUNCTIONS[name]), FEEDS, TARGETS[target])
    assert set(placement.readers) == {"x", "n", "y"}
    assert all(decision.quantized for decision in placement.decisions)
    _, apart_placement, apart = quantized(
        network(FUNCTIONS[name]), FEEDS, replace(TARGETS[target], fuses=CLAMPS)
    )
    assert set(apart_placement.readers) == {"x", "c", "n", "y"}
    [expected] = run(prepared, FEEDS)
    assert error(fused.model, expected) < error(apart.model, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_onnx_runtime_computes_the_file_as_it_is_written(name: str) -> None:
    """With all of its rewrites: it may compute the layer in float, but the same values."""
    _, _, fused = quantized(network(FUNCTIONS[name]), FEEDS, CALIB8)
    [plain] = run(fused.model, FEEDS)
    session = onnxruntime.InferenceSession(
        ir.to_proto(fused.model).SerializeToString(), exact(), providers=["CPUExecutionProvider"]
    )
    steps = np.abs(session.run(None, FEEDS)[0] - plain) / np.float32(fused.qparams["y"].scale)
    assert np.max(steps) < 2.5 and np.mean(steps > 0.5) < 0.01


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_linter_and_inspection_take_it(name: str, tmp_path: Path) -> None:
    _, _, fused = quantized(network(FUNCTIONS[name]), FEEDS, CALIB8)
    path = tmp_path / "int8.onnx"
    onnx.save(ir.to_proto(fused.model), path)
    assert lint(path, "calib8") == ()
    assert all(layer.quantized for layer in inspect_model(path).layers)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("c = ConvTranspose<pads=[1,1,1,1]>(x, t) s = Sigmoid(c) n = Mul(c, s)", "N,8,12,12"),
        (f"c = {CONV}(x, w) r = Relu(c) q = Mul(r, wide) n = HardSwish(q)", "N,8,12,12"),
        ("c = Gemm(x, m) s = Sigmoid(c) n = Mul(c, s)", "N,8"),
        ("c = MatMul(x, m) n = LeakyRelu(c)", "N,8"),
    ],
    ids=["transposed", "behind a Relu", "Gemm", "MatMul"],
)
def test_every_layer_with_weights_takes_any_function(body: str, shape: str) -> None:
    last = "y = Gemm(n, n2)" if shape == "N,8" else f"y = {CONV}(n, u)"
    whole = f"{body} {last}"
    model = graph(f"float[{shape}] x", f"float[{shape}] y", whole, constants(whole))
    assert [name for name in place(model, CALIB8).readers if name != "y"] == ["x", "n"]
    assert len(place(model, ORT).readers) > len(place(model, CALIB8).readers)


@pytest.mark.parametrize(
    ("body", "coded"),
    [
        (f"c = {CONV}(x, w) n = HardSwish(c) g = {CONV}(c, u) z = Relu(g)", ["x", "c", "n", "z", "y"]),
        (f"c = {CONV}(x, w) a = Add(c, c) n = HardSwish(a)", ["x", "c", "n", "y"]),
        (f"d = {CONV}(x, w) c = {CONV}(x, w) a = Add(c, d) n = HardSwish(a)", ["x", "d", "c", "a", "n", "y"]),
        (f"c = {CONV}(x, w) p = GlobalAveragePool(c) n = HardSwish(p)", ["x", "c", "p", "n", "y"]),
    ],
    ids=["two readers", "no function behind another", "an addition", "a pool"],
)
def test_other_sums_keep_their_codes(body: str, coded: list[str]) -> None:
    whole = f"{body} y = {CONV}(n, u)"
    outputs = "float[A,B,C,D] y" + (", float[A,B,C,D] z" if "z =" in body else "")
    model = graph("float[N,8,12,12] x", outputs, whole, constants(whole))
    if "a = Add(c, c)" in body:
        coded = ["x", "n", "y"]  # c + c is a function of one tensor, too
    assert list(place(model, CALIB8).readers) == coded


def test_a_part_in_float() -> None:
    model = graph(
        "float[N,8,12,12] x",
        "float[A,B,C,D] y",
        (body := f"c = {CONV}(x, w) {FUNCTIONS['Swish']} y = {CONV}(n, u)"),
        constants(body),
    )
    layer = place(model, CALIB8, frozenset({"c"}))
    assert layer.quantized_nodes() == {"y"} and list(layer.readers) == ["n", "y"]
    assert {d.reason for d in layer.decisions if d.node in "sn"} == {"the layer before it is float"}
    function = place(model, CALIB8, frozenset({"s"}))
    assert function.quantized_nodes() == {"c", "y"} and list(function.readers) == ["x", "c", "n", "y"]


@pytest.mark.parametrize("target", ["onnxruntime", "onnxruntime-avx2", "tflite", "tengine"])
def test_runtimes_that_need_the_code_get_it(target: str) -> None:
    _, placement, _ = quantized(network(FUNCTIONS["LeakyRelu"]), FEEDS, TARGETS[target])
    assert "c" in placement.readers


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_openvino_computes_it_with_an_integer_convolution(name: str, tmp_path: Path) -> None:
    """Of its execution graph: the first convolution works on codes, and the function is a part of it."""
    path = tmp_path / "int8.onnx"
    proto = network(FUNCTIONS[name])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    _, _, fused = quantized(proto, FEEDS, OPENVINO)
    onnx.save(ir.to_proto(fused.model), path)
    compiled = compile_in_openvino(str(path), 1, "")
    found = []
    for node in compiled.get_runtime_model().get_ordered_ops():
        told = node.get_rt_info()
        if "layerType" in told:
            found.append((told["layerType"].value, told["runtimePrecision"].value))
    kinds = [kind for kind in found if kind[0] not in ("Const", "Input", "Output", "Reorder")]
    first = kinds.index(("Convolution", "u8"))
    assert kinds[first : first + 2] == [("Convolution", "u8")] * 2, kinds


@pytest.mark.parametrize(
    ("shape", "fused"), [((1, 8, 1, 1), True), ((1, 8, 12, 12), False), ((1, 1, 1, 12), False)]
)
def test_constants_may_differ_from_channel_to_channel_alone(shape: tuple[int, ...], fused: bool) -> None:
    limits = np.linspace(-0.5, 0.5, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    body = f"c = {CONV}(x, w) r = Relu(c) q = {CONV}(r, u) n = Max(q, lim) y = {CONV}(n, w)"
    used = {"lim": limits, **constants(body)}
    proto = onnx_model("float[N,8,12,12] x", "float[A,B,C,D] y", body, used)
    _, placement, found = quantized(proto, FEEDS, CALIB8)
    assert ("q" not in placement.readers) is fused
    assert "lim" in found.model.graph.initializers


def test_factors_before_a_function_are_for_codes_that_are_there() -> None:
    body = f"c = {CONV}(x, w) n = HardSwish(c) y = {CONV}(n, u)"
    model = graph("float[N,8,12,12] x", "float[A,B,C,D] y", body, constants(body))
    found = {name: function_entries(model, TARGETS[name], frozenset()) for name in TARGETS}
    assert {name for name, entries in found.items() if entries} == {"onnxruntime", "onnxruntime-avx2"}
