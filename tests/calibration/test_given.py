"""Ranges and scales that the user gives: forms, patterns, the exact scale that comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.calibration.given import Given, given_ranges, other_scales, parse_given
from calib8.errors import UsageError
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QParams, QuantSpec, activation_qparams
from calib8.table import CalibrationTable, Range, TableEntry

NAMES = ("input", "conv1/relu", "conv2/relu", "Conv2/sum", "x[0]", "a=b")


@pytest.mark.parametrize(
    ("text", "pattern", "value"),
    [
        ("conv*=-3,3", "conv*", (-3.0, 3.0)),
        ("conv*=3", "conv*", (-3.0, 3.0)),
        ("a=b=-1e-3, 2.5", "a=b", (-0.001, 2.5)),
        ("x=scale:0.02", "x", QParams(0.02, 0)),
        ("x=scale:0.02,128", "x", QParams(0.02, 128)),
        ("x=scale:1e-9,-128", "x", QParams(1e-9, -128)),
    ],
)
def test_the_forms(text: str, pattern: str, value: Given) -> None:
    assert parse_given([text]) == {pattern: value}


@pytest.mark.parametrize(
    "text", ["conv", "=3", "x=", "x=1,2,3", "x=one", "x=1;2", "x=scale:", "x=scale:1,2.5", "x=scale:1,2,3"]
)
def test_what_is_none_of_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"ranges\[.*NAME=LOW,HIGH"):
        parse_given([text])


def chosen(texts: list[str], spec: QuantSpec = UINT8) -> dict[str, Range]:
    return given_ranges(parse_given(texts), NAMES, spec)[0]


def test_patterns_tell_upper_from_lower_case_and_own_names_match() -> None:
    assert set(chosen(["conv*=1"])) == {"conv1/relu", "conv2/relu"}
    assert set(chosen(["?onv2/*=1"])) == {"conv2/relu", "Conv2/sum"}
    assert set(chosen(["x[0]=1"])) == {"x[0]"}
    assert set(chosen(["a=b=1"])) == {"a=b"}
    assert set(chosen(["*=1"])) == set(NAMES)


def test_of_several_patterns_the_last_one_counts() -> None:
    assert chosen(["*=1", "conv1*=2"])["conv1/relu"] == Range(-2.0, 2.0)
    assert chosen(["conv1*=2", "*=1"])["conv1/relu"] == Range(-1.0, 1.0)
    assert chosen(["conv1*=2", "*=1", "conv1*=3"])["conv1/relu"] == Range(-3.0, 3.0)


def test_a_pattern_that_matches_nothing_lists_similar_names() -> None:
    with pytest.raises(UsageError, match=r"ranges\['conv3/relu'\]: matches none of the 6 .* conv[12]/relu"):
        chosen(["conv3/relu=1"])


@pytest.mark.parametrize("value", ["3,-3", "2,2", "0", "-1", "nan,1", "0,inf", "-1e39,1", "0,1e-40", "nan"])
def test_what_is_no_range(value: str) -> None:
    with pytest.raises(UsageError, match=r"ranges\['input'\]: \["):
        chosen([f"input={value}"])


@pytest.mark.parametrize("value", [3.0, "3", (1.0,), (1, 2, 3), None])
def test_what_is_no_pair_of_numbers_in_python(value: Any) -> None:
    with pytest.raises(UsageError, match=r"ranges\['input'\]: .* is not a range"):
        given_ranges({"input": value}, NAMES, UINT8)


@pytest.mark.parametrize("value", ["0", "-0.1", "nan", "inf", "1e-40", "1e38"])
def test_what_is_no_scale(value: str) -> None:
    with pytest.raises(UsageError, match="is not a scale"):
        chosen([f"input=scale:{value}"])


@pytest.mark.parametrize(("spec", "point"), [(UINT8, -1), (UINT8, 256), (INT8, 128), (INT8_SYMMETRIC, 1)])
def test_zero_points_that_the_code_does_not_have(spec: QuantSpec, point: int) -> None:
    with pytest.raises(UsageError, match=f"zero point {point} does not fit"):
        chosen([f"input=scale:1,{point}"], spec)


def test_a_range_without_zero_is_widened_with_a_note() -> None:
    found, notes = given_ranges({"input": (1.0, 2.0), "conv1*": Range(-2.0, 1.0)}, NAMES, UINT8)
    assert found == {"input": Range(0.0, 2.0), "conv1/relu": Range(-2.0, 1.0)}
    assert notes == ("the range given for 'input' was widened to hold 0: [1, 2] → [0, 2]",)


@given(st.floats(1e-35, 1e35), st.sampled_from([UINT8, INT8, INT8_SYMMETRIC]), st.data())
def test_the_quantizer_gets_exactly_the_given_scale(
    scale: float, spec: QuantSpec, data: st.DataObject
) -> None:
    point = 0 if spec.symmetric else data.draw(st.integers(spec.qmin, spec.qmax))
    found, notes = given_ranges({"input": QParams(scale, point)}, NAMES, spec)
    assert activation_qparams(found["input"].min, found["input"].max, spec) == QParams(
        float(np.float32(scale)), point
    )
    assert notes == ()


@pytest.mark.parametrize("value", [3, "3", (1.0,), (1.0, "x"), (0.0, 1.0, 2.0), None])
def test_python_values_that_are_no_range(value: object) -> None:
    with pytest.raises(UsageError, match="is not a range"):
        given_ranges({"input": value}, NAMES, UINT8)  # type: ignore[dict-item]


def test_scales_that_are_not_the_tables_are_noted() -> None:
    ranges = {name: Range(-127 * step, 127 * step) for name, step in (("a", 0.1), ("b", 0.2))}
    entries = {name: TableEntry(bounds, "minmax", 0.0, 1, 0, bounds) for name, bounds in ranges.items()}
    table = CalibrationTable("", entries)
    near, far = QParams(0.10005, 0), QParams(0.3, 0)
    assert other_scales(table, {"a": near, "c": far}, INT8_SYMMETRIC) == ()
    (note,) = other_scales(table, {"a": near, "b": far}, INT8_SYMMETRIC)
    assert note.startswith("scales that are not the table's: 'b' 0.3 (table: 0.2); ")
