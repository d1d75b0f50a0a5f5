"""Expressions: every operator against ONNX's own reference, and the precision they are computed in."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from calib8.program.expressions import (
    NARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    Apply,
    Attributes,
    Constant,
    Expression,
    Source,
    channels,
    evaluate,
)

X = np.linspace(-6, 6, 121, dtype=np.float32)
DOMAINS = {
    "Acos": (-1, 1),
    "Asin": (-1, 1),
    "Atanh": (-0.9, 0.9),
    "Acosh": (1, 5),
    "Log": (0.1, 5),
    "Sqrt": (0, 5),
    "Tan": (-1.5, 1.5),
    "Reciprocal": (0.1, 5),
}
ATTRIBUTES: dict[str, Attributes] = {
    "Celu": {"alpha": 0.7},
    "Elu": {"alpha": 1.3},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.05},
    "Selu": {"alpha": 1.5, "gamma": 1.1},
    "Shrink": {"lambd": 0.8, "bias": 0.3},
    "Swish": {"alpha": 0.6},
    "ThresholdedRelu": {"alpha": 1.2},
}
CONSTANTS = {"Clip": (-1.5, 3.25), "PRelu": (0.3,)}


def constant(*numbers: float) -> Constant:
    return Constant(np.array(numbers, np.float32).reshape(-1) if len(numbers) > 1 else np.float32(numbers[0]))


def onnx_result(
    op: str, values: np.ndarray, constants: tuple[float, ...], attributes: Attributes
) -> np.ndarray:
    names = [f"c{number}" for number in range(len(constants))]
    node = helper.make_node(op, ["x", *names], ["y"], **attributes)
    tensors = [
        helper.make_tensor(n, TensorProto.FLOAT, [], [c]) for n, c in zip(names, constants, strict=True)
    ]
    shape = list(values.shape)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    return np.asarray(ReferenceEvaluator(model).run(None, {"x": values})[0])


@pytest.mark.parametrize("op", sorted(UNARY_FUNCTIONS))
def test_every_unary_operator_is_the_one_of_onnx(op: str) -> None:
    values = np.linspace(*DOMAINS.get(op, (-6, 6)), 121, dtype=np.float32)
    attributes, constants = ATTRIBUTES.get(op, {}), CONSTANTS.get(op, ())
    args: tuple[Expression, ...] = (Source(), *map(constant, constants))
    expected = onnx_result(op, values, constants, attributes)
    for dtype, tolerance in ((np.float32, 3e-6), (np.float64, 3e-6)):
        result = evaluate(Apply(op, args, attributes), values.astype(dtype))
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "op", ["Celu", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "Shrink", "ThresholdedRelu"]
)
def test_absent_attributes_are_the_defaults_of_onnx(op: str) -> None:
    result = evaluate(Apply(op, (Source(),)), X)
    np.testing.assert_allclose(result, onnx_result(op, X, (), {}), rtol=1e-5, atol=1e-6)


def test_gelu_in_both_forms() -> None:
    for form in ("none", "tanh"):
        result = evaluate(Apply("Gelu", (Source(),), {"approximate": form}), X)
        np.testing.assert_allclose(result, onnx_result("Gelu", X, (), {"approximate": form}), atol=1e-6)
    exact = evaluate(Apply("Gelu", (Source(),)), X)
    assert np.abs(exact - evaluate(Apply("Gelu", (Source(),), {"approximate": "tanh"}), X)).max() > 1e-4


@pytest.mark.parametrize("op", sorted(NARY_FUNCTIONS))
def test_every_operator_of_several_tensors(op: str) -> None:
    left, right = X[61:], np.float32(1.75)
    functions = {
        "Add": np.add,
        "Div": np.divide,
        "Max": np.maximum,
        "Min": np.minimum,
        "Mul": np.multiply,
        "Pow": np.power,
        "Sub": np.subtract,
    }
    result = evaluate(Apply(op, (Source(), constant(1.75))), left)
    np.testing.assert_allclose(result, functions[op](left, right), rtol=1e-6)
    swapped = evaluate(Apply(op, (constant(1.75), Source())), left)
    np.testing.assert_allclose(swapped, functions[op](right, left), rtol=1e-6)


def test_max_of_three() -> None:
    result = evaluate(Apply("Max", (Source(), constant(-1), constant(2))), X)
    assert np.array_equal(result, np.maximum(X, 2))


def test_float32_rounds_after_every_operator() -> None:
    scaled = Apply("Mul", (Source(), constant(0.1)))
    shifted = Apply("Add", (scaled, constant(0.7)))
    expected = X * np.float32(0.1) + np.float32(0.7)
    assert np.array_equal(evaluate(shifted, X), expected)
    once = (X.astype(np.float64) * float(np.float32(0.1)) + float(np.float32(0.7))).astype(np.float32)
    assert not np.array_equal(expected, once)


def test_float32_of_a_transcendental_function_is_its_float64_value_rounded() -> None:
    result = evaluate(Apply("Sigmoid", (Source(),)), X)
    expected = [np.float32(1 / (1 + math.exp(-float(x)))) for x in X]
    assert np.array_equal(result, np.array(expected, np.float32))


def test_attributes_are_float32_numbers_in_both_precisions() -> None:
    wide = evaluate(Apply("LeakyRelu", (Source(),), {"alpha": 0.1}), np.array([-1.0]))
    assert wide[0] == -float(np.float32(0.1))


def test_clip_takes_bounds_as_attributes_or_inputs() -> None:
    for expression in (
        Apply("Clip", (Source(),), {"min": -1.0, "max": 2.0}),
        Apply("Clip", (Source(), constant(-1), constant(2))),
        Apply("Clip", (Source(), constant(-1)), {"max": 2.0}),
    ):
        assert np.array_equal(evaluate(expression, X), np.clip(X, -1, 2))
    assert np.array_equal(evaluate(Apply("Clip", (Source(),)), X), X)


def test_vectors_broadcast_along_the_last_axis() -> None:
    slope = constant(0.1, 0.2, 0.3)
    expression = Apply("Add", (Apply("PRelu", (Source(), slope)), constant(1)))
    result = evaluate(expression, np.array([[-1.0], [1.0]], np.float32))
    assert np.array_equal(result, 1 + np.array([[-0.1, -0.2, -0.3], [1, 1, 1]], np.float32))
    assert channels(expression) == 3
    assert channels(Apply("PRelu", (Source(), constant(0.1)))) is None


def test_undefined_points_come_out_as_ieee_has_them() -> None:
    points = np.array([-1.0, 0.0], np.float32)
    assert np.isnan(evaluate(Apply("Log", (Source(),)), points)[0])
    assert evaluate(Apply("Log", (Source(),)), points)[1] == -np.inf
    assert evaluate(Apply("Reciprocal", (Source(),)), points)[1] == np.inf


def test_errors() -> None:
    with pytest.raises(KeyError, match="Det"):
        evaluate(Apply("Det", (Source(),)), X)
    with pytest.raises(ValueError, match=r"\[2, 3\] channels"):
        channels(Apply("Add", (constant(1, 2), constant(1, 2, 3))))
