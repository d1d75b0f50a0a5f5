"""Functions between a layer and its quantizer, without codes between them: one instruction, one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from qdq_nets import Net, float_nodes, lowered, random_feeds, steps

from calib8.program.instructions import DepthwiseConv, FullyConnected, RealFunction, Weighted
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, CurveRescale, Profile, TwoSidedRescale
from small_models import run

IMAGE = "float[1,6,9,8] x"
SCALE, ZERO = 0.03, 12
Build = Callable[[Net, str], str]


def of(*lines: str) -> Build:
    """Nodes one after the other; ``x`` is the layer's result, ``y`` that of the line before."""

    def build(net: Net, x: str) -> str:
        y = x
        for line in lines:
            y = net.op(line.format(x=x, y=y))
        return y

    return build


def gelu(net: Net, x: str) -> str:
    half = net.op(f"Erf ({net.op(f'Div ({x}, {net.constant(1.4142135)})')})")
    one = net.op(f"Add ({half}, {net.constant(1.0)})")
    return net.op(f"Mul ({net.op(f'Mul ({x}, {one})')}, {net.constant(0.5)})")


def hard_swish(net: Net, x: str) -> str:
    """As PyTorch writes it out: x · clip(x + 3, 0, 6) / 6."""
    more = net.op(f"Add ({x}, {net.constant(3.0)})")
    part = net.op(f"Clip ({more}, {net.constant(0.0)}, {net.constant(6.0)})")
    return net.op(f"Div ({net.op(f'Mul ({x}, {part})')}, {net.constant(6.0)})")


def prelu(net: Net, x: str) -> str:
    slopes = net.constant(np.array([0.1, -0.2, 0.0, 1.5, 1.0]).reshape(5, 1, 1))
    return net.op(f"PRelu ({x}, {slopes})")


CURVES: dict[str, Build] = {
    "SiLU": of("Sigmoid ({x})", "Mul ({x}, {y})"),
    "SiLU, turned": of("Sigmoid ({x})", "Mul ({y}, {x})"),
    "HardSigmoid · x": of("HardSigmoid <alpha = 0.16666667, beta = 0.5> ({x})", "Mul ({x}, {y})"),
    "HardSwish": of("HardSwish ({x})"),
    "HardSwish, written out": hard_swish,
    "Mish": of("Softplus ({x})", "Tanh ({y})", "Mul ({x}, {y})"),
    "GELU": gelu,
    "Sigmoid": of("Sigmoid ({x})"),
    "Tanh": of("Tanh ({x})"),
    "Elu": of("Elu <alpha = 0.7> ({x})"),
    "Abs of a negative slope": of("LeakyRelu <alpha = -0.5> ({x})", "Abs ({y})"),
}
SIDES: dict[str, Build] = {
    "LeakyRelu": of("LeakyRelu <alpha = 0.1> ({x})"),
    "LeakyRelu, steeper below": of("LeakyRelu <alpha = 2.5> ({x})"),
    "PRelu": prelu,
}


def convolution(net: Net) -> str:
    x, weight = net.coded("x", 0.05, 121), net.weight(5, 6, 3, 3)
    return net.op(f"Conv ({x}, {weight}, {net.bias(5, weight, 0.05)})")


