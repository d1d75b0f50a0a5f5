"""Sigmoid and Tanh in float32 at the end of a graph: an instruction of their own, and where they are none."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, lowered, random_feeds, runtime_outputs, steps

import calib8
from calib8.program.instructions import RealFunction
from calib8.program.reference.executor import run_program
from calib8.program.rules import Profile

ROWS = "float[3,6] x"


def product(net: Net) -> str:
    """A layer whose sums nobody quantizes."""
    return net.op(f"MatMul ({net.coded('x', 0.05, 121)}, {net.weight(6, 5, axis=1)})")


@pytest.mark.parametrize("profile", ["onnx", "single"])
@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_it_ends_a_network(op: str, profile: Profile) -> None:
    net = Net()
    proto = net.proto(ROWS, net.op(f"{op} ({product(net)})"))
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "FullyConnected", "Dequantize", "RealFunction"]
    [step] = [step for step in program.instructions if isinstance(step, RealFunction)]
    assert step.function.name == op
    feeds = random_feeds(program, spread=3.0)
    [wanted], [got] = runtime_outputs(proto, feeds), run_program(program, feeds)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-7)


@pytest.mark.parametrize("coded", [False, True])
def test_moves_and_codes_follow(coded: bool) -> None:
    """As in voice detectors, which drop an axis of the sums before it, and average the result over frames."""
    net = Net()
    flat = net.op(f"Reshape ({product(net)}, {net.constant([1, 15], np.int64)})")
    moved = net.op(f"Transpose <perm = [1, 0]> ({net.op(f'Sigmoid ({flat})')})")
    proto = net.proto(ROWS, net.coded(moved, 1 / 256) if coded else moved)
    program = lowered(proto)
    assert "Float" not in steps(program) and "RealFunction" in steps(program)
    feeds = random_feeds(program, spread=3.0)
    [wanted], [got] = runtime_outputs(proto, feeds), run_program(program, feeds)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-7)


def test_where_float_nodes_go_on_it_stays_with_them() -> None:
    net = Net()
    shifted = net.op(f"Add ({net.op(f'Sigmoid ({product(net)})')}, {net.constant(1.0)})")
    assert steps(lowered(net.proto(ROWS, shifted)))[-1] == "Float"


def test_programs_for_tflite_leave_it_to_tflite() -> None:
    net = Net()
    proto = net.proto(ROWS, net.op(f"Sigmoid ({product(net)})"))
    assert steps(lowered(proto, "tflite"))[-1] == "Float"


def test_it_is_float_where_integers_alone_are_asked_for() -> None:
    net = Net()
    proto = net.proto(ROWS, net.op(f"Sigmoid ({product(net)})"))
    with pytest.raises(calib8.UnsupportedModelError, match=r"1 nodes .*\(Sigmoid: computed in float32\)"):
        lowered(proto, "single", integer_only=True)
    program = lowered(proto, "single")
    with pytest.raises(calib8.UnsupportedModelError, match="is not integer only"):
        calib8.InferenceSession(program, integer_only=True)
