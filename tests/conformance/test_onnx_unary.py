"""Profile ``onnx`` against ONNX Runtime's kernels: tables of one tensor, code for code.

Where a kernel is not reproduced bit for bit, the share of codes that differ is bounded, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from fused_cases import CASES, Array, Case, cases, run_onnx, scalar, slot

from calib8.program.expressions import Apply, Attributes, Constant, Expression, Source
from calib8.program.rounding.tables import table

EXACT: dict[str, tuple[str, Attributes, dict[str, Array]]] = {
    "Requantize": ("Identity", {}, {}),
    "Relu": ("Relu", {}, {}),
    "Relu6": ("Clip", {}, {"low": scalar(0), "high": scalar(6)}),
    "Clip": ("Clip", {}, {"low": scalar(-0.3), "high": scalar(1.7)}),
    "LeakyRelu": ("LeakyRelu", {"alpha": 0.1}, {}),
    "PRelu": ("PRelu", {}, {"slope": scalar(-0.3)}),
    "HardSigmoid": ("HardSigmoid", {}, {}),
    "HardSwish": ("HardSwish", {}, {}),
    "Softsign": ("Softsign", {}, {}),
    "Abs": ("Abs", {}, {}),
    "Neg": ("Neg", {}, {}),
    "Sqrt": ("Sqrt", {}, {}),
    "Floor": ("Floor", {}, {}),
    "Ceil": ("Ceil", {}, {}),
    "Round": ("Round", {}, {}),
    "Reciprocal": ("Reciprocal", {}, {}),
    "ThresholdedRelu": ("ThresholdedRelu", {"alpha": 0.4}, {}),
    "Add": ("Add", {}, {"constant": scalar(0.7)}),
    "Sub": ("Sub", {}, {"constant": scalar(0.7)}),
    "Mul": ("Mul", {}, {"constant": scalar(1.3)}),
    "Div": ("Div", {}, {"constant": scalar(1.3)}),
    "Max": ("Max", {}, {"constant": scalar(0.2)}),
}
"""Functions of IEEE operations alone; LeakyRelu becomes QLinearLeakyRelu."""

APPROXIMATE: dict[str, tuple[str, Attributes, tuple[float, float] | None]] = {
    "Sigmoid": ("Sigmoid", {}, (1 / 256, 1 / 250)),
    "Tanh": ("Tanh", {}, (1 / 128, 1 / 120)),
    "Erf": ("Erf", {}, (1 / 128, 1 / 120)),
    "Exp": ("Exp", {}, None),
    "Log": ("Log", {}, None),
    "Elu": ("Elu", {"alpha": 0.9}, None),
    "Selu": ("Selu", {}, None),
    "Celu": ("Celu", {"alpha": 0.8}, None),
    "Softplus": ("Softplus", {}, None),
    "Gelu": ("Gelu", {}, None),
    "GeluTanh": ("Gelu", {"approximate": "tanh"}, None),
    "Mish": ("Mish", {}, None),
    "Sin": ("Sin", {}, (1 / 128, 1 / 120)),
    "Cos": ("Cos", {}, (1 / 128, 1 / 120)),
}
"""Functions that ONNX Runtime evaluates by polynomials, a few units in the last place off the truth."""

APPROXIMATE_SHARE = 1e-4
"""Of 5 million codes per function 2 in a million differ, each by one, where a value is next to a tie."""


def all_codes(case: Case) -> Array:
    info = np.iinfo(case.dtype)
    return np.arange(info.min, info.max + 1).astype(case.dtype)


def tabulated(case: Case, op: str, attributes: Attributes, constants: Mapping[str, Array]) -> Array:
    args: tuple[Expression, ...] = (Source(), *(Constant(array) for array in constants.values()))
    expression = Source() if op == "Identity" else Apply(op, args, attributes)
    return np.asarray(
        table("onnx", expression, slot(case, "x", case.x, [256]), slot(case, "y", case.y, [256]))
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", EXACT)
def test_tables(name: str) -> None:
    op, attributes, constants = EXACT[name]
    for case in cases():
        expected = run_onnx(case, op, all_codes(case), attributes, constants)
        assert np.array_equal(tabulated(case, op, attributes, constants), expected), case


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_tables_of_transcendental_functions(name: str) -> None:
    op, attributes, output = APPROXIMATE[name]
    wrong = 0
    for case in cases(output=output):
        expected = run_onnx(case, op, all_codes(case), attributes).astype(int)
        difference = np.abs(tabulated(case, op, attributes, {}).astype(int) - expected)
        assert difference.max() <= 1
        wrong += np.count_nonzero(difference)
    assert wrong <= APPROXIMATE_SHARE * CASES * 256


def test_slopes_per_channel() -> None:
    for case in cases():
        slopes = case.rng.normal(size=5).astype(np.float32)
        data = case.codes(2, 5, 6, 7)
        expected = run_onnx(case, "PRelu", data, {}, {"slope": slopes.reshape(5, 1, 1)})
        expression = Apply("PRelu", (Source(), Constant(slopes)))
        x, y = slot(case, "x", case.x, data.shape), slot(case, "y", case.y, data.shape)
        rows = table("onnx", expression, x, y)
        index = data.astype(int) - np.iinfo(case.dtype).min
        assert np.array_equal(rows[np.arange(5)[:, None, None], index], expected)


def test_concat_requantizes_as_a_table() -> None:
    """QLinearConcat reads every input through the table of its change of scale."""
    for case in cases():
        data = case.codes(4, 16)
        expected = run_onnx(case, "Concat", data, {"axis": 0}, {})
        index = data.astype(int) - np.iinfo(case.dtype).min
        assert np.array_equal(tabulated(case, "Identity", {}, {})[index], expected)
