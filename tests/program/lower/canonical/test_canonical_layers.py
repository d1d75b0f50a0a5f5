"""What stands behind a layer with coded weights goes into its codes, scales and bias; biases become int32."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from canonical_checks import Net, canonical, node_of, op_types

from calib8.coded_array import CodedArray
from calib8.model.graph import constant, input_at
from calib8.program.lower.canonical.codings import constant_codes
from small_models import normal

STEP = 0.1001


def codes_at(model: object, op_type: str, place: int) -> CodedArray:
    found = constant_codes(input_at(node_of(model, op_type), place))  # type: ignore[arg-type]
    assert found is not None
    return found


LAYERS = {
    "Conv": ("Conv <pads = [1, 1, 1, 1]>", (6, 4, 3, 3), 0, "float[1, 4, 5, 5] x"),
    "grouped Conv": ("Conv <group = 2>", (6, 2, 3, 3), 0, "float[1, 4, 5, 5] x"),
    "ConvTranspose": ("ConvTranspose <strides = [2, 2]>", (4, 6, 3, 3), 1, "float[1, 4, 5, 5] x"),
    "Gemm": ("Gemm <transB = 1>", (6, 4), 0, "float[3, 4] x"),
    "MatMul": ("MatMul", (4, 6), 1, "float[3, 4] x"),
}


def layer(net: Net, kind: str, per_channel: bool, bias: str = "", codes: object = None) -> str:
    op, shape, axis, _ = LAYERS[kind]
    stored = np.asarray(codes) if codes is not None else None
    weight = net.weight(*shape, axis=axis if per_channel else None, codes=stored)
    return net.op(f"{op} ({net.coded('x')}, {weight}{bias and ', ' + bias})", name="layer")


def norm(net: Net, value: str, gamma: np.ndarray) -> str:
    parameters = [gamma, normal(6, seed=1), normal(6, seed=2), normal(6, seed=3) ** 2 + 0.1]
    return net.op(f"BatchNormalization ({value}, {', '.join(net.constant(array) for array in parameters)})")


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_batch_normalization_goes_into_a_coded_layer(kind: str, per_channel: bool) -> None:
    net = Net()
    value = norm(net, layer(net, kind, per_channel), np.float32([1, -0.5, 0, 2, -1, 0.3]))
    model = canonical(net.model(LAYERS[kind][3], net.coded(value, 0.1), value), within=STEP)
    expected = "Gemm" if kind == "MatMul" else kind.split()[-1]
    assert op_types(model) == [expected]
    weight = codes_at(model, expected, 1)
    assert weight.axis == LAYERS[kind][2] and not weight.zero_point.any()
    assert node_of(model, expected).outputs[0].name == value
    assert codes_at(model, expected, 2).values.dtype == np.int32


@pytest.mark.parametrize(("dtype", "lowest"), [(np.int8, -128), (np.uint8, 0)])
def test_channels_that_cannot_be_mirrored_are_complemented(dtype: type, lowest: int) -> None:
    net = Net()
    codes = net.rng.integers(lowest, lowest + 256, (6, 4, 1, 1)).astype(dtype)
    codes[1] = lowest
    point = 0 if dtype == np.int8 else 130
    stored = net.constant(codes, dtype)
    weight = net.op(f"DequantizeLinear ({stored}, {net.constant(0.01)}, {net.constant(point, dtype)})")
    value = norm(net, net.op(f"Conv ({net.coded('x')}, {weight})"), np.float32([1, -0.5, 0, 2, -1, 0.3]))
    model = canonical(net.model("float[1, 4, 5, 5] x", net.coded(value, 0.1), value), within=STEP)
    found = codes_at(model, "Conv", 1)
    complement = -1 if dtype == np.int8 else 255
    assert found.zero_point[1] == complement - point and np.all(found.values[1] == complement - lowest)
    assert np.all(found.values[2] == point)


@pytest.mark.parametrize(
    "arithmetic", ["Mul ({0}, {k})", "Div ({0}, {k})", "Add ({k}, {0})", "Sub ({k}, {0})"]
)
@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_arithmetic_per_channel_goes_into_a_coded_layer(kind: str, arithmetic: str) -> None:
    net = Net()
    value = layer(net, kind, per_channel=True)
    k = net.constant((normal(6, seed=4) + 2).reshape(6, 1, 1) if kind == "Conv" else normal(6, seed=4) + 2)
    value = net.op(arithmetic.format(value, k=k))
    model = canonical(net.model(LAYERS[kind][3], net.coded(value, 0.1), value), within=STEP)
    assert len(op_types(model)) == 1


def test_a_constant_in_codes_becomes_the_bias() -> None:
    net = Net()
    value = net.op(f"Add ({layer(net, 'Conv', True)}, {net.weight(6, 1, 1)})")
    model = canonical(net.model(LAYERS["Conv"][3], net.coded(value, 0.1)), within=STEP)
    assert op_types(model) == ["Conv"]


def test_a_chain_is_folded_as_a_whole() -> None:
    net = Net()
    value = layer(net, "Conv", True, bias=net.constant(normal(6)))
    value = norm(net, net.op(f"Mul ({value}, {net.constant(-1.5)})"), normal(6, seed=8))
    value = net.op(f"Relu ({net.op(f'Add ({value}, {net.constant(0.25)})')})")
    model = canonical(net.model(LAYERS["Conv"][3], net.coded(value, 0.1), value), within=STEP)
    assert op_types(model) == ["Conv", "Relu"]


def test_a_factor_alone_keeps_one_scale() -> None:
    net = Net()
    value = net.op(f"Mul ({layer(net, 'MatMul', False)}, {net.constant(0.5)})")
    model = canonical(net.model(LAYERS["MatMul"][3], net.coded(value, 0.1)), within=STEP)
    assert op_types(model) == ["MatMul"] and codes_at(model, "MatMul", 1).axis is None


def unfolded(net: Net, inputs: str, *outputs: str) -> list[str]:
    return op_types(canonical(net.model(inputs, *outputs), within=STEP))


def test_what_is_not_folded() -> None:
    net = Net()
    value = layer(net, "Conv", True)
    k = net.constant(normal(6, 1, 1))
    inputs = LAYERS["Conv"][3]
    assert unfolded(net, inputs, net.coded(net.op(f"Mul ({value}, {k})"), 0.1), value) == ["Conv", "Mul"]

    net = Net()
    rows = net.constant(normal(5, 5))
    assert unfolded(net, inputs, net.op(f"Mul ({layer(net, 'Conv', True)}, {rows})")) == ["Conv", "Mul"]

    net = Net()
    batch = net.constant(normal(2, 1, 1, 1))
    assert unfolded(net, inputs, net.op(f"Add ({layer(net, 'Conv', True)}, {batch})")) == ["Conv", "Add"]

    for shift in (normal(6), np.float32([1, 0, 2, 0, 0, 0])):
        net = Net()
        product = net.op(f"MatMul ({net.coded('x')}, {net.weight(4, 6)})")
        added = net.op(f"Add ({product}, {net.constant(shift)})")
        assert unfolded(net, "float[2, 3, 4] x", net.coded(added, 0.1)) == ["MatMul", "Add"]

    net = Net()
    product = net.op(f"MatMul ({net.coded('x')}, {net.weight(4, 6)})")
    normed = net.op(f"BatchNormalization ({product}, {', '.join([net.constant(np.ones(3))] * 4)})")
    assert unfolded(net, "float[2, 3, 4] x", net.coded(normed, 0.1)) == ["MatMul", "Mul", "Add"]

    net = Net()
    value = net.op(f"ConvTranspose <group = 2> ({net.coded('x')}, {net.weight(4, 3, 3, 3, axis=1)})")
    assert unfolded(net, inputs, net.coded(norm(net, value, normal(6)), 0.1)) == [
        "ConvTranspose",
        "Mul",
        "Add",
    ]


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 4), (2, 6, 4, 4), (1, 6, 2, 2, 2)])
def test_a_bare_batch_normalization_is_arithmetic(shape: tuple[int, ...]) -> None:
    net = Net()
    value = norm(net, net.coded("x"), normal(6))
    sizes = ", ".join(map(str, shape))
    model = canonical(net.model(f"float[{sizes}] x", net.coded(value, 0.1), value), within=STEP)
    assert op_types(model) == ["Mul", "Add"]
    factor = constant(node_of(model, "Mul").inputs[1])
    assert factor is not None and factor.shape == (6, *[1] * (len(shape) - 2))


def scaled_bias(net: Net, values: object, scale: object, axis: bool = False, dtype: type = np.int32) -> str:
    stored = net.constant(values, dtype)
    return net.op(f"DequantizeLinear {'<axis = 0> ' * axis}({stored}, {net.constant(scale)})")


@pytest.mark.parametrize("kind", ["Conv", "grouped Conv", "ConvTranspose", "Gemm"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", ["float", "int32 of another scale", "int8", "one number"])
def test_biases_become_steps_of_the_sums(form: str, per_channel: bool, kind: str) -> None:
    net = Net()
    if form == "float" or (form == "one number" and kind != "Gemm"):
        bias = net.constant(normal(6))
    elif form == "one number":
        bias = net.constant(0.7)
    elif form == "int8":
        bias = scaled_bias(net, [-128, 127, 0, 3, -4, 5], 0.01, dtype=np.int8)
    else:
        bias = scaled_bias(net, [-900, 900, 0, 3, -4, 5], np.full(6, 0.001), axis=True)
    value = layer(net, kind, per_channel, bias)
    model = canonical(net.model(LAYERS[kind][3], net.coded(value, 0.1), value), within=STEP)
    op_type = kind.split()[-1]
    found, weight = codes_at(model, op_type, 2), codes_at(model, op_type, 1)
    assert found.values.shape == (6,) and found.values.dtype == np.int32
    np.testing.assert_array_equal(found.scale, np.float32(0.05) * weight.scale)
    assert node_of(model, op_type).outputs[0].name == value


def test_a_grouped_transposed_convolution_repeats_its_scales() -> None:
    net = Net()
    weight = net.weight(4, 3, 3, 3, axis=1)
    line = f"ConvTranspose <group = 2> ({net.coded('x')}, {weight}, {net.constant(normal(6))})"
    model = canonical(net.model("float[1, 4, 5, 5] x", net.coded(net.op(line), 0.1)), within=STEP)
    np.testing.assert_array_equal(
        codes_at(model, "ConvTranspose", 2).scale,
        np.tile(np.float32(0.05) * codes_at(model, "ConvTranspose", 1).scale, 2),
    )


@pytest.mark.parametrize("off", [0.0, 1e-7, -2e-7])
def test_a_bias_of_the_right_scale_keeps_its_numbers(off: float) -> None:
    net = Net()
    weight = net.constant(net.codes(2, 3, 1, 1), np.int8)
    scale = net.constant(np.float32([0.011, 0.017]))
    coded = net.op(f"DequantizeLinear <axis = 0> ({weight}, {scale})")
    steps = np.float32(0.05) * np.float32([0.011, 0.017])
    values = [2**31 - 1, -(2**30) - 1]
    bias = scaled_bias(net, values, steps * (1 + off), axis=True)
    value = net.op(f"Conv ({net.coded('x')}, {coded}, {bias})")
    model = canonical(net.model("float[1, 3, 2, 2] x", net.coded(value, 1e5)), within=1.01e5)
    found = codes_at(model, "Conv", 2)
    assert found.values.tolist() == values and np.array_equal(found.scale, steps)


def test_ties_of_a_bias_go_to_even() -> None:
    net = Net()
    weight = net.op(f"DequantizeLinear ({net.constant(np.ones((4, 1, 1, 1)), np.int8)}, {net.constant(0.5)})")
    bias = net.constant(np.float32([0.125, 0.375, -0.125, 0.625]))
    value = net.op(f"Conv ({net.coded('x', 0.5)}, {weight}, {bias})")
    model = canonical(net.model("float[1, 1, 2, 2] x", net.coded(value, 0.5)), within=0.501)
    assert codes_at(model, "Conv", 2).values.tolist() == [0, 2, 0, 2]


def test_a_channel_of_zeros_takes_the_scale_that_its_bias_needs() -> None:
    net = Net()
    codes = net.codes(3, 2, 1, 1)
    codes[1] = 0
    scale = net.constant(np.float32([0.01, 1e-12, 0.02]))
    weight = net.op(f"DequantizeLinear <axis = 0> ({net.constant(codes, np.int8)}, {scale})")
    value = net.op(f"Conv ({net.coded('x')}, {weight}, {net.constant([0.1, 0.7, -0.3])})")
    model = canonical(net.model("float[1, 2, 3, 3] x", net.coded(value, 0.1), value), within=STEP)
    bias = codes_at(model, "Conv", 2)
    assert bias.floats[1] == pytest.approx(0.7)
    assert codes_at(model, "Conv", 1).scale[[0, 2]].tolist() == np.float32([0.01, 0.02]).tolist()


def float_bias(proto: onnx.ModelProto, op_type: str) -> bool:
    model = canonical(proto, within=STEP)
    return constant_codes(node_of(model, op_type).inputs[2]) is None


def test_biases_that_stay() -> None:
    net = Net()
    tiny = net.op(f"DequantizeLinear ({net.constant(net.codes(6, 4, 1, 1), np.int8)}, {net.constant(1e-12)})")
    value = net.op(f"Conv ({net.coded('x')}, {tiny}, {net.constant(normal(6))})")
    assert float_bias(net.model("float[1, 4, 5, 5] x", value), "Conv"), "too large for int32"

    net = Net()
    value = net.op(f"Conv (x, {net.weight(6, 4, 1, 1)}, {net.constant(normal(6))})")
    assert float_bias(net.model("float[1, 4, 5, 5] x", value), "Conv"), "the input is float"

    net = Net()
    value = net.op(f"Conv ({net.coded('x')}, {net.constant(normal(6, 4, 1, 1))}, {net.constant(normal(6))})")
    assert float_bias(net.model("float[1, 4, 5, 5] x", value), "Conv"), "the weight is float"

    net = Net()
    value = net.op(f"Gemm ({net.coded('x')}, {net.weight(4, 6)}, {net.constant(normal(3, 6))})")
    assert float_bias(net.model("float[3, 4] x", value), "Gemm"), "a matrix"

    net = Net()
    value = net.op(f"Gemm ({net.coded('x')}, {net.weight(4, 6)}, b)")
    assert float_bias(net.model("float[3, 4] x, float[6] b", value), "Gemm"), "computed"

    net = Net()
    value = net.op(f"Gemm <alpha = -1.0> ({net.coded('x')}, {net.weight(4, 6)}, {net.constant(normal(6))})")
    assert float_bias(net.model("float[3, 4] x", value), "Gemm"), "a factor"
