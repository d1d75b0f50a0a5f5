"""A function behind a convolution over one axis is part of the layer, as it is behind one over two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from calib8 import InferenceSession, quantize
from calib8.program.listing import summary
from calib8.program.reference.executor import run_program
from small_nets import Net

SIGNAL = (2, 4, 30)


def silu(net: Net, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", x))


def gelu(net: Net, x: str) -> str:
    half = net.op("Mul", x, net.const(0.5))
    return net.op(
        "Mul", half, net.op("Add", net.op("Erf", net.op("Mul", x, net.const(0.70710678))), net.const(1.0))
    )


def mish(net: Net, x: str) -> str:
    """As PyTorch exports it."""
    line = net.op("Greater", x, net.const(20.0))
    return net.op("Mul", x, net.op("Tanh", net.op("Where", line, x, net.op("Softplus", x))))


FUNCTIONS: dict[str, Callable[[Net, str], str]] = {
    "silu": silu,
    "gelu": gelu,
    "mish": mish,
    "prelu": lambda net, x: net.op("PRelu", x, net.const(np.linspace(-0.3, 0.9, 8).reshape(8, 1))),
    "elu": lambda net, x: net.op("Elu", x),
    "hard swish and a limit": lambda net, x: net.op(
        "Clip", net.op("HardSwish", x), net.const(-1.0), net.const(2.0)
    ),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_no_float_part_and_the_bits_of_the_reference(kind: str) -> None:
    net = Net(shape=("N", *SIGNAL[1:]))
    x = net.op("Conv", "x", net.weight(8, 4, 3), kernel_shape=[3], pads=[1, 1], name="first")
    x = FUNCTIONS[kind](net, x)
    model: onnx.ModelProto = net.model(net.op("Conv", x, net.weight(5, 8, 3), kernel_shape=[3], name="last"))
    rng = np.random.default_rng(4)
    samples = [{"x": rng.normal(0, 1, SIGNAL).astype(np.float32)} for _ in range(6)]
    session = InferenceSession(ir.to_proto(quantize(model, samples, target="calib8", effort="fast").model))
    counts = summary(session.program)
    assert counts.float_nodes == () and "Lookup" not in counts.instructions
    given = session.run(None, samples[0])[0]
    one = {"x": samples[0]["x"][:1]}
    np.testing.assert_array_equal(session.run(None, one)[0], run_program(session.program, one)[0])
    np.testing.assert_array_equal(given[:1], session.run(None, one)[0])
    exact = onnxruntime.InferenceSession(model.SerializeToString()).run(None, samples[0])[0]
    assert np.abs(given - exact).max() <= 0.05 * np.ptp(exact)
