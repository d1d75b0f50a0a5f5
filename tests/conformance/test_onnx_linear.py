"""Profile ``onnx`` against ONNX Runtime's fused layers and QDQ blocks: equal bits for equal codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fused_kernels import (
    CASES,
    MICROSOFT,
    SEEDS,
    TYPES,
    Quantized,
    onnx_runtime,
    quantized,
    random_scale,
    random_weight,
    reference,
)
from onnx import NodeProto, helper

from calib8.program.instructions import (
    Add,
    Conv,
    DepthwiseConv,
    Dequantize,
    FullyConnected,
    MatMul,
    Mul,
    Requantize,
)
from calib8.program.program import Slot
from calib8.program.rounding.linear import clamp, layer_rescale, product_rule, sum_rule, sums_rescale

Array = npt.NDArray[Any]


def fitting_output(
    rng: np.random.Generator, x: Quantized, weight: Array, point: int, scales: Array, depth: int
) -> Quantized:
    """An output with a scale under which most sums of ``depth`` products do not saturate."""
    y = quantized(rng, "y", (), x.data.dtype.name)
    left, right = x.data.astype(np.float64) - x.zero_point, weight.astype(np.float64) - point
    spread = left.std() * right.std() * np.sqrt(depth) + abs(left.mean() * right.mean()) * depth
    scale = np.float32(x.scale * np.median(scales) * (spread + 1) / 60 * rng.uniform(0.5, 2.0))
    if rng.random() < 0.3:  # a power of two, so that there are ties
        scale = np.float32(2.0 ** np.round(np.log2(scale)))
    return Quantized(y.name, y.data, scale, y.zero_point)


def weight_scales(rng: np.random.Generator, channels: int) -> Array:
    count = channels if rng.random() < 0.5 else 1
    return np.array([random_scale(rng) for _ in range(count)], np.float32)


def weight_point(rng: np.random.Generator, dtype: str) -> int:
    """0 for most int8 weights; kernels take other ones too."""
    info = np.iinfo(dtype)
    if dtype == "int8" and rng.random() < 0.7:
        return 0
    return int(rng.integers(info.min, info.max + 1))


def names_of_layer(x: Quantized, weight: str, y: Quantized) -> list[str]:
    return [*x.names, weight, "w_scale", "w_zp", "y_scale", "y_zp"]


# ------------------------------------------------------------ convolutions


def conv_geometry(rng: np.random.Generator) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int]]:
    """Fields of an instruction, size of the kernel, size of an image that it fits into."""
    kernel = tuple(int(k) for k in rng.choice([1, 2, 3, 5], 2))
    dilations = tuple(int(d) for d in rng.choice([1, 1, 2], 2))
    fields = {
        "strides": tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2)),
        "pads": tuple(int(p) for p in rng.integers(0, 3, 4)),
        "dilations": dilations,
    }
    image = tuple(int((k - 1) * d + rng.integers(1, 9)) for k, d in zip(kernel, dilations, strict=True))
    return fields, kernel, image  # type: ignore[return-value]


def conv_groups(rng: np.random.Generator) -> tuple[int, int, int]:
    """Groups, input channels per group, output channels per group."""
    kind = rng.choice(["plain", "groups", "depthwise", "multiplier"])
    if kind == "plain":
        return 1, int(rng.integers(1, 40)), int(rng.integers(1, 40))
    if kind == "groups":
        return int(rng.integers(2, 5)), int(rng.integers(1, 9)), int(rng.integers(1, 9))
    return int(rng.integers(1, 40)), 1, 1 if kind == "depthwise" else int(rng.integers(2, 4))


def conv_case(rng: np.random.Generator, types: tuple[str, str]) -> tuple[Array, Array]:
    """Codes of ONNX Runtime and of the reference, both NCHW."""
    fields, kernel, image = conv_geometry(rng)
    groups, depth, per_group = conv_groups(rng)
    outputs = groups * per_group
    x = quantized(rng, "x", (int(rng.integers(1, 4)), groups * depth, *image), types[0])
    weight = random_weight(rng, (outputs, depth, *kernel), types[1])
    scales, point = weight_scales(rng, outputs), weight_point(rng, types[1])
    bias = rng.integers(-20000, 20000, outputs).astype(np.int32) if rng.random() < 0.7 else None
    y = fitting_output(rng, x, weight, point, scales, depth * kernel[0] * kernel[1])
    constants = {"w": weight, "w_scale": scales, "w_zp": np.full(scales.shape, point, types[1])}
    constants |= x.constants | y.constants
    if bias is not None:
        constants["bias"] = bias
    attributes = {"group": groups, **{k: list(v) for k, v in fields.items()}, "kernel_shape": list(kernel)}
    inputs = names_of_layer(x, "w", y) + ([] if bias is None else ["bias"])
    node = helper.make_node("QLinearConv", inputs, ["y"], **attributes)
    expected = onnx_runtime([node], {"x": x.data}, constants)
    layer = {
        "name": "conv", "inputs": (0,), "outputs": (1,), **fields,
        "weight_zero_point": np.array([point], np.int32),
        "bias": np.zeros(outputs, np.int32) if bias is None else bias,
        "rescale": layer_rescale("onnx", float(x.scale), scales, float(y.scale)),
        "low": np.iinfo(types[0]).min, "high": np.iinfo(types[0]).max,
    }  # fmt: skip
    step: Conv | DepthwiseConv
    if depth == 1 and groups > 1:
        step = DepthwiseConv(weight=weight[:, 0].transpose(1, 2, 0), **layer)
    else:
        step = Conv(weight=weight.transpose(0, 2, 3, 1), groups=groups, **layer)
    nhwc = x.data.transpose(0, 2, 3, 1)
    shape = tuple(expected.shape[axis] for axis in (0, 2, 3, 1))
    result = reference([step], [x.slot(nhwc.shape), y.slot(shape)], nhwc)
    return expected, result.transpose(0, 3, 1, 2)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", TYPES, ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_qlinear_conv(seed: int, types: tuple[str, str]) -> None:
    rng = np.random.default_rng([seed, 1])
    for case in range(CASES):
        expected, result = conv_case(rng, types)
        np.testing.assert_array_equal(result, expected, f"case {case}")


# ------------------------------------------------------------ matrix products


def fully_connected(
    weight: Array, point: int, bias: Array | None, dtype: str, rescale: Any
) -> FullyConnected:
    """weight [inputs, outputs] as ONNX's MatMul takes it."""
    bounds = np.iinfo(dtype)
    return FullyConnected(
        "fc", (0,), (1,),
        weight=weight.T, weight_zero_point=np.array([point], np.int32),
        bias=np.zeros(weight.shape[1], np.int32) if bias is None else bias,
        rescale=rescale, low=bounds.min, high=bounds.max,
    )  # fmt: skip


