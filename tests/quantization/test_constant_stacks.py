"""Constants that are multiplied as activations are: positions of attention, matrices on the left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8 import InferenceSession, quantize
from calib8.model.runtime import open_session
from calib8.program.listing import summary
from calib8.program.reference.executor import run_program
from small_nets import Net

IMAGE = (1, 4, 6, 6)


def positions(batch: int | str = 1) -> onnx.ModelProto:
    """Every row of an image by a matrix of its own, as ViTDet and MViT v2 add positions to attention."""
    net = Net(shape=(batch, *IMAGE[1:]))
    rows = net.op("Transpose", net.op("Relu", net.conv("x", 4, 8, name="stem")), perm=[0, 2, 3, 1])
    product = net.op("Einsum", rows, net.weight(6, 5, 8), equation="bhwc,hkc->bhwk", name="rows")
    return net.model(net.conv(net.op("Transpose", product, perm=[0, 3, 1, 2]), 5, 2, name="last"))


def of_a_free_batch() -> onnx.ModelProto:
    return positions("N")


def tokens_mixed() -> onnx.ModelProto:
    """A matrix on the left, which mixes places, and a stack on the left, one matrix per group of channels."""
    net = Net(shape=IMAGE)
    tokens = net.op("Reshape", net.conv("x", 4, 8, name="stem"), net.const([1, 2, 4, 36], np.int64))
    tokens = net.op("Transpose", tokens, perm=[0, 1, 3, 2])
    mixed = net.op("MatMul", net.weight(36, 36), tokens, name="places")
    mixed = net.op("MatMul", net.weight(2, 36, 36), net.op("Relu", mixed), name="groups")
    y = net.op("Reshape", net.op("Transpose", mixed, perm=[0, 1, 3, 2]), net.const([1, 8, 6, 6], np.int64))
    return net.model(net.conv(y, 8, 2, name="last"))


@pytest.mark.parametrize(("build", "products"), [(positions, 1), (of_a_free_batch, 1), (tokens_mixed, 2)])
def test_no_float_part_and_the_bits_of_the_reference(
    build: Callable[[], onnx.ModelProto], products: int
) -> None:
    rng = np.random.default_rng(5)
    samples = [{"x": rng.normal(0, 1, IMAGE).astype(np.float32)} for _ in range(12)]
    made = quantize(build(), samples, target="calib8", effort="fast")
    session = InferenceSession(ir.to_proto(made.model))
    counts = summary(session.program)
    assert counts.float_nodes == () and counts.instructions["MatMul"] == products
    exact = open_session(build().SerializeToString(), threads=1)
    for sample in samples[:3]:
        given = session.run(None, sample)[0]
        np.testing.assert_array_equal(given, run_program(session.program, sample)[0])
        wanted = exact.run(sample)[0]
        assert np.abs(given - wanted).max() <= 0.05 * np.ptp(wanted)
    if build is of_a_free_batch:
        three = np.concatenate([sample["x"] for sample in samples[:3]])
        single = [session.run(None, sample)[0] for sample in samples[:3]]
        np.testing.assert_array_equal(session.run(None, {"x": three})[0], np.concatenate(single))


def stacks(model: ir.Model) -> list[ir.Value]:
    """What stands on the right of products of stacks."""
    return [node.inputs[1] for node in model.graph if node.op_type == "MatMul"]  # type: ignore[misc]


def test_it_stays_float_where_one_wants_it_or_another_target_computes_it() -> None:
    samples = [{"x": np.random.default_rng(5).normal(0, 1, IMAGE).astype(np.float32)} for _ in range(4)]
    coded = quantize(positions(), samples, target="calib8", effort="fast")
    assert [value.producer().op_type for value in stacks(coded.model)] == ["DequantizeLinear"]  # type: ignore[union-attr]
    kept = quantize(positions(), samples, target="calib8", effort="fast", keep_float=("rows_matmul",))
    other = quantize(positions(), samples, target="onnxruntime", effort="fast")
    for made in (kept, other):
        assert [value.producer() for value in stacks(made.model)] == [None]
    (name,) = summary(InferenceSession(ir.to_proto(kept.model)).program).float_nodes
    assert name == "rows_matmul"
