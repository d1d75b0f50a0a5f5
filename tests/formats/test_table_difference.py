"""Two tables side by side, and what conversions lose, for every pair of formats."""

from __future__ import annotations

import pytest
from made_up_tables import table_of

from calib8.formats.difference import difference, losses
from calib8.formats.table_file import TableFile, symmetric_bounds
from calib8.formats.tables import FORMATS

SYMMETRIC_ONLY = {"tensorrt", "tensorrt-ranges", "tengine"}
CODES = {"tengine-uint8", "aimet", "aimet-0.6.1"}
TENSOR_FORMATS = [name for name, form in FORMATS.items() if not form.layers]


def converted(ranges: dict[str, tuple[float, float]], name: str) -> list[str]:
    before = TableFile("calib8", table_of(ranges))
    text = FORMATS[name].write(before.table, None, "")
    return losses(before, FORMATS[name].read(text, "t").table, keeps_weights=False)


def test_tensors_come_in_the_order_of_their_ratio() -> None:
    left = table_of(
        {"a": (-1, 1), "b": (0, 2), "c": (0, 3), "d": (-1, 1), "e": (0, 0), "z": (0, 0), "l": (0, 1)}
    )
    right = table_of(
        {"a": (-1, 1), "b": (0, 1), "c": (0, 9), "d": (0, 1), "e": (0, 1), "z": (0, 0), "r": (0, 1)}
    )
    found = difference(left, right)
    assert [pair.tensor for pair in found.pairs] == ["e", "c", "b", "d", "a", "z"]
    ratios = {pair.tensor: pair.ratio for pair in found.pairs}
    assert ratios == {"e": None, "c": 3.0, "b": 0.5, "d": 1.0, "a": 1.0, "z": 1.0}
    assert {pair.tensor for pair in found.pairs if pair.differs} == {"e", "c", "b", "d"}
    assert (found.only_left, found.only_right) == (("l",), ("r",))
    assert found.differs


def test_rounding_to_float32_is_no_difference() -> None:
    left, right = table_of({"a": (-1.0, 0.1)}), table_of({"a": (-1.0, 0.1 + 1e-9)})
    assert not difference(left, right).differs
    assert difference(left, table_of({"a": (-1.0, 0.1001)})).differs
    assert difference(left, table_of({})).differs and difference(table_of({}), left).differs


@pytest.mark.parametrize("name", TENSOR_FORMATS)
def test_symmetric_ranges_lose_nothing_in_any_format(name: str) -> None:
    ranges = {f"t{i}": symmetric_bounds(s) for i, s in enumerate((3e-7, 0.1, 1.0, 1e30, 2.0**-100))}
    if name == "tengine-uint8":
        assert converted(ranges, name)  # no uint8 scale and zero point stand for [−T, T]
    else:
        assert converted(ranges, name) == []


@pytest.mark.parametrize("name", TENSOR_FORMATS)
def test_zero_points_are_lost_where_a_format_has_none(name: str) -> None:
    ranges = {"relu": (0.0, 6.0), "x": (-2.0, 1.5), "s": (-1.0, 1.0), "n": (0.0, 0.0), "tiny": (0.0, 1e-6)}
    found = converted(ranges, name)
    zeros = "that only 0 was seen in 1 range, which gets the scale 1 ('n')"
    if name in SYMMETRIC_ONLY | CODES:
        assert found.pop() == zeros
    if name in SYMMETRIC_ONLY:
        assert found == ["the zero points of 3 ranges ('relu', 'tiny', 'x')"]
    elif name in CODES:  # the zero point is an integer: the bounds move by up to half a step
        assert len(found) == 1 and found[0].startswith("the exact bounds of ") and "'x'" in found[0]
        assert "'relu'" not in found[0] and "'n'" not in found[0]
    else:
        assert found == []


def test_what_else_can_be_lost() -> None:
    before = TableFile(
        "ncnn", table_of({"a": (-1.0, 1.0), "b": (-1.0, 1.0)}), weight_scales={"w": (1.0, 2.0), "v": (1.0,)}
    )
    after = table_of({"a": (-1.001, 1.001)})
    assert losses(before, after, keeps_weights=False) == [
        "1 range ('b')",
        "the exact bounds of 1 range ('a')",
        "3 channel scales of 2 weights",
    ]
    assert losses(before, before.table, keeps_weights=True) == []


def test_many_names_are_counted() -> None:
    found = converted({f"t{i}": (0.0, 1.0) for i in range(8)}, "tensorrt")
    assert found == ["the zero points of 8 ranges ('t0', 't1', 't2', 't3', 't4' and 3 more)"]
