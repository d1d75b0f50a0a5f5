"""Codes with one scale per channel in front of depthwise layers get one scale, and stay the same codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from canonical_checks import Net, canonical, made_up, node_of, op_types, path
from hypothesis import given, settings
from hypothesis import strategies as st

from calib8.model.graph import constant
from calib8.model.load import load_model
from calib8.program.lower import lower
from calib8.program.lower.canonical.codings import CODE_TYPES, constant_codes
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile
from calib8.quantization.qdq import QUANTIZERS, codes_of
from small_models import Array, run

CHANNELS = 6
IMAGE = "float[1, 3, 8, 8] x"
AHEAD = ("Conv", "BatchNormalization", "Relu", "Clip", "LeakyRelu", "PRelu", "MaxPool", "Relu of MaxPool")
UNSIGNED = (np.uint8, [0] * CHANNELS)
SYMMETRIC = (np.int8, [0] * CHANNELS)
ASYMMETRIC = (np.int8, [-37] * CHANNELS)

Kind = tuple[type, list[int]]


def spread(seed: int) -> npt.NDArray[np.float32]:
    """Scales of which the largest is up to 30 times the smallest."""
    return np.exp(np.random.default_rng(seed).uniform(-5.0, -1.6, CHANNELS)).astype(np.float32)


def coded_bias(net: Net, channels: int, input_scale: Array | np.float32) -> str:
    """int32 codes in steps of the weight that was written last."""
    weight_scale = net.constants[f"c{len(net.constants) - 2}"]
    codes = net.constant(net.rng.integers(-9000, 9000, channels), np.int32)
    steps = net.constant(input_scale * weight_scale)
    return net.op(f"DequantizeLinear <axis = 0> ({codes}, {steps})")


def ahead_of(net: Net, kind: str) -> str:
    """Values of about −20 … 20 that the quantizer reads."""
    weight = net.weight(CHANNELS, 3, 3, 3, axis=0)
    bias = coded_bias(net, CHANNELS, np.float32(0.02))
    value = net.op(f"Conv <pads = [1, 1, 1, 1]> ({net.coded('x', 0.02, 128)}, {weight}, {bias})")
    if kind == "BatchNormalization":
        k, d, mean = (net.constant(net.rng.normal(0, 1, CHANNELS)) for _ in range(3))
        variance = net.constant(net.rng.uniform(0.5, 2, CHANNELS))
        return net.op(f"BatchNormalization ({value}, {k}, {d}, {mean}, {variance})")
    if kind == "Clip":
        return net.op(f"Clip ({value}, {net.constant(0.0)}, {net.constant(6.0)})")
    if kind == "PRelu":
        return net.op(f"PRelu ({value}, {net.constant(net.rng.normal(0, 1, (CHANNELS, 1, 1)))})")
    if kind == "Relu of MaxPool":
        value, kind = pooled(net, value), "Relu"
    if kind == "MaxPool":
        return pooled(net, net.op(f"Relu ({value})"))
    return value if kind == "Conv" else net.op(f"{kind} ({value})")


def pooled(net: Net, value: str) -> str:
    return net.op(f"MaxPool <kernel_shape = [2, 2]> ({value})")


def per_channel(net: Net, value: str, scale: Array, kind: Kind) -> str:
    dtype, points = kind
    parameters = f"{net.constant(scale)}, {net.constant(points, dtype)}"
    codes = net.op(f"QuantizeLinear <axis = 1> ({value}, {parameters})")
    return net.op(f"DequantizeLinear <axis = 1> ({codes}, {parameters})")


def counting(net: Net, value: str, multiplier: int = 1) -> str:
    """A depthwise layer that hands every channel on as often as ``multiplier`` says."""
    ones = net.weight(CHANNELS * multiplier, 1, 1, 1, codes=np.full((CHANNELS * multiplier, 1, 1, 1), 100))
    return net.op(f"Conv <group = {CHANNELS}> ({value}, {ones})")  # 100 codes of 0.01


def depthwise(net: Net, value: str, multiplier: int = 1) -> str:
    weight = net.weight(CHANNELS * multiplier, 1, 3, 3, axis=0)
    bias = net.constant(net.rng.normal(0, 1, CHANNELS * multiplier))
    return net.op(f"Conv <group = {CHANNELS}, pads = [1, 1, 1, 1]> ({value}, {weight}, {bias})")


def same_codes(proto: onnx.ModelProto, scale: Array, feeds: dict[str, Array] | None = None) -> ir.Model:
    """The canonical form of a model that ends in ``counting``, whose codes differ by one at most."""
    model = canonical(proto, within=1.001 * float(scale.max()), feeds=feeds)
    fed = made_up(model) if feeds is None else feeds
    (expected,), (actual,) = run(proto, fed), run(model, fed)
    steps = np.repeat(scale, expected.shape[1] // CHANNELS).reshape(1, -1, 1, 1)
    before, after = np.rint(expected / steps), np.rint(actual / steps)
    assert len(np.unique(before)) > 8
    assert np.max(np.abs(before - after)) <= 1
    assert np.mean(before == after) >= 0.99
    return model


def activation_scales(model: ir.Model) -> list[int]:
    """Number of axes of the scales of all quantizers of activations."""
    nodes = [node for node in model.graph if node.op_type in QUANTIZERS and constant(node.inputs[0]) is None]
    return [codes.scale.ndim for codes in map(codes_of, nodes) if codes.scale is not None]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("kind", [UNSIGNED, SYMMETRIC, ASYMMETRIC], ids=["uint8", "int8", "asymmetric"])
@pytest.mark.parametrize("ahead", AHEAD)
def test_the_layer_before_takes_the_factors(ahead: str, kind: Kind, multiplier: int) -> None:
    net, scale = Net(seed=multiplier), spread(multiplier)
    value = per_channel(net, ahead_of(net, ahead), scale, kind)
    model = same_codes(net.model(IMAGE, counting(net, value, multiplier)), scale)
    assert not any(activation_scales(model))
    assert "Mul" not in op_types(model) and op_types(model)[0] == "Conv"


@given(
    seed=st.integers(0, 2**16),
    point=st.integers(-128, 127),
    multiplier=st.integers(1, 3),
    ahead=st.sampled_from(AHEAD),
)
@settings(max_examples=25)
def test_random_scales_give_the_same_codes(seed: int, point: int, multiplier: int, ahead: str) -> None:
    net, scale = Net(seed=seed), spread(seed)
    value = per_channel(net, ahead_of(net, ahead), scale, (np.int8, [point] * CHANNELS))
    proto = net.model(IMAGE, counting(net, value, multiplier))
    model = canonical(proto, within=1.001 * float(scale.max()))
    steps = np.repeat(scale, multiplier).reshape(1, -1, 1, 1)
    (expected,), (actual,) = run(proto, made_up(model)), run(model, made_up(model))
    assert np.max(np.abs(np.rint(expected / steps) - np.rint(actual / steps))) <= 1


@given(
    seed=st.integers(0, 2**16),
    points=st.lists(st.integers(-128, 127), min_size=CHANNELS, max_size=CHANNELS),
    bounds=st.tuples(st.floats(-20, 20, width=32), st.floats(-20, 20, width=32)),
)
@settings(max_examples=25)
def test_random_zero_points_and_bounds(seed: int, points: list[int], bounds: tuple[float, float]) -> None:
    """Whether they have a common zero point or not; a Clip whose limits cross gives the upper one."""
    net, scale = Net(seed=seed), spread(seed)
    limits = ", ".join(net.constant(bound) for bound in bounds)
    clip = net.op(f"Clip ({ahead_of(net, 'Conv')}, {limits})")
    proto = net.model(IMAGE, counting(net, per_channel(net, clip, scale, (np.int8, points))))
    model = canonical(proto, within=1.001 * float(scale.max()))
    steps = scale.reshape(1, -1, 1, 1)
    (expected,), (actual,) = run(proto, made_up(model)), run(model, made_up(model))
    assert np.max(np.abs(np.rint(expected / steps) - np.rint(actual / steps))) <= 1


def test_layers_over_one_axis() -> None:
    net, scale = Net(), spread(13)
    value = net.op(f"Conv ({net.coded('x', 0.02, 128)}, {net.weight(CHANNELS, 3, 3, axis=0)})")
    value = per_channel(net, net.op(f"Relu ({value})"), scale, UNSIGNED)
    last = net.op(f"Conv <group = {CHANNELS}> ({value}, {net.weight(CHANNELS, 1, 3, axis=0)})")
    proto = net.model("float[1, 3, 16] x", last)
    assert not any(activation_scales(canonical(proto, within=0.15)))
    assert not lower(load_model(proto)).float_instructions


@pytest.mark.parametrize("multiplier", [1, 2])
def test_weights_are_scaled_and_biases_keep_their_codes(multiplier: int) -> None:
    net, scale = Net(), spread(3)
    channels = CHANNELS * multiplier
    value = per_channel(net, ahead_of(net, "Relu"), scale, UNSIGNED)
    weight = net.weight(channels, 1, 3, 3, axis=0)
    steps = np.repeat(scale, multiplier) * net.constants[f"c{len(net.constants) - 2}"]
    bias_codes = net.rng.integers(-9000, 9000, channels)
    bias = net.op(
        f"DequantizeLinear <axis = 0> ({net.constant(bias_codes, np.int32)}, {net.constant(steps)})"
    )
    last = net.op(f"Conv <group = {CHANNELS}> ({value}, {weight}, {bias})")
    model = canonical(net.model(IMAGE, last), within=0.01)
    layer = next(node for node in model.graph if last in [value.name for value in node.outputs])
    stored, added = constant_codes(layer.inputs[1]), constant_codes(layer.inputs[2])
    assert stored is not None and added is not None
    assert stored.axis == 0 and stored.scale.shape == (channels,)
    np.testing.assert_array_equal(added.values, bias_codes)
    np.testing.assert_allclose(stored.scale * scale.max(), steps, rtol=1e-6)


def test_several_depthwise_layers_may_read_the_codes() -> None:
    net, scale = Net(), spread(4)
    value = ahead_of(net, "Relu")
    first, again = (per_channel(net, value, scale, UNSIGNED) for _ in range(2))
    model = canonical(
        net.model(IMAGE, depthwise(net, first), depthwise(net, first), depthwise(net, again)), within=0.15
    )
    assert path(model) == ["Q", "DQ", "Conv", "Q", "DQ", "Conv", "Conv", "Conv"]


def test_bounds_beyond_the_codes_vanish_and_common_ones_stay() -> None:
    scale = np.linspace(0.01, 0.02, CHANNELS, dtype=np.float32)  # 255 codes: 2.55 … 5.1, below 6
    net = Net()
    value = per_channel(net, ahead_of(net, "Clip"), scale, UNSIGNED)
    model = same_codes(net.model(IMAGE, counting(net, value)), scale)
    assert op_types(model) == ["Conv", "Conv"]
    net = Net()
    value = per_channel(net, ahead_of(net, "Clip"), scale, SYMMETRIC)
    model = same_codes(net.model(IMAGE, counting(net, value)), scale)
    assert op_types(model) == ["Conv", "Relu", "Conv"]
    net = Net()
    bounds = f"{net.constant(-0.03)}, {net.constant(0.5)}"
    scale = np.full(CHANNELS, 0.011, np.float32)
    value = per_channel(net, net.op(f"Clip ({ahead_of(net, 'Conv')}, {bounds})"), scale, ASYMMETRIC)
    model = same_codes(net.model(IMAGE, counting(net, value)), scale)
    assert op_types(model) == ["Conv", "Clip", "Conv"]
    limits = [constant(bound) for bound in node_of(model, "Clip").inputs[1:]]
    np.testing.assert_allclose([float(limit) for limit in limits if limit is not None], [-0.033, 0.495])


@pytest.mark.parametrize("low", [-0.4, 0.0])
def test_bounds_within_the_codes_of_some_channels_limit_those(low: float) -> None:
    scale = np.geomspace(0.004, 0.04, CHANNELS).astype(np.float32)
    net = Net()
    bounds = f"{net.constant(low)}, {net.constant(2.0)}"  # code 127 is 0.5 … 5.1, −128 is −0.36 … −3.6
    value = per_channel(net, net.op(f"Clip ({ahead_of(net, 'Conv')}, {bounds})"), scale, ASYMMETRIC)
    model = same_codes(net.model(IMAGE, counting(net, value)), scale)
    assert op_types(model) == ["Conv", "Max", "Min", "Conv"]
    assert not any(activation_scales(model))


@pytest.mark.parametrize(
    ("dtype", "points", "ahead"),
    [
        (np.int8, [-128, 0, -128, -128, 17, -128], "Clip"),
        (np.int8, [-128, 0, -128, -128, 17, -128], "Relu"),
        (np.uint8, [0, 200, 3, 0, 0, 255], "MaxPool"),
        (np.uint8, [0, 128, 128, 128, 128, 3], "Relu of MaxPool"),
    ],
)
def test_different_zero_points_behind_a_relu_become_one(dtype: type, points: list[int], ahead: str) -> None:
    """A channel whose zero point lies higher has fewer codes left above it, and keeps no more than those."""
    net, scale = Net(), spread(5)
    value = per_channel(net, ahead_of(net, ahead), scale, (dtype, points))
    proto = net.model(IMAGE, counting(net, value))
    feeds = {"x": 20 * np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    model = same_codes(proto, scale, feeds)
    assert not any(activation_scales(model))
    assert op_types(model).count("Min") == 1 and "Relu" not in op_types(model)


def test_zero_points_without_a_common_one_leave_the_codes_alone() -> None:
    net, scale = Net(), spread(6)
    points = [-30, 5, 0, 9, -77, 100]
    last = depthwise(net, per_channel(net, ahead_of(net, "Conv"), scale, (np.int8, points)))
    proto = net.model(IMAGE, last)
    model = canonical(proto, within=1e-5)
    assert 1 in activation_scales(model)
    program = lower(load_model(proto))
    (step,) = program.float_instructions
    assert step.nodes[-1] == last and step.reasons[0] == "it has one scale per channel"
    feeds = made_up(model)
    np.testing.assert_allclose(run_program(program, feeds)[0], run(proto, feeds)[0], rtol=0, atol=1e-4)


def left_alone(proto: onnx.ModelProto) -> None:
    model = canonical(proto, within=1e-4)
    assert 1 in activation_scales(model)


def test_other_readers_leave_the_codes_alone() -> None:
    net, scale = Net(), spread(7)
    value = per_channel(net, ahead_of(net, "Relu"), scale, UNSIGNED)
    dense = net.op(f"Conv ({value}, {net.weight(4, CHANNELS, 1, 1)})")
    left_alone(net.model(IMAGE, depthwise(net, value), dense))
    net = Net()
    value = per_channel(net, ahead_of(net, "Relu"), scale, UNSIGNED)
    left_alone(net.model(IMAGE, depthwise(net, value), value))
    net = Net()
    value = per_channel(net, ahead_of(net, "Relu"), scale, UNSIGNED)
    weight = net.constant(net.rng.normal(0, 1, (CHANNELS, 1, 3, 3)))
    left_alone(net.model(IMAGE, net.op(f"Conv <group = {CHANNELS}> ({value}, {weight})")))


def test_scales_beyond_float32_of_each_other_leave_the_codes_alone() -> None:
    net, scale = Net(), spread(8)
    scale[2], scale[3] = 1e-37, 1e3
    left_alone(net.model(IMAGE, depthwise(net, per_channel(net, ahead_of(net, "Relu"), scale, UNSIGNED))))


def test_channels_along_another_axis_leave_the_codes_alone() -> None:
    net = Net()
    parameters = f"{net.constant(np.linspace(0.01, 0.02, 8))}, {net.constant(np.zeros(8), np.uint8)}"
    codes = net.op(f"QuantizeLinear <axis = 2> ({ahead_of(net, 'Relu')}, {parameters})")
    value = net.op(f"DequantizeLinear <axis = 2> ({codes}, {parameters})")
    left_alone(net.model(IMAGE, depthwise(net, value)))


def test_a_layer_that_others_read_keeps_its_result() -> None:
    """The factors stay a Mul, the depthwise layer computes with integers all the same."""
    net, scale = Net(), spread(9)
    value = ahead_of(net, "Relu")
    last = net.op(f"Conv ({net.coded(value, 0.03, 0)}, {net.weight(4, CHANNELS, 1, 1)})")
    proto = net.model(IMAGE, counting(net, per_channel(net, value, scale, UNSIGNED)), last)
    model = canonical(proto, within=1.001 * float(scale.max()))
    assert sorted(op_types(model)) == ["Conv", "Conv", "Conv", "Mul", "Relu"]
    assert not any(activation_scales(model))
    program = lower(load_model(proto))
    assert "DepthwiseConv" in [type(step).__name__ for step in program.instructions]


def test_one_scale_in_all_channels_needs_no_factors() -> None:
    net, scale = Net(), np.full(CHANNELS, 0.025, np.float32)
    value = per_channel(net, ahead_of(net, "MaxPool"), scale, UNSIGNED)
    model = same_codes(net.model(IMAGE, counting(net, value)), scale)
    assert "Mul" not in op_types(model) and not any(activation_scales(model))


def test_a_function_of_codes_takes_the_factors_into_its_table() -> None:
    net, scale = Net(), spread(10)
    value = net.op(f"HardSwish ({net.coded(ahead_of(net, 'Conv'), 0.04, 128)})")
    proto = net.model(IMAGE, counting(net, per_channel(net, value, scale, ASYMMETRIC)))
    same_codes(proto, scale)
    steps = [type(step).__name__ for step in lower(load_model(proto)).instructions]
    assert steps == ["Quantize", "Conv", "Lookup", "DepthwiseConv", "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (UNSIGNED, ["Quantize", "Conv", "DepthwiseConv", "Dequantize"]),
        (
            (np.int8, [-128, -128, 0, -128, 3, -128]),
            ["Quantize", "Conv", "Lookup", "DepthwiseConv", "Dequantize"],
        ),
    ],
    ids=["equal", "different"],
)
def test_programs_are_integer(kind: Kind, steps: Sequence[str], profile: Profile) -> None:
    net, scale = Net(), spread(11)
    proto = net.model(IMAGE, counting(net, per_channel(net, ahead_of(net, "Relu"), scale, kind), 2))
    program = lower(load_model(proto), profile=profile, integer_only=True)
    assert [type(step).__name__ for step in program.instructions] == steps
    feeds: dict[str, Any] = made_up(canonical(proto, within=1.0))
    distance = np.abs(run_program(program, feeds)[0] - run(proto, feeds)[0])
    assert np.max(distance / np.repeat(scale, 2).reshape(1, -1, 1, 1)) <= 1.01


def test_codes_are_of_eight_bits() -> None:
    net = Net()
    value = per_channel(net, ahead_of(net, "Relu"), spread(12), UNSIGNED)
    model = canonical(net.model(IMAGE, depthwise(net, value)), within=0.15)
    kinds = {codes_of(node).dtype for node in model.graph if node.op_type == "QuantizeLinear"}
    assert kinds <= set(CODE_TYPES)
