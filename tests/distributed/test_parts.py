"""Parts, what they merge to, and the rows in which they travel."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calib8
from calib8.calibration.origin import Origin
from calib8.data.samples import Skipped
from calib8.distributed.counting import Counting
from calib8.distributed.jobs import Joined
from calib8.distributed.part import MOST_NAMED, Part, merged
from calib8.distributed.workers import CONTENT, KEYS, Joiner, as_batch, key_of, rows_of
from calib8.errors import CalibrationError, DataError, TableError
from small_nets import squeeze_excite


def arrays(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1 + seed, (1, 4, 8, 8)).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="module")
def whole() -> calib8.Statistics:
    """Statistics of nine samples, in one run."""
    return calib8.collect_statistics(squeeze_excite(), arrays(9, 1)).statistics


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    """The same samples in three parts, and one that had none."""
    rows, found = arrays(9, 1), list[Part]()
    with calib8.Gatherer(squeeze_excite()) as gatherer:
        for some in (rows[:2], rows[2:5], rows[5:]):
            gatherer.add(some)
            found.append(Part.of(len(some), [], gatherer.take()))
    return [*found, Part.of(0, [Skipped("bad", "why")], None)]


def test_parts_merge_in_any_order_and_grouping(parts: list[Part], whole: calib8.Statistics) -> None:
    made = {merged(list(order)).to_bytes() for order in itertools.permutations(parts)}
    made.add(merged([merged(parts[:2]), merged(parts[2:])]).to_bytes())
    (content,) = made
    found = Part.from_bytes(content, "part")
    assert (found.samples, found.bad, found.skipped) == (9, 1, (Skipped("bad", "why"),))
    assert found.statistics is not None and found.statistics.to_bytes() == whole.to_bytes()


def test_nothing_is_a_part(parts: list[Part]) -> None:
    assert merged([]) == Part()
    assert Part.from_bytes(parts[3].to_bytes(), "part") == parts[3]
    assert Part().merge(parts[0]).to_bytes() == parts[0].to_bytes()


def test_names_of_bad_pictures_end_somewhere_their_number_does_not() -> None:
    many = [Skipped(f"{number:05}.png", "no picture") for number in range(MOST_NAMED + 500)]
    left, right = Part.of(0, many[::2], None), Part.of(0, many[1::2], None)
    both = left.merge(right)
    assert both.bad == MOST_NAMED + 500 and both.skipped == tuple(many[:MOST_NAMED])
    assert right.merge(left) == both


@pytest.mark.parametrize("cut", [0, 3, 40, -30])
def test_what_is_no_part_is_told(parts: list[Part], cut: int) -> None:
    with pytest.raises(TableError, match=r"^here: is not a part of a run .* is done again\.$"):
        Part.from_bytes(parts[0].to_bytes()[:cut], "here")


def test_rows_merge_each_key_once(parts: list[Part], whole: calib8.Statistics) -> None:
    job = Counting(None, mixed=False, once=True)
    rows = [(name, part.to_bytes()) for name, part in zip("abcd", parts, strict=True)]
    first = Joiner(job)(
        {KEYS: np.array(["a", "b"], object), CONTENT: np.array([r[1] for r in rows[:2]], object)}
    )
    assert list(first[KEYS]) == ["a b"]
    joined = Joined(job, [(first[KEYS][0], first[CONTENT][0]), rows[1], rows[2], rows[0], rows[3]])
    keys, found = joined.keys, joined.total
    assert keys == ["a", "b", "c", "d"]
    assert found.statistics is not None and found.statistics.to_bytes() == whole.to_bytes()


def test_a_row_that_shares_a_key_is_left_to_be_done_again(parts: list[Part]) -> None:
    job = Counting(None, mixed=False, once=True)
    both = parts[1].merge(parts[2]).to_bytes()
    joined = Joined(job, [("b", parts[1].to_bytes()), ("b c", both), ("a", parts[0].to_bytes())])
    keys, found = joined.keys, joined.total
    assert keys == ["b", "a"] and found.samples == 5


def test_blocks_of_the_data_may_be_equal(parts: list[Part]) -> None:
    job = Counting(None, mixed=False, once=False)
    joined = Joined(job, [("a", parts[0].to_bytes())] * 2)
    keys, found = joined.keys, joined.total
    assert keys == ["a", "a"] and found.samples == 4


def test_parts_of_two_kinds_of_machines_need_to_be_wanted(parts: list[Part]) -> None:
    assert parts[1].statistics is not None
    other = replace(parts[1], statistics=replace(parts[1].statistics, origins=(Origin("x", "1"),)))
    rows = [("a", parts[0].to_bytes()), ("b", other.to_bytes())]
    with pytest.raises(CalibrationError, match=r"^workers: .* last bits\. .*node_labels; mixed=True takes"):
        Joined(Counting(None, mixed=False, once=True), rows)
    found = Joined(Counting(None, mixed=True, once=True), rows).total
    assert found.statistics is not None and len(found.statistics.origins) == 2


def test_the_key_of_paths_is_that_of_what_lies_there(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    keys = []
    for size in (1, 1, 2):
        if len(keys) != 1:
            file.write_bytes(b"x" * size)
        keys.append(key_of([str(file), str(tmp_path / "none.png")]))
    assert keys[0] == keys[1] != keys[2]
    with pytest.raises(DataError, match="has samples that hold a generator"):
        key_of([{"a": (one for one in "ab")}])


def test_the_key_of_a_block_is_that_of_its_samples_in_any_order() -> None:
    pictures = [b"\xff\xd8one", b"\xff\xd8two", b"\xff\xd8three"]
    assert key_of(pictures) == key_of(pictures[::-1]) != key_of(pictures[:2])
    assert key_of([{"x": np.zeros(3, np.float32)}]) != key_of([{"x": np.zeros(3, np.float64)}])
    assert (
        key_of([{"x": b"1", "y": b"2"}])
        == key_of([{"y": b"2", "x": b"1"}])
        != key_of([{"x": b"2", "y": b"1"}])
    )
    assert key_of([np.zeros((2, 3))]) != key_of([np.zeros((3, 2))])
    assert len(key_of([None, "text", 3])) == 64


def test_columns_of_a_block() -> None:
    batch = {"jpg": np.array([b"a", b"b"], object), "cls": np.array([3, 4])}
    assert rows_of(batch, "jpg") == [b"a", b"b"]
    assert rows_of(batch, None) == [{"jpg": b"a", "cls": 3}, {"jpg": b"b", "cls": 4}]
    with pytest.raises(DataError, match=r"has no column 'png', it has jpg, cls"):
        rows_of(batch, "png")


def test_a_row_keeps_bytes_as_they_are() -> None:
    assert as_batch(("a b", b"\x00\x01\x00"))[CONTENT][0] == b"\x00\x01\x00"
