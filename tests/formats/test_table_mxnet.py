"""MXNet's thresholds as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import bounds, json_names, ranges_of, table_of

from calib8.errors import TableError
from calib8.formats import mxnet


@given(st.dictionaries(json_names, bounds, min_size=1))
def test_names_and_ranges_come_back_exactly(ranges: dict[str, tuple[float, float]]) -> None:
    text = mxnet.write(table_of(ranges))
    assert ranges_of(mxnet.read(text, "t.json").table) == ranges
    assert json.loads(text) == {name: list(pair) for name, pair in ranges.items()}


def test_the_interchange_form() -> None:
    read = mxnet.read('{"conv0_output": [-2.64, 2.64], "relu0_output": [0, 6]}', "t.json").table
    assert ranges_of(read) == {"conv0_output": (-2.64, 2.64), "relu0_output": (0.0, 6.0)}
    assert read.entries["conv0_output"].method == "MXNet"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "is no JSON object"),
        ("{}", "holds no tensor"),
        ('{"a": [0, 1], "a": [0, 2]}', "'a' comes twice"),
        ('{"a": [0]}', "tensor 'a': [0] is not a pair"),
        ('{"a": 1}', "tensor 'a': 1 is not a pair"),
        ('{"a": [0, "1"]}', "tensor 'a': [0.0, nan] is not a range"),
        ('{"a": [true, 1]}', "tensor 'a': [nan, 1.0] is not a range"),
        ('{"a": [0, NaN]}', "tensor 'a': [0.0, nan] is not a range"),
        ('{"a": [0, 1e999]}', "tensor 'a': [0.0, inf] is not a range"),
        ('{"a": [0, ' + "9" * 400 + "]}", "tensor 'a': [0.0, inf] is not a range"),
        ('{"a": [2, 1]}', "tensor 'a': [2.0, 1.0] is not a range"),
        ('{"": [0, 1]}', "has no tensor name"),
    ],
)
def test_what_is_broken_is_named(text: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        mxnet.read(text, "t.json")
    assert "t.json" in str(caught.value) and problem in str(caught.value)
