"""Rows, chains and places of a drawing, against plain definitions on random graphs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from calib8.run_report.layout import BEND, WIDTH, apart, chains, laid_out


def random_graph(seed: int, count: int) -> list[tuple[int, ...]]:
    """Mostly chains, with some skips, joins and new beginnings."""
    rng = np.random.default_rng(seed)
    before: list[tuple[int, ...]] = [()]
    for node in range(1, count):
        kind = rng.random()
        others = {int(other) for other in rng.integers(max(0, node - 12), node, 2)}
        before.append(() if kind < 0.03 else tuple(sorted(others)) if kind < 0.3 else (node - 1,))
    return before


def longest_way(before: list[tuple[int, ...]]) -> list[int]:
    rows: list[int] = []
    for each in before:
        rows.append(max((rows[node] + 1 for node in each), default=0))
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_longest_ways_and_nothing_overlaps(seed: int) -> None:
    before = random_graph(seed, 60)
    found = laid_out(before)
    assert [item.nodes for item in found.items] == [(node,) for node in range(60)]
    assert [item.row for item in found.items] == longest_way(before)
    assert found.rows == 1 + max(longest_way(before))
    taken: dict[int, list[tuple[float, float]]] = {row: [] for row in range(found.rows)}
    for item in found.items:
        taken[item.row].append((item.x, WIDTH))
    for edge in found.edges:
        start, end = found.items[edge.start], found.items[edge.end]
        assert len(edge.bends) == end.row - start.row - 1
        for row, x in enumerate(edge.bends, start.row + 1):
            taken[row].append((x, BEND))
    for places in taken.values():
        for (left, one), (right, other) in pairwise(sorted(places)):
            assert right - left >= (one + other) / 2 - 2e-3
        assert min(x - width / 2 for x, width in places) >= -1e-3
        assert max(x + width / 2 for x, width in places) <= found.width + 1e-3
    assert {(edge.start, edge.end) for edge in found.edges} == {
        (b, n) for n, e in enumerate(before) for b in e
    }


@pytest.mark.parametrize("seed", range(20))
def test_chains_part_the_nodes_and_have_one_way_in_and_out(seed: int) -> None:
    before = random_graph(seed, 80)
    groups = chains(before)
    assert sorted(node for group in groups for node in group) == list(range(80))
    readers = [[n for n, each in enumerate(before) if node in each] for node in range(80)]
    for group in groups:
        for one, other in pairwise(group):
            assert before[other] == (one,) and readers[one] == [other]
        last, first = group[-1], group[0]
        if len(readers[last]) == 1:  # it could not be longer
            assert before[readers[last][0]] != (last,)
        if len(before[first]) == 1:
            assert len(readers[before[first][0]]) > 1


def test_a_large_network_is_drawn_in_blocks_and_a_small_one_is_not() -> None:
    line = [() if node == 0 else (node - 1,) for node in range(200)]
    found = laid_out(line)
    assert [item.nodes for item in found.items] == [tuple(range(200))]
    assert (found.edges, found.rows, found.width) == ((), 1, 1.0)
    assert len(laid_out(line[:150]).items) == 150
    assert laid_out([]).items == ()


def test_edges_of_blocks_stand_between_their_items() -> None:
    before = random_graph(5, 300)
    found = laid_out(before)
    of = {node: place for place, item in enumerate(found.items) for node in item.nodes}
    wanted = {(of[b], of[n]) for n, each in enumerate(before) for b in each if of[b] != of[n]}
    assert {(edge.start, edge.end) for edge in found.edges} == wanted
    for edge in found.edges:
        assert found.items[edge.start].row < found.items[edge.end].row


def test_a_straight_line_is_straight_and_a_layout_is_the_same_again() -> None:
    found = laid_out([() if node == 0 else (node - 1,) for node in range(9)])
    assert {item.x for item in found.items} == {0.5}
    assert laid_out(random_graph(1, 70)) == laid_out(random_graph(1, 70))


@pytest.mark.parametrize("seed", range(30))
def test_places_are_the_nearest_that_do_not_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))
    wanted, widths = rng.normal(0, 1.5, count).tolist(), rng.choice([1.0, 0.3], count).tolist()
    found = apart(wanted, widths)
    gaps = [(a + b) / 2 for a, b in pairwise(widths)]
    assert all(right - left >= gap - 1e-9 for (left, right), gap in zip(pairwise(found), gaps, strict=True))
    best = sum((x - w) ** 2 for x, w in zip(found, wanted, strict=True))
    for _ in range(300):  # no allowed place near it is better
        other = np.array(found) + rng.normal(0, 0.2, count)
        if all(right - left >= gap for (left, right), gap in zip(pairwise(other), gaps, strict=True)):
            assert best <= float(np.sum((other - np.array(wanted)) ** 2)) + 1e-9
