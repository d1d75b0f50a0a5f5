"""16-bit codes in models of any tool: what becomes integers, and what becomes float with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qdq_nets import Net, assert_same_outputs, counted, lowered, steps

from calib8.program.instructions import Concat, Lookup
from calib8.program.rules import PROFILES, Profile

IMAGE = "float[1,4,6,6] x"
STEP = 0.0003
WIDE_TYPES = [np.int16, np.uint16]


def wide(net: Net, x: str, zero_point: int = 700, scale: float = STEP, dtype: Any = np.int16) -> str:
    """Q and DQ of 16 bits; the zero point is that of signed codes."""
    return net.coded(x, scale, zero_point + (32768 if dtype is np.uint16 else 0), dtype)


def last_conv(net: Net, x: str, channels: int = 4) -> str:
    return net.coded(net.op(f"Conv ({x}, {net.weight(3, channels, 1, 1)})"), 0.03, 110)


NARROW: dict[str, Callable[[Net, str], str]] = {
    "AveragePool": lambda net, x: net.coded(net.op(f"AveragePool <kernel_shape = [2, 2]> ({x})"), 0.02, 9),
    "Mean": lambda net, x: net.coded(net.op(f"GlobalAveragePool ({x})"), 0.02, 9),
    "Softmax": lambda net, x: net.coded(net.op(f"Softmax ({x})"), 1 / 256),
    "ReduceMax": lambda net, x: net.coded(net.op(f"GlobalMaxPool ({x})"), 0.02, 9),
    "Maximum": lambda net, x: wide(net, net.op(f"Max ({x}, {wide(net, 'x')})")),
    "MatMul": lambda net, x: net.coded(net.op(f"MatMul ({x}, {x})"), 0.3, 9),
    "ArgMax": lambda net, x: net.op(f"Cast <to = 1> ({net.op(f'ArgMax <axis = 1> ({x})')})"),
    "ResizeLinear": lambda net, x: net.coded(
        net.op(f'Resize <mode = "linear"> ({x}, , {net.constant([1, 1, 2, 2])})'), 0.02, 9
    ),
}  # fmt: skip
"""Instruction without 16-bit codes → the graph that would need it."""


@pytest.mark.parametrize("name", NARROW)
def test_what_has_8_bits_alone_runs_in_float_and_says_so(name: str) -> None:
    net = Net()
    result = NARROW[name](net, wide(net, "x"))
    proto = net.proto(IMAGE, result, opset=21)
    program = lowered(proto)
    assert set(program.float_reasons.values()) & {f"{name} has 8-bit codes alone"}
    assert_same_outputs(program, proto, within=1e-5, fused=False)


def test_one_table_per_channel_is_too_much_for_16_bits() -> None:
    net = Net()
    factors = net.constant(np.array([0.5, 1, 1.5, 2]).reshape(4, 1, 1))
    result = last_conv(net, net.coded(net.op(f"Mul ({wide(net, 'x')}, {factors})"), 0.03, 120))
    proto = net.proto(IMAGE, result, opset=21)
    program = lowered(proto)
    assert len(program.float_reasons) == 1
    assert counted(program) == {"Quantize": 2, "Dequantize": 2, "Float": 1, "Conv": 1}
    assert_same_outputs(program, proto, within=0.031)


@pytest.mark.parametrize("dtype", WIDE_TYPES)
def test_widths_meet_in_tables(dtype: Any) -> None:
    """From 8 to 16 bits and back, also where a Concat wants one kind of codes."""
    net = Net()
    narrow = net.coded("x", 0.05, 7)
    both = net.op(f"Concat <axis = 1> ({wide(net, narrow, dtype=dtype)}, {net.coded('x', 0.02, 100)})")
    result = net.coded(wide(net, both, 500, 0.0002, dtype), 0.03, 100)
    proto = net.proto(IMAGE, result, opset=21)
    program = lowered(proto)
    assert program.float_reasons == {}
    shapes = {step.table.shape for step in program.instructions if isinstance(step, Lookup)}
    assert shapes == {(256,), (65536,)}
    assert any(isinstance(step, Concat) for step in program.instructions)
    assert_same_outputs(program, proto, within=0.031, fused=False)


def test_codes_of_16_bits_go_in_and_out_as_they_are() -> None:
    net = Net()
    x = net.dequantize("x", STEP, 7, np.int16)
    result = net.quantize(net.op(f"Conv ({x}, {net.weight(4, 4, 1, 1)})"), 0.0007, -5, np.int16)
    proto = net.proto("int16[1,4,6,6] x", f"int16 {result}", opset=21)
    program = lowered(proto)
    assert steps(program) == ["Transpose", "Conv", "Transpose"]
    assert {slot.dtype for slot in program.slots} == {"int16"} and all(slot.is_wide for slot in program.slots)
    assert_same_outputs(program, proto, within=1)


def test_unsigned_codes_that_leave_the_graph_stay_unsigned() -> None:
    net = Net()
    codes = net.quantize("x", STEP, 33000, np.uint16)
    proto = net.proto(IMAGE, f"uint16 {codes}", net.dequantize(codes, STEP, 33000, np.uint16), opset=21)
    program = lowered(proto)
    assert set(program.float_reasons.values()) == {"its codes are uint16"}
    assert_same_outputs(program, proto, fused=False)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", WIDE_TYPES)
def test_constants_beside_16_bits(profile: Profile, dtype: Any) -> None:
    """A constant that varies from place to place is no table; one number is, float or coded."""
    net = Net()
    number = net.dequantize(net.constant(40000, np.uint16), 0.00004, 500, np.uint16)
    result = wide(net, net.op(f"Mul ({wide(net, 'x', dtype=dtype)}, {number})"), dtype=dtype)
    proto = net.proto(IMAGE, result, opset=21)
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]
    assert_same_outputs(program, proto, within=1.01 * STEP, fused=False)


def test_sums_that_several_quantizers_read() -> None:
    """A layer whose sums go to 8 and to 16 bits: those of 16 are made of their float values."""
    net = Net()
    sums = net.op(f"Conv ({net.coded('x', 0.03, 100)}, {net.weight(3, 4, 1, 1)})")
    proto = net.proto(IMAGE, net.coded(sums, 0.05, 100), wide(net, sums), opset=21)
    program = lowered(proto)
    assert counted(program)["Requantize"] == 1 and "Float" not in steps(program)
    assert_same_outputs(program, proto, within=0.051, fused=False)


@pytest.mark.parametrize(("depth", "integer"), [(30, True), (3000, False)])
def test_sums_of_16_bits_that_nobody_quantizes(depth: int, integer: bool) -> None:
    net = Net()
    x = wide(net, "x")
    proto = net.proto(
        f"float[2,{depth}] x", net.op(f"MatMul ({x}, {net.weight(depth, 5, axis=1)})"), opset=21
    )
    program = lowered(proto)
    assert (program.float_reasons == {}) == integer
    if not integer:
        (reason,) = program.float_reasons.values()
        assert "beyond int32" in reason
    assert_same_outputs(program, proto, within=2e-3, fused=False)


@pytest.mark.parametrize("kind", ["LayerNormalization", "ReduceL2"])
def test_rows_of_16_bits(kind: str) -> None:
    """Norms in float32 alone: where all is integers they are float, lengths are not."""
    net = Net()
    x = wide(net, "x", scale=0.0002)
    scale, axes = net.constant(np.linspace(0.5, 2, 6)), net.constant([1], np.int64)
    node = f"ReduceL2 ({x}, {axes})" if kind == "ReduceL2" else f"LayerNormalization ({x}, {scale})"
    proto = net.proto(IMAGE, wide(net, net.op(node)), opset=21)
    program = lowered(proto)
    assert program.float_reasons == {}
    assert_same_outputs(program, proto, within=1.01 * STEP)
    norms = {"its 16-bit codes are normalized in float32 alone"} if "Norm" in kind else set()
    for profile in ("tflite", "single"):
        assert set(lowered(proto, profile).float_reasons.values()) == norms  # type: ignore[arg-type]