def constant_product(
    rng: np.random.Generator, types: tuple[str, str], lead: Sequence[int]
) -> tuple[Quantized, Array, Array, int, Quantized]:
    """Input, weight [inputs, outputs], its scales and zero point, output."""
    depth, outputs = int(rng.integers(1, 200)), int(rng.integers(1, 70))
    x = quantized(rng, "x", (*lead, depth), types[0])
    weight = random_weight(rng, (depth, outputs), types[1])
    scales, point = weight_scales(rng, outputs), weight_point(rng, types[1])
    return x, weight, scales, point, fitting_output(rng, x, weight, point, scales, depth)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", TYPES, ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_qlinear_matmul_with_a_constant(seed: int, types: tuple[str, str]) -> None:
    rng = np.random.default_rng([seed, 2])
    for case in range(CASES):
        x, weight, scales, point, y = constant_product(rng, types, rng.integers(1, 5, rng.integers(1, 3)))
        constants = {"w": weight, "w_scale": scales, "w_zp": np.full(scales.shape, point, types[1])}
        node = helper.make_node("QLinearMatMul", names_of_layer(x, "w", y), ["y"])
        expected = onnx_runtime([node], {"x": x.data}, constants | x.constants | y.constants)
        rescale = layer_rescale("onnx", float(x.scale), scales, float(y.scale), fully_connected=True)
        step = fully_connected(weight, point, None, types[0], rescale)
        result = reference([step], [x.slot(), y.slot(expected.shape)], x.data)
        np.testing.assert_array_equal(result, expected, f"case {case}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", TYPES, ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_qlinear_matmul_of_two_activations(seed: int, types: tuple[str, str]) -> None:
    rng = np.random.default_rng([seed, 3])
    for case in range(CASES):
        rows, depth, columns = (int(n) for n in rng.integers(1, 40, 3))
        lead = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
        a = quantized(rng, "a", (*lead, rows, depth), types[0])
        b = quantized(rng, "b", (*(lead if rng.random() < 0.5 else ()), depth, columns), types[1])
        if types[1] == "int8":
            b = Quantized("b", random_weight(rng, b.data.shape, "int8"), b.scale, b.zero_point)
        y = fitting_output(rng, a, b.data, b.zero_point, b.scale, depth)
        node = helper.make_node("QLinearMatMul", [*a.names, *b.names, "y_scale", "y_zp"], ["y"])
        constants = a.constants | b.constants | y.constants
        expected = onnx_runtime([node], {"a": a.data, "b": b.data}, constants)
        rescale = layer_rescale("onnx", float(a.scale), np.float32([b.scale]), float(y.scale))
        info = np.iinfo(types[0])
        step = MatMul("product", (0, 1), (2,), rescale, info.min, info.max)
        result = reference([step], [a.slot(), b.slot(), y.slot(expected.shape)], a.data, b.data)
        np.testing.assert_array_equal(result, expected, f"case {case}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", TYPES, ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_qgemm_with_codes_and_with_floats(seed: int, types: tuple[str, str]) -> None:
    rng = np.random.default_rng([seed, 4])
    for case in range(CASES):
        x, weight, scales, point, y = constant_product(rng, types, [int(rng.integers(1, 6))])
        bias = rng.integers(-20000, 20000, weight.shape[1]).astype(np.int32)
        transposed = bool(rng.random() < 0.5)
        constants = {
            "w": weight.T.copy() if transposed else weight, "w_scale": scales,
            "w_zp": np.full(scales.shape, point, types[1]), "bias": bias, **x.constants, **y.constants,
        }  # fmt: skip
        inputs = [*x.names, "w", "w_scale", "w_zp", "bias"]
        fields = {"domain": MICROSOFT, "transB": int(transposed)}
        node = helper.make_node("QGemm", [*inputs, "y_scale", "y_zp"], ["y"], **fields)
        expected = onnx_runtime([node], {"x": x.data}, constants)
        rescale = layer_rescale("onnx", float(x.scale), scales, float(y.scale))
        step = fully_connected(weight, point, bias, types[0], rescale)
        result = reference([step], [x.slot(), y.slot(expected.shape)], x.data)
        np.testing.assert_array_equal(result, expected, f"case {case}")

        in_floats = onnx_runtime(
            [helper.make_node("QGemm", inputs, ["y"], **fields)], {"x": x.data}, constants
        )
        step = fully_connected(weight, point, bias, types[0], None)
        result = reference(*sums_to_floats(step, x, expected.shape, x.scale * scales), x.data)
        np.testing.assert_array_equal(result, in_floats, f"case {case}")


def sums_to_floats(
    step: FullyConnected, x: Quantized, shape: tuple[int, ...], scales: Array
) -> tuple[list[Any], list[Slot]]:
    axes = tuple(range(len(shape)))
    sums = Slot("sums", shape, "int32", scales)
    return [step, Dequantize("dq", (1,), (2,), axes)], [x.slot(), sums, Slot("y", shape, "float32")]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", TYPES, ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_matmul_integer_to_float(seed: int, types: tuple[str, str]) -> None:
    """As the fused op and, of uint8 activations, as the QDQ graph from which ONNX Runtime makes it."""
    rng = np.random.default_rng([seed, 5])
    for case in range(CASES):
        x, weight, scales, point, _ = constant_product(rng, types, [int(rng.integers(1, 6))])
        scales = scales.reshape(()) if scales.size == 1 else scales
        constants = {"w": weight, "w_scale": scales, "w_zp": np.full(scales.shape, point, types[1])}
        constants |= x.constants
        inputs = ["x", "w", "x_scale", "w_scale", "x_zp", "w_zp"]
        fused = [helper.make_node("MatMulIntegerToFloat", inputs, ["y"], domain=MICROSOFT)]
        axis = {"axis": 1} if scales.size > 1 else {}
        qdq = [
            x.dequantize(),
            helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zp"], ["w_float"], **axis),
            helper.make_node("MatMul", ["x_float", "w_float"], ["y"]),
        ]
        step = fully_connected(weight, point, None, types[0], None)
        shape = (x.data.shape[0], weight.shape[1])
        result = reference(*sums_to_floats(step, x, shape, x.scale * scales.reshape(-1)), x.data)
        for nodes in [fused, qdq] if types[0] == "uint8" else [fused]:
            expected = onnx_runtime(nodes, {"x": x.data}, constants, fused=("MatMulIntegerToFloat",))
            np.testing.assert_array_equal(result, expected, f"case {case}")


# ------------------------------------------------------------ QDQ models


def qdq_block(x: Quantized, c: Quantized, s: Quantized, y: Quantized) -> list[NodeProto]:
    """Conv with a fused Clip, a residual Add, a product."""
    return [
        x.dequantize(),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zp"], ["w_float"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zp"], ["b_float"], axis=0),
        helper.make_node("Conv", ["x_float", "w_float", "b_float"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["conv", "clip_low", "clip_high"], ["clipped"]),
        helper.make_node("QuantizeLinear", ["clipped", "c_scale", "c_zp"], ["c"]),
        c.dequantize(),
        helper.make_node("Add", ["x_float", "c_float"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "s_scale", "s_zp"], ["s"]),
        s.dequantize(),
        helper.make_node("Mul", ["s_float", "c_float"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "y_scale", "y_zp"], ["y"]),
    ]


@pytest.mark.parametrize("types", TYPES[:2], ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_quantized_block_as_qdq(seed: int, types: tuple[str, str]) -> None:
    rng = np.random.default_rng([seed, 12])
    channels, size = int(rng.integers(1, 20)), int(rng.integers(1, 9))
    x = quantized(rng, "x", (2, channels, size, size), types[0])
    weight, scales = random_weight(rng, (channels, channels, 3, 3), types[1]), weight_scales(rng, channels)
    scales = np.broadcast_to(scales, channels).copy()
    bias = rng.integers(-20000, 20000, channels).astype(np.int32)
    low, high = np.iinfo(types[0]).min, np.iinfo(types[0]).max
    c = fitting_output(rng, x, weight, 0, scales, 9 * channels)
    c = Quantized("c", c.data, c.scale, low)
    # The clip must end where the codes end, or ONNX Runtime leaves Clip and Conv to its float kernels.
    limits = {"clip_low": np.float32(0.0), "clip_high": np.float32(c.scale * np.float32(255))}
    s, y = quantized(rng, "s", (), types[0]), quantized(rng, "y", (), types[0])
    constants = {
        "w": weight, "w_scale": scales, "w_zp": np.zeros(channels, types[1]),
        "b": bias, "b_scale": x.scale * scales, "b_zp": np.zeros(channels, np.int32),
        **limits, **x.constants, **c.constants, **s.constants, **y.constants,
    }  # fmt: skip
    fused = ("QLinearConv", "QLinearAdd", "QLinearMul")
    expected = onnx_runtime(qdq_block(x, c, s, y), {"x": x.data}, constants, fused=fused)
    shape = (2, size, size, channels)
    bounds = clamp("onnx", c.slot(shape), 0.0, float(limits["clip_high"]))
    sum_of = sum_rule("onnx", "add", x.qparams, c.qparams, s.qparams)
    steps = [
        Conv(
            "conv", (0,), (1,), weight.transpose(0, 2, 3, 1), np.zeros(1, np.int32), bias,
            layer_rescale("onnx", float(x.scale), scales, float(c.scale)), *bounds,
            (1, 1), (1, 1, 1, 1), (1, 1), 1,
        ),
        Add("add", (0, 1), (2,), sum_of, low, high),
        Mul("mul", (2, 1), (3,), product_rule("onnx", *map(float, (s.scale, c.scale, y.scale))), low, high),
    ]  # fmt: skip
    slots = [x.slot(shape), c.slot(shape), s.slot(shape), y.slot(shape)]
    result = reference(steps, slots, x.data.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(result.transpose(0, 3, 1, 2), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_that_wait_for_their_quantizer(seed: int) -> None:
    """A layer whose sums are rescaled later gives the codes of the layer that rescales at once."""
    rng = np.random.default_rng([seed, 13])
    x, weight, scales, point, y = constant_product(rng, ("uint8", "int8"), [3])
    shape, sum_scales = (3, weight.shape[1]), x.scale * scales
    rescale = layer_rescale("onnx", float(x.scale), scales, float(y.scale))
    at_once = [fully_connected(weight, point, None, "uint8", rescale)]
    later = sums_rescale("onnx", sum_scales, float(y.scale))
    in_two = [
        fully_connected(weight, point, None, "uint8", None),
        Requantize("requantize", (1,), (2,), later, 0, 255),
    ]
    slots = [x.slot(), Slot("sums", shape, "int32", sum_scales), y.slot(shape)]
    expected = reference(at_once, [x.slot(), y.slot(shape)], x.data)
    np.testing.assert_array_equal(reference(in_two, slots, x.data), expected)
