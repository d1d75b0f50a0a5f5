"""RMSNormalization and normalization to the length 1 spelled out: placement, and the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from place_nets import ORT, carriers, reasons

from bits import assert_same_bits
from calib8.model.load import load_model
from calib8.passes.place import calibration_tensors, place
from calib8.passes.row_chains import RowChain, row_chain, row_chains
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from calib8.scheme import TARGETS
from small_models import Array, graph, normal, run
from small_nets import Net, int8_forms

CALIB8 = TARGETS["calib8"]
SQUARES = "q = Pow(x, two) m = ReduceMean<axes=[-1]>(q) e = Add(m, eps) r = Sqrt(e)"
LENGTH = "q = ReduceL2<axes=[-1]>(x)"
CONSTANTS: dict[str, Array] = {
    "two": np.float32(2), "eps": np.float32(1e-5), "one": np.float32(1), "g": normal(8, seed=3),
    "low": np.float32(1e-12), "shape": np.array([2, 6, 8]), "h": normal(6, 1, seed=4),
    "w": normal(8, 8, seed=5),
}  # fmt: skip


def model_of(body: str, inputs: str = "float[2,6,8] x") -> ir.Model:
    used = {name: array for name, array in CONSTANTS.items() if f" {name}" in body or f"({name}" in body}
    return graph(inputs, "float[A,B,C] y", body, used)


def found(body: str) -> RowChain | None:
    chains = [chain for node in model_of(body).graph if (chain := row_chain(node)) is not None]
    assert len(chains) < 2
    return chains[0] if chains else None


SQUARE_1: dict[str, str] = {
    "divided": f"{SQUARES} d = Div(x, r) y = Mul(d, g)",
    "reciprocal": f"{SQUARES} i = Reciprocal(r) d = Mul(x, i) y = Mul(g, d)",
    "1 by": f"{SQUARES} i = Div(one, r) d = Mul(i, x) y = Mul(d, g)",
    "a product": f"{SQUARES.replace('Pow(x, two)', 'Mul(x, x)')} d = Div(x, r) y = Mul(d, g)",
    "no scale": f"{SQUARES} y = Div(x, r)",
    "two axes": f"{SQUARES.replace('[-1]', '[1,2]')} d = Div(x, r) y = Mul(d, g)",
}
LENGTH_1: dict[str, str] = {
    "plain": f"{LENGTH} y = Div(x, q)",
    "clipped": f"{LENGTH} c = Clip(q, low) y = Div(x, c)",
    "largest": f"{LENGTH} c = Max(q, low) y = Div(x, c)",
    "expanded": f"{LENGTH} c = Clip(q, low) e = Expand(c, shape) y = Div(x, e)",
    "another axis": f"{LENGTH.replace('-1', '1')} y = Div(x, q)",
}
NONE: dict[str, str] = {
    "another mean": f"{SQUARES.replace('[-1]', '[0,1]')} y = Div(x, r)",
    "a product of others": f"{SQUARES} y = Div(eps, r)",
    "read outside": f"{SQUARES} d = Div(x, r) y = Add(d, m)",
    "another power": f"{SQUARES.replace('two', 'one')} y = Div(x, r)",
    "a large limit": f"{LENGTH} c = Clip(q, one) y = Div(x, c)",
    "an upper limit": f"{LENGTH} c = Clip(q, low, one) y = Div(x, c)",
    "turned round": f"{LENGTH} y = Div(q, x)",
}


@pytest.mark.parametrize("name", SQUARE_1)
def test_a_mean_square_of_1_is_one_chain(name: str) -> None:
    chain = found(SQUARE_1[name])
    assert chain is not None and chain.epsilon == pytest.approx(1e-5) and chain.least == 0
    assert chain.nodes[-1].outputs[0].name == "y" and chain.source.name == "x"
    assert chain.axes == ((1, 2) if name == "two axes" else (2,))
    wanted = np.ones(8, np.float32) if name == "no scale" else CONSTANTS["g"]
    np.testing.assert_array_equal(chain.scale, np.broadcast_to(wanted, chain.scale.shape))


@pytest.mark.parametrize("name", LENGTH_1)
def test_a_length_of_1_is_one_chain(name: str) -> None:
    chain = found(LENGTH_1[name])
    assert chain is not None and chain.epsilon == 0 and chain.least in (0, CONSTANTS["low"])
    assert chain.nodes[-1].outputs[0].name == "y"
    np.testing.assert_array_equal(
        chain.scale, np.full(chain.scale.size, 1 / np.sqrt(chain.scale.size), np.float32)
    )


@pytest.mark.parametrize("name", NONE)
def test_what_only_looks_like_it_is_none(name: str) -> None:
    assert found(NONE[name]) is None


def test_a_scale_of_other_axes_stays_behind_it() -> None:
    chain = found(f"{SQUARES} d = Div(x, r) y = Mul(d, h)")
    assert chain is not None and chain.nodes[-1].outputs[0].name == "d"


@pytest.mark.parametrize("body", [SQUARE_1["divided"], SQUARE_1["reciprocal"], LENGTH_1["expanded"]])
def test_between_its_nodes_there_are_no_codes(body: str) -> None:
    body = f"a = MatMul(x, w) {body.replace('(x,', '(a,').replace('(x)', '(a)')} z = MatMul(y, w)"
    used = {name: array for name, array in CONSTANTS.items() if f" {name}" in body or f"({name}" in body}
    model = graph("float[2,6,8] x", "float[A,B,C] z", body, used)
    placement = place(model, CALIB8)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "y"]
    assert row_chains(model, ORT.computes) == ()
    for target in TARGETS.values():
        assert set(place(model, target).readers) <= set(calibration_tensors(model))
    told = reasons(place(model, CALIB8, frozenset({"y"})))
    assert all(told[name] for name in placement.chains[0])


def rms(net: Net, x: str) -> str:
    square = net.op("ReduceMean", net.op("Pow", x, net.const(2.0)), axes=[-1])
    root = net.op("Sqrt", net.op("Add", square, net.const(1e-6)))
    return net.op("Mul", net.op("Mul", x, net.op("Reciprocal", root)), net.weight(8))


def unit(net: Net, x: str) -> str:
    length = net.op("Clip", net.op("ReduceL2", x, axes=[-1], keepdims=1), net.const(1e-12))
    return net.op("Div", x, length)


def net_of(make: Callable[[Net, str], str]) -> onnx.ModelProto:
    net = Net(shape=("N", 5, 4))
    y = make(net, net.op("MatMul", "x", net.weight(4, 8), name="first"))
    return net.model(net.op("MatMul", y, net.weight(8, 2), name="last"))


@pytest.mark.parametrize("make", [rms, unit])
def test_a_network_has_no_float_part_and_is_near_the_float_model(make: Callable[[Net, str], str]) -> None:
    proto, x = net_of(make), normal(1, 5, 4)
    (wanted,) = run(proto, {"x": x})
    for target, coded in int8_forms(proto, ("calib8", "onnxruntime")).items():
        assert np.abs(run(coded, {"x": x})[0] - wanted).max() < 0.1 * np.ptp(wanted)
        if target == "calib8":
            program = lower(load_model(coded))
            kinds = Counter(type(step).__name__ for step in program.instructions)
            assert kinds["LayerNorm"] == 1 and kinds["Float"] == 0
            assert np.abs(run_program(program, {"x": x})[0] - wanted).max() < 0.1 * np.ptp(wanted)
            assert_same_bits(program)
