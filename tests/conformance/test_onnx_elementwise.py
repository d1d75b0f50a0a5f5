"""Profile ``onnx`` against ONNX Runtime: sums, products and borders, equal bits for equal codes."""

from __future__ import annotations

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
    reference,
)
from onnx import helper

from calib8.program.instructions import Add, Dequantize, Maximum, Minimum, Mul, Quantize, Sub
from calib8.program.program import Slot
from calib8.program.rounding.linear import product_rule, sum_rule

Array = npt.NDArray[Any]

# ------------------------------------------------------------ sums and products


def broadcastable(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes with the full one first; the other one's ones may be anywhere, or leading axes may lack."""
    full = tuple(int(n) for n in rng.integers(2, 12, rng.integers(1, 5)))
    kind = rng.choice(["equal", "ones", "short"])
    if kind == "equal":
        return full, full
    if kind == "short":
        return full, full[int(rng.integers(0, len(full))) :]
    return full, tuple(1 if rng.random() < 0.5 else n for n in full)


def binary_case(
    rng: np.random.Generator, dtype: str
) -> tuple[Quantized, Quantized, Quantized, tuple[int, ...]]:
    full, part = broadcastable(rng)
    shapes = (full, part) if rng.random() < 0.5 else (part, full)
    a, b = quantized(rng, "a", shapes[0], dtype), quantized(rng, "b", shapes[1], dtype)
    return a, b, quantized(rng, "y", (), dtype), full


def one_number_per_run(a: Array, b: Array) -> bool:
    """The left side does not vary along the last axis that is longer than 1, or is a single number."""
    rank = max(a.ndim, b.ndim)
    left = (1,) * (rank - a.ndim) + a.shape
    right = (1,) * (rank - b.ndim) + b.shape
    last = [(m, n) for m, n in zip(left, right, strict=True) if max(m, n) > 1]
    return not last or last[-1][0] == 1


def fused_binary(op: str, a: Quantized, b: Quantized, y: Quantized) -> Array:
    node = helper.make_node(op, [*a.names, *b.names, "y_scale", "y_zp"], ["y"], domain=MICROSOFT)
    constants = a.constants | b.constants | y.constants
    return onnx_runtime([node], {"a": a.data, "b": b.data}, constants)


def add_reference(a: Quantized, b: Quantized, y: Quantized, shape: tuple[int, ...]) -> Array:
    if one_number_per_run(a.data, b.data):
        a, b = b, a
    info = np.iinfo(a.data.dtype)
    rule = sum_rule("onnx", "add", a.qparams, b.qparams, y.qparams)
    step = Add("sum", (0, 1), (2,), rule, info.min, info.max)
    return reference([step], [a.slot(), b.slot(), y.slot(shape)], a.data, b.data)


def mul_reference(a: Quantized, b: Quantized, y: Quantized, shape: tuple[int, ...]) -> Array:
    info = np.iinfo(a.data.dtype)
    rule = product_rule("onnx", float(a.scale), float(b.scale), float(y.scale))
    step = Mul("product", (0, 1), (2,), rule, info.min, info.max)
    return reference([step], [a.slot(), b.slot(), y.slot(shape)], a.data, b.data)


BINARY = {"QLinearAdd": add_reference, "QLinearMul": mul_reference}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("seed", SEEDS)
def test_fused_sums_and_products(op: str, dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    for case in range(CASES):
        a, b, y, shape = binary_case(rng, dtype)
        expected = fused_binary(op, a, b, y)
        np.testing.assert_array_equal(BINARY[op](a, b, y, shape), expected, f"case {case}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("runs", ["equal", "left", "right"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_fused_sums_and_products_of_all_pairs_of_codes(op: str, runs: str, dtype: str) -> None:
    """65536 pairs of codes at a time: rare ties and double roundings show up here."""
    rng = np.random.default_rng(7)
    every = np.arange(256).astype(np.uint8).view(dtype)
    for case in range(CASES):
        a, b, y, _ = binary_case(rng, dtype)
        column, table = every.reshape(256, 1), np.tile(every, (256, 1))
        left = np.repeat(column, 256, axis=1) if runs == "equal" else (column if runs == "left" else table)
        right = column if runs == "right" else table
        a = Quantized("a", left.copy(), a.scale, a.zero_point)
        b = Quantized("b", right.copy(), b.scale, b.zero_point)
        expected = fused_binary(op, a, b, y)
        np.testing.assert_array_equal(BINARY[op](a, b, y, (256, 256)), expected, f"case {case}")


def float_binary(op: str, a: Quantized, b: Quantized, y: Quantized) -> Array:
    """DequantizeLinear → op → QuantizeLinear, which ONNX Runtime leaves to its float kernels."""
    nodes = [
        a.dequantize(),
        b.dequantize(),
        helper.make_node(op, ["a_float", "b_float"], ["y_float"]),
        helper.make_node("QuantizeLinear", ["y_float", "y_scale", "y_zp"], ["y"]),
    ]
    constants = a.constants | b.constants | y.constants
    return onnx_runtime(nodes, {"a": a.data, "b": b.data}, constants)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("seed", SEEDS)
def test_differences(dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 8])
    info = np.iinfo(dtype)
    for case in range(CASES):
        a, b, y, shape = binary_case(rng, dtype)
        rule = sum_rule("onnx", "sub", a.qparams, b.qparams, y.qparams)
        step = Sub("difference", (0, 1), (2,), rule, info.min, info.max)
        result = reference([step], [a.slot(), b.slot(), y.slot(shape)], a.data, b.data)
        np.testing.assert_array_equal(result, float_binary("Sub", a, b, y), f"case {case}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("op", "kind"), [("Max", Maximum), ("Min", Minimum)])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_larger_and_the_smaller(op: str, kind: type[Maximum | Minimum], dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    for case in range(CASES):
        a, other, _, shape = binary_case(rng, dtype)
        b, y = (Quantized(n, d, a.scale, a.zero_point) for n, d in (("b", other.data), ("y", other.data)))
        result = reference([kind("step", (0, 1), (2,))], [a.slot(), b.slot(), y.slot(shape)], a.data, b.data)
        np.testing.assert_array_equal(result, float_binary(op, a, b, y), f"case {case}")


# ------------------------------------------------------------ borders


def awkward_floats(rng: np.random.Generator, count: int, y: Quantized) -> Array:
    """Values around and exactly between codes, far beyond them, infinite, NaN."""
    steps = rng.uniform(-300, 300, count)
    steps = np.where(rng.random(count) < 0.4, np.round(steps) + 0.5, steps)
    values = (steps * float(y.scale)).astype(np.float32)
    special = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-45])
    return np.where(rng.random(count) < 0.1, rng.choice(special, count), values).astype(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("seed", SEEDS)
def test_quantize_and_dequantize(dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 10])
    for case in range(CASES):
        y = quantized(rng, "y", (1, 3, int(rng.integers(1, 7)), int(rng.integers(1, 9))), dtype)
        x = awkward_floats(rng, y.data.size, y).reshape(y.data.shape)
        node = helper.make_node("QuantizeLinear", ["x", "y_scale", "y_zp"], ["y"])
        expected = onnx_runtime([node], {"x": x}, y.constants)
        step = Quantize("q", (0,), (1,), (0, 2, 3, 1), "even")
        nhwc = tuple(y.data.shape[axis] for axis in step.axes)
        result = reference([step], [Slot("x", x.shape, "float32"), y.slot(nhwc)], x)
        np.testing.assert_array_equal(result.transpose(0, 3, 1, 2), expected, f"case {case}")

        node = helper.make_node("DequantizeLinear", y.names, ["x"])
        expected = onnx_runtime([node], {"y": y.data}, y.constants, "x")
        back = Dequantize("dq", (0,), (1,), (0, 3, 1, 2))
        codes = y.data.transpose(0, 2, 3, 1)
        result = reference([back], [y.slot(nhwc), Slot("x", y.data.shape, "float32")], codes)
        np.testing.assert_array_equal(result, expected, f"case {case}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("types", [*TYPES, ("int8", "uint8")], ids="·".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_dequantizer_before_a_quantizer(seed: int, types: tuple[str, str]) -> None:
    """Every change of scale, zero point and type; as two borders, which is what its table holds."""
    rng = np.random.default_rng([seed, 11])
    for case in range(CASES):
        x = quantized(rng, "x", (256,), types[0])
        x = Quantized("x", np.arange(256).astype(np.uint8).view(types[0]), x.scale, x.zero_point)
        y = quantized(rng, "y", (), types[1])
        nodes = [x.dequantize(), helper.make_node("QuantizeLinear", ["x_float", "y_scale", "y_zp"], ["y"])]
        expected = onnx_runtime(nodes, {"x": x.data}, x.constants | y.constants)
        steps = [Dequantize("dq", (0,), (1,), (0,)), Quantize("q", (1,), (2,), (0,), "even")]
        slots = [x.slot(), Slot("between", (256,), "float32"), y.slot((256,))]
        np.testing.assert_array_equal(reference(steps, slots, x.data), expected, f"case {case}")
