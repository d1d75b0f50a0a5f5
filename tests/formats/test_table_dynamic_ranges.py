"""TensorRT's dynamic-range file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import line_names, ranges_of, scales, symmetric_table, table_of

from calib8.errors import TableError
from calib8.formats import dynamic_ranges


@given(st.dictionaries(line_names, scales, min_size=1))
def test_names_and_ranges_come_back_exactly(scale_of: dict[str, float]) -> None:
    table = symmetric_table(scale_of)
    assert ranges_of(dynamic_ranges.read(dynamic_ranges.write(table), "r.txt").table) == ranges_of(table)


def test_a_line_is_a_name_a_colon_and_the_largest_magnitude() -> None:
    assert dynamic_ranges.write(table_of({"b": (-2.5, 1.0), "a:0": (0.0, 6.0)})) == "a:0:6.0\nb:2.5\n"
    read = dynamic_ranges.read("data: 2.6408\n\nonnx::Conv_3:1e-3", "r.txt").table
    assert ranges_of(read) == {"data": (-2.6408, 2.6408), "onnx::Conv_3": (-1e-3, 1e-3)}


def test_a_range_without_values_is_written_as_scale_1() -> None:
    assert dynamic_ranges.write(table_of({"a": (0.0, 0.0)})) == "a:127.0\n"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "r.txt", "holds no tensor"),
        ("data", "line 1", "is not a name"),
        ("data:", "line 1", "is not a name"),
        ("a:1\ndata:x", "line 2", "is not a name"),
        ("a:1\n:2", "line 2", "no tensor name"),
        ("a:1\na:2", "line 2, tensor 'a'", "comes twice"),
        ("a:0", "tensor 'a'", "the range 0 is not positive"),
        ("a:-1", "tensor 'a'", "the range -1 is not positive"),
        ("a:nan", "tensor 'a'", "the range nan is not positive"),
        ("a:inf", "tensor 'a'", "is not a range"),
        ("a:1e39", "tensor 'a'", "is not a range"),
    ],
)
def test_what_is_broken_is_named(text: str, place: str, problem: str) -> None:
    with pytest.raises(TableError) as caught:
        dynamic_ranges.read(text, "r.txt")
    assert place in str(caught.value) and problem in str(caught.value)


def test_a_name_with_a_line_break_is_not_written() -> None:
    with pytest.raises(TableError, match="no line of a dynamic-range file"):
        dynamic_ranges.write(table_of({"a\nb": (-1.0, 1.0)}))
