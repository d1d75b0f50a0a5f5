"""Networks that divide tensors, from end to end: no float part, the reference's bits, near ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8 import InferenceSession, quantize
from calib8.program.listing import summary
from calib8.program.reference.executor import run_program
from small_nets import IMAGE, Net


def response_normalized() -> onnx.ModelProto:
    """A block like those of ConvNeXt V2: x + β + γ · x · ‖x‖ / (mean ‖x‖ + ε) per channel."""
    net = Net()
    x = net.op("Relu", net.conv("x", 4, 8, name="stem"))
    x = net.op("Transpose", x, perm=[0, 2, 3, 1])
    length = net.op("ReduceL2", x, axes=[1, 2])
    mean = net.op("Add", net.op("ReduceMean", length, axes=[-1]), net.const(1e-6))
    response = net.op("Mul", x, net.op("Div", length, mean, name="quotient"))
    scaled = net.op("Add", net.op("Mul", response, net.weight(8)), net.weight(8))
    y = net.op("Transpose", net.op("Add", x, scaled), perm=[0, 3, 1, 2])
    return net.model(net.conv(y, 8, 2, name="last"))


def linear_attention() -> onnx.ModelProto:
    """φ(Q)·(φ(K)ᵀ·[V, 1]), divided by its last column, as EfficientViT has it; φ is Relu."""
    net = Net(shape=IMAGE)
    tokens = [
        net.op("Reshape", net.conv("x", 4, 8, name=name), net.const([1, 2, 4, 64], np.int64))
        for name in "qkv"
    ]
    query, key, value = (net.op("Transpose", one, perm=[0, 1, 3, 2]) for one in tokens)
    value = net.op("Pad", value, net.const([0] * 7 + [1], np.int64), net.const(1.0))
    query, key = net.op("Relu", query), net.op("Relu", key)
    product = net.op("MatMul", net.op("Transpose", key, perm=[0, 1, 3, 2]), value, name="keys")
    product = net.op("MatMul", query, product, name="queries")
    ends = [net.const([end], np.int64) for end in (0, 4, 5, 3)]
    above = net.op("Slice", product, ends[0], ends[1], ends[3])
    below = net.op("Add", net.op("Slice", product, ends[1], ends[2], ends[3]), net.const(1e-5))
    y = net.op("Transpose", net.op("Div", above, below, name="quotient"), perm=[0, 1, 3, 2])
    y = net.op("Reshape", y, net.const([1, 8, 8, 8], np.int64))
    return net.model(net.conv(y, 8, 2, name="last"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("build", [response_normalized, linear_attention])
def test_no_float_part_and_the_bits_of_the_reference(build: Callable[[], onnx.ModelProto]) -> None:
    rng = np.random.default_rng(5)
    samples = [{"x": rng.normal(0, 1, IMAGE).astype(np.float32)} for _ in range(12)]
    made = quantize(build(), samples, target="calib8", effort="fast")
    session = InferenceSession(ir.to_proto(made.model))
    counts = summary(session.program)
    assert counts.float_nodes == () and counts.instructions["Div"] == 1
    for sample in samples[:3]:
        result = session.run(None, sample)
        for ours, wanted in zip(result, run_program(session.program, sample), strict=True):
            np.testing.assert_array_equal(ours, wanted)
