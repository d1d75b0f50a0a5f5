"""The arena: tensors that live at the same time never share a byte."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from calib8.engine.arena import ALIGNMENT, GUARD, Life, place_tensors

LIVES = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(-1, 20), st.integers(0, 6)).map(
        lambda parts: Life(parts[0], parts[1], parts[1] + parts[2])
    ),
    max_size=30,
)


@given(LIVES)
@settings(derandomize=True, deadline=None)
def test_tensors_that_meet_lie_apart(lives: list[Life]) -> None:
    table = dict(enumerate(lives))
    offsets, total = place_tensors(table)
    assert all(offset % ALIGNMENT == 0 and offset >= 0 for offset in offsets.values())
    assert all(offsets[n] + life.size + GUARD <= total for n, life in table.items())
    for a, first in table.items():
        for b, second in table.items():
            if a < b and first.first <= second.last and second.first <= first.last:
                low, high = sorted((a, b), key=lambda n: offsets[n])
                assert offsets[low] + table[low].size + GUARD <= offsets[high]


VECTOR = 64
"""Bytes of the widest vector that a kernel loads (AVX-512); it may begin at the last byte of a tensor."""


@given(LIVES)
@example([Life(4, 0, 0), Life(3, 0, 2), Life(2, 1, 2), Life(2, 1, 2)])  # the last just fits a gap
@settings(derandomize=True, deadline=None)
def test_a_vector_may_be_read_behind_every_tensor(lives: list[Life]) -> None:
    """It meets neither what others write at that time nor the end of the arena."""
    whole = {number: life._replace(size=64 * life.size) for number, life in enumerate(lives)}
    offsets, total = place_tensors(whole)
    for a, first in whole.items():
        end = offsets[a] + first.size
        assert end + VECTOR <= total
        for b, second in whole.items():
            apart = offsets[b] >= end + VECTOR or offsets[b] < end
            assert a == b or apart or first.last < second.first or second.last < first.first


def test_a_chain_needs_room_for_two() -> None:
    lives = {n: Life(1000, n, n + 1) for n in range(50)}
    assert place_tensors(lives)[1] < 4 * 1200


def test_nothing_needs_only_the_guard() -> None:
    assert place_tensors({}) == ({}, GUARD)