def network(
    build: Build, layer: Callable[[Net], str] = convolution
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The network, and the one whose output is the function before its quantizer."""
    protos = []
    for coded in (True, False):
        net = Net()
        result = build(net, layer(net))
        protos.append(net.proto(IMAGE, net.coded(result, SCALE, ZERO) if coded else result))
    return protos[0], protos[1]


def layer_of(program: Program) -> Weighted:
    (found,) = (step for step in program.instructions if isinstance(step, Weighted))
    return found


def distance(program: Program, real: onnx.ModelProto) -> float:
    """Steps from the codes to the real numbers that ONNX Runtime computes before they are rounded."""
    largest = 0.0
    for seed in range(3):
        feeds = random_feeds(program, seed)
        wanted = np.clip(run(real, feeds)[0].astype(np.float64) / SCALE, -ZERO, 255 - ZERO)
        largest = max(largest, float(np.abs(run_program(program, feeds)[0] / SCALE - wanted).max()))
    return largest


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", CURVES)
def test_functions_of_one_number_become_a_curve(name: str, profile: Profile) -> None:
    proto, real = network(CURVES[name])
    program = lowered(proto, profile, integer_only=True) if profile != "onnx" else lowered(proto)
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]
    rule = layer_of(program).rescale
    assert isinstance(rule, CurveRescale) and rule.error < 100
    assert distance(program, real) <= 0.5 + rule.error / 1000 + 1e-3


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SIDES)
def test_slopes_below_zero_become_factors(name: str, profile: Profile) -> None:
    proto, real = network(SIDES[name])
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]
    assert isinstance(layer_of(program).rescale, TwoSidedRescale)
    assert distance(program, real) <= (0.5 if profile != "tflite" else 0.75) + 1e-3


def test_opset_24_has_swish_as_one_node() -> None:
    net = Net()
    proto = net.proto(IMAGE, net.coded(net.op(f"Swish ({convolution(net)})"), SCALE, ZERO), opset=24)
    program = lowered(proto)
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]


def depthwise(net: Net) -> str:
    x, weight = net.coded("x", 0.05, 121), net.weight(6, 1, 3, 3)
    return net.op(f"Conv <group = 6, pads = [1, 1, 1, 1]> ({x}, {weight})")


def transposed(net: Net) -> str:
    x, weight = net.coded("x", 0.05, 121), net.weight(6, 5, 2, 2, axis=1)
    return net.op(f"ConvTranspose <strides = [2, 2]> ({x}, {weight})")


def dense(net: Net) -> str:
    x, weight = net.coded("x", 0.05, 121), net.weight(8, 7, axis=1)
    product = net.op(f"MatMul ({x}, {weight})")
    return net.op(f"Add ({product}, {net.constant(np.linspace(-1, 1, 7))})")


@pytest.mark.parametrize(
    ("layer", "kind"), [(depthwise, DepthwiseConv), (transposed, Weighted), (dense, FullyConnected)]
)
@pytest.mark.parametrize("name", ["SiLU", "LeakyRelu"])
def test_every_kind_of_layer(layer: Callable[[Net], str], kind: type, name: str) -> None:
    proto, real = network((CURVES | SIDES)[name], layer)
    program = lowered(proto)
    assert isinstance(layer_of(program), kind) and len(program.float_instructions) == 0
    assert distance(program, real) <= 0.6


def test_relu_and_clip_at_the_end_are_the_clamp() -> None:
    def build(net: Net, x: str) -> str:
        leaky = net.op(f"LeakyRelu <alpha = 0.2> ({x})")
        return net.op(f"Clip ({leaky}, {net.constant(-0.15)}, {net.constant(3.0)})")

    proto, real = network(build)
    step = layer_of(lowered(proto))
    assert isinstance(step.rescale, TwoSidedRescale) and (step.low, step.high) == (ZERO - 5, ZERO + 100)
    assert distance(lowered(proto), real) <= 0.5 + 1e-3


def second_reader(net: Net) -> tuple[str, ...]:
    """The layer's result itself is wanted as well."""
    x = convolution(net)
    return net.coded(net.op(f"Tanh ({x})"), SCALE, ZERO), net.coded(x, 0.1, 100)


def two_quantizers(net: Net) -> tuple[str, ...]:
    y = net.op(f"Tanh ({convolution(net)})")
    return net.coded(y, SCALE, ZERO), net.coded(y, 0.1, 100)


def real_output(net: Net) -> tuple[str, ...]:
    y = net.op(f"Tanh ({convolution(net)})")
    return net.coded(y, SCALE, ZERO), y


def inner_reader(net: Net) -> tuple[str, ...]:
    x = convolution(net)
    part = net.op(f"Sigmoid ({x})")
    return net.coded(net.op(f"Mul ({x}, {part})"), SCALE, ZERO), net.coded(part, 0.004)


def other_tensor(net: Net) -> tuple[str, ...]:
    x = convolution(net)
    return (net.coded(net.op(f"Mul ({x}, {net.op(f'Sigmoid ({convolution(net)})')})"), SCALE, ZERO),)


def per_pixel(net: Net) -> tuple[str, ...]:
    slopes = net.constant(np.linspace(0.1, 1, 6).reshape(1, 1, 6))
    return (net.coded(net.op(f"PRelu ({convolution(net)}, {slopes})"), SCALE, ZERO),)


def too_bent(net: Net) -> tuple[str, ...]:
    return (net.coded(net.op(f"Sin ({convolution(net)})"), 0.008, 128),)


@pytest.mark.parametrize(
    "build", [second_reader, two_quantizers, real_output, inner_reader, other_tensor, per_pixel, too_bent]
)
def test_what_is_no_function_of_the_sums_alone_stays_as_it_was(
    build: Callable[[Net], tuple[str, ...]],
) -> None:
    net = Net()
    proto = net.proto(IMAGE, *build(net))
    program = lowered(proto)
    rules = [step.rescale for step in program.instructions if isinstance(step, Weighted)]
    assert not any(isinstance(rule, CurveRescale | TwoSidedRescale) for rule in rules)
    assert float_nodes(proto) or any(isinstance(step, RealFunction) for step in program.instructions)
    feeds = random_feeds(program)
    for got, wanted in zip(run_program(program, feeds), run(proto, feeds), strict=True):
        assert np.abs(got - wanted).max() <= 0.11


def test_a_network_of_several_such_layers_needs_no_float_node() -> None:
    net = Net()
    x: Any = net.coded("x", 0.05, 121)
    for place, build in enumerate((CURVES["SiLU"], SIDES["LeakyRelu"], CURVES["HardSwish"])):
        weight = net.weight(6, 6, 3, 3)
        conv = net.op(f"Conv <pads = [1, 1, 1, 1]> ({x}, {weight}, {net.bias(6, weight, 0.05)})")
        x = net.coded(build(net, conv), 0.05, 20 + place)
    program = lowered(net.proto(IMAGE, x))
    assert steps(program) == ["Quantize", "Conv", "Conv", "Conv", "Dequantize"]
