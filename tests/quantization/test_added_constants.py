"""What an Add adds to the sums of a layer leaves room in int32, however small the weights are."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8 import InferenceSession, quantize
from calib8.model.layer import Layer
from calib8.program.instructions import FullyConnected
from calib8.program.listing import summary
from calib8.program.reference.executor import run_program
from calib8.quantization.weights import INT32_MAX, scales_for_bias
from small_nets import Net

ROWS = (1, 6, 8)


def barely_learned(added: float) -> onnx.ModelProto:
    """A layer whose weights are still near zero (gMLP, LayerScale), and ``added`` to each of its channels."""
    net = Net(shape=ROWS)
    x = net.op("Relu", net.op("MatMul", "x", net.weight(8, 8), name="first"))
    product = net.op("MatMul", x, net.const((1e-9 * np.eye(8, 5)).astype(np.float32)), name="small")
    x = net.op("Add", product, net.const(np.full(5, added, np.float32)))
    return net.model(net.op("MatMul", x, net.weight(5, 3), name="last"))


@pytest.mark.parametrize("added", [1.0, -40.0])
def test_a_layer_of_tiny_weights_has_no_float_part(added: float) -> None:
    rng = np.random.default_rng(5)
    samples = [{"x": rng.normal(0, 1, ROWS).astype(np.float32)} for _ in range(8)]
    made = quantize(barely_learned(added), samples, target="calib8", repair=("none",))
    session = InferenceSession(ir.to_proto(made.model))
    assert summary(session.program).float_nodes == ()
    layers = [step for step in session.program.instructions if isinstance(step, FullyConnected)]
    largest = max(int(np.abs(step.bias.astype(np.int64)).max()) for step in layers)
    assert INT32_MAX // 4 < largest <= INT32_MAX // 2 + 1
    wanted, given = run_program(session.program, samples[0]), session.run(None, samples[0])
    np.testing.assert_array_equal(given[0], wanted[0])


def test_bias_and_addition_count_together() -> None:
    gemm = Layer(ir.node("Gemm", [ir.val("x"), ir.val("w"), ir.val("b")]))
    bias, added = np.array([3.0, -5.0], np.float32), np.array([-4.0, 1.0], np.float32)
    both = scales_for_bias(gemm, bias, 0.5, added)
    np.testing.assert_allclose(both, 2.0 * np.array([7.0, 6.0]) / INT32_MAX / 0.5, rtol=1e-6)
    alone = scales_for_bias(gemm, None, 0.5, np.array([2.0], np.float32))
    np.testing.assert_allclose(alone, 2.0 * 2.0 / INT32_MAX / 0.5, rtol=1e-6)
