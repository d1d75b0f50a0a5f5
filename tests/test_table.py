"""The calibration table: ranges, its file, and every way in which that file can be broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib8.errors import OutputError, TableError
from calib8.table import CalibrationTable, Range, TableEntry

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
range_values = st.tuples(finite, finite).map(sorted).map(lambda bound: Range(*bound))


@st.composite
def entry_values(draw: st.DrawFn) -> TableEntry:
    count = draw(st.integers(0, 2**60))
    return TableEntry(
        range=draw(range_values),
        method=draw(st.sampled_from(["minmax", "percentile", "mse", "entropy"])),
        clipped=draw(st.floats(0, 1)),
        count=count,
        zeros=draw(st.integers(0, count)),
        observed=draw(range_values),
    )


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
tables = st.builds(
    CalibrationTable, st.text("0123456789abcdef", max_size=64), st.dictionaries(names, entry_values())
)


def example() -> CalibrationTable:
    entry = TableEntry(Range(-1.0, 2.5), "mse", 0.01, 100, 3, Range(-4.0, 3.0))
    return CalibrationTable("abc", {"conv1": entry, "data": entry})


@given(tables)
def test_the_round_trip_is_exact_and_byte_identical(table: CalibrationTable) -> None:
    text = table.to_json()
    again = CalibrationTable.from_json(text)
    assert again == table
    assert again.to_json() == text


def test_the_order_of_the_entries_does_not_matter() -> None:
    table = example()
    turned = CalibrationTable("abc", dict(reversed(list(table.entries.items()))))
    assert turned.to_json() == table.to_json()


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "net.calib.json"
    example().save(path)
    assert CalibrationTable.load(path) == example()
    assert path.read_text(encoding="utf-8") == example().to_json()


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        example().save(tmp_path / "missing" / "table.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"{}", b'{"format": "other"}', b"[" * 50_000]
)
def test_a_file_that_is_no_table_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"table\.json"):
        CalibrationTable.load(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "none.json", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(TableError, match=problem):
            CalibrationTable.load(path)


def test_the_sizes_of_the_run_are_stored_and_version_1_has_none() -> None:
    table = replace(example(), inputs={"x": (1, 3, 32, 24), "a": (1,)})
    assert CalibrationTable.from_json(table.to_json()) == table
    assert json.loads(table.to_json())["version"] == 2
    document = json.loads(table.to_json())
    document["version"] = 1
    del document["inputs"]
    assert CalibrationTable.from_json(json.dumps(document)) == example()
    for broken in ([1], {"x": 3}, {"x": [1.5]}, {"x": ["a"]}, None):
        with pytest.raises(TableError, match="inputs"):
            CalibrationTable.from_json(json.dumps({**document, "inputs": broken}))


def test_a_newer_version_is_refused() -> None:
    document = json.loads(example().to_json())
    document["version"] = 3
    with pytest.raises(TableError, match="version 3"):
        CalibrationTable.from_json(json.dumps(document))


@pytest.mark.parametrize("tensors", [None, [], "x"])
def test_a_table_without_tensors_is_refused(tensors: object) -> None:
    document = json.loads(example().to_json())
    document["tensors"] = tensors
    with pytest.raises(TableError, match="tensors"):
        CalibrationTable.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("range", None),
        ("range", {"min": 0.0}),
        ("range", {"min": 1.0, "max": 0.0}),
        ("range", {"min": float("nan"), "max": 0.0}),
        ("range", {"min": 0.0, "max": float("inf")}),
        ("range", {"min": 0.0, "max": 1e300}),
        ("range", {"min": 0.0, "max": 10**400}),
        ("range", {"min": "0", "max": "1"}),
        ("range", {"min": 0.0, "max": 1.0, "more": 2}),
        ("observed", {"min": float("nan"), "max": 0.0}),
        ("clipped", float("nan")),
        ("clipped", 1.5),
        ("clipped", "much"),
        ("count", float("inf")),
        ("count", -1),
        ("count", None),
        ("zeros", 101),
    ],
)
def test_a_broken_entry_is_named(field: str, value: object) -> None:
    document = json.loads(example().to_json())
    document["tensors"]["conv1"][field] = value
    with pytest.raises(TableError, match="'conv1'") as caught:
        CalibrationTable.from_json(json.dumps(document), "my.json")
    assert "my.json" in str(caught.value)


@pytest.mark.parametrize("entry", [-1, None, [], {"range": None}, {"range": {}, "observed": 3}])
def test_an_entry_of_another_kind_is_told_in_words(entry: object) -> None:
    document = json.loads(example().to_json())
    document["tensors"]["conv1"] = entry
    with pytest.raises(TableError, match=r"'conv1': broken entry .it needs a 'range' and an 'observed'"):
        CalibrationTable.from_json(json.dumps(document), "my.json")


@pytest.mark.parametrize("field", ["range", "method", "clipped", "count", "zeros", "observed"])
def test_an_entry_without_a_field_is_named(field: str) -> None:
    document = json.loads(example().to_json())
    del document["tensors"]["data"][field]
    with pytest.raises(TableError, match=f"'data'.*{field}"):
        CalibrationTable.from_json(json.dumps(document))


def test_an_unknown_tensor_is_named() -> None:
    assert example().range_of("conv1") == Range(-1.0, 2.5)
    with pytest.raises(TableError, match="conv9"):
        example().range_of("conv9")


@given(range_values, range_values)
def test_hull_and_widening(left: Range, right: Range) -> None:
    hull = left.hull(right)
    assert hull == right.hull(left)
    assert {hull.min, hull.max} <= {left.min, left.max, right.min, right.max}
    assert hull.min <= min(left.min, right.min) and hull.max >= max(left.max, right.max)
    widened = left.widened_to_zero()
    assert widened.min <= 0.0 <= widened.max and widened.magnitude == left.magnitude


@pytest.mark.parametrize("bound", [(1.0, 0.0), (float("nan"), 0.0), (0.0, float("inf")), (0.0, 1e39)])
def test_what_is_no_range_is_refused(bound: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        Range(*bound)
