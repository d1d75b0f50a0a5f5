"""Where the nodes of a network stand: rows from top to bottom, so that every edge points down.

    row(n)     0 without a node before it, else 1 + max over the nodes before it
    edge       from row a to row b: a straight way with a bend in each row between
    order      of a row: by the mean place of the neighbours, in turns downwards and upwards
    place      min Σ (x_i − w_i)²  with  x_(i+1) − x_i ≥ half the widths of both;  w: mean of the neighbours

In a large network a chain, nodes of which each has one reader, stands as one block until it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

FEW: Final = 150
"""Up to so many nodes none is hidden in a block."""

TURNS: Final = 4
"""Turns in which rows are ordered, and placed."""

WIDTH: Final = 1.0
"""Of a node with the gap beside it."""

BEND: Final = 0.3
"""Of the room that an edge takes in a row which it only passes."""


@dataclass(frozen=True)
class Placed:
    """A node, or a block of a chain.

    Attributes:
        nodes: places of its nodes, first to last.
        row: from the top, 0 on.
        x: of its middle, in widths of nodes, from 0 on.
    """

    nodes: tuple[int, ...]
    row: int
    x: float


@dataclass(frozen=True)
class Edge:
    """From one item to one in a later row; ``bends`` are its places in the rows between, top to bottom."""

    start: int
    end: int
    bends: tuple[float, ...]


@dataclass(frozen=True)
class Layout:
    """A drawing of a network.

    Attributes:
        items: nodes and blocks, in the order of their first nodes.
        edges: between items.
        width: of all, in widths of nodes.
        rows: how many there are.
    """

    items: tuple[Placed, ...]
    edges: tuple[Edge, ...]
    width: float
    rows: int


def laid_out(before: Sequence[Sequence[int]], *, few: int = FEW) -> Layout:
    """The layout of a network.

    Args:
        before: for every node the places of those that it reads from, all before its own.
        few: up to so many nodes each is an item of its own.
    """
    groups = chains(before) if len(before) > few else [(node,) for node in range(len(before))]
    of = {node: item for item, group in enumerate(groups) for node in group}
    edges = sorted({(of[b], of[n]) for n, each in enumerate(before) for b in each if of[b] != of[n]})
    rows = _rows(len(groups), edges)
    grid = _Grid.of(rows, edges)
    for turn in range(2 * TURNS):
        grid.order(downwards=turn % 2 == 0)
    xs = grid.places()
    items = tuple(
        Placed(group, row, x) for group, row, x in zip(groups, rows, xs[: len(groups)], strict=True)
    )
    drawn = tuple(
        Edge(a, b, tuple(xs[bend] for bend in bends)) for (a, b), bends in zip(edges, grid.bends, strict=True)
    )
    width = max((item.x for item in items), default=0.0) + WIDTH / 2
    return Layout(items, drawn, max([width, *(x + BEND / 2 for x in xs)]), max(rows, default=-1) + 1)


def chains(before: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Nodes in chains, as long as can be: each but the last has one reader, which reads nothing else.

    Sorted by their first nodes. No edge leads out of a chain but from its last node, and none into it but to
    its first, so that the chains as a whole have no circle.
    """
    readers = [0] * len(before)
    for each in before:
        for node in each:
            readers[node] += 1
    groups: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for node, each in enumerate(before):
        alone = len(each) == 1 and readers[each[0]] == 1
        group = of[each[0]] if alone else []
        if not alone:
            groups.append(group)
        group.append(node)
        of[node] = group
    return [tuple(group) for group in groups]


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way to each item; edges may come in any order."""
    into: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        into[b].append(a)
        behind[a].append(b)
    waiting = [len(each) for each in into]
    rows = [0] * count
    free = [item for item in range(count) if not waiting[item]]
    while free:
        item = free.pop()
        for other in behind[item]:
            rows[other] = max(rows[other], rows[item] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                free.append(other)
    return rows


@dataclass
class _Grid:
    """Items, and behind them the bends of edges, in rows.

    Attributes:
        rows: of each row its members in their order.
        above, below: neighbours of each member.
        widths: of each member.
        bends: of each edge its members.
    """

    rows: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    widths: list[float]
    bends: list[list[int]]

    @classmethod
    def of(cls, rows: Sequence[int], edges: Sequence[tuple[int, int]]) -> _Grid:
        grid = cls([[] for _ in range(max(rows, default=-1) + 1)], [], [], [], [])
        for row in rows:
            grid._member(row, WIDTH)
        for a, b in edges:
            bends = [grid._member(row, BEND) for row in range(rows[a] + 1, rows[b])]
            way = [a, *bends, b]
            for upper, lower in pairwise(way):
                grid.below[upper].append(lower)
                grid.above[lower].append(upper)
            grid.bends.append(bends)
        return grid

    def _member(self, row: int, width: float) -> int:
        member = len(self.widths)
        self.widths.append(width)
        self.above.append([])
        self.below.append([])
        self.rows[row].append(member)
        return member

    def order(self, *, downwards: bool) -> None:
        """Orders every row by the mean place of the neighbours in the row before it."""
        neighbours = self.above if downwards else self.below
        places: dict[int, float] = {}
        for row in self.rows if downwards else reversed(self.rows):
            row[:] = _sorted(row, neighbours, places)
            places |= {member: place - len(row) / 2 for place, member in enumerate(row)}

    def places(self) -> list[float]:
        """The middle of every member, the leftmost edge at 0."""
        x = [0.0] * len(self.widths)
        for row in self.rows:
            for place, member in enumerate(row):
                x[member] = place - len(row) / 2
        for turn in range(2 * TURNS):
            neighbours = self.above if turn % 2 == 0 else self.below
            for row in self.rows if turn % 2 == 0 else reversed(self.rows):
                wanted = [_mean_of(neighbours[member], x, x[member]) for member in row]
                for member, value in zip(row, apart(wanted, [self.widths[m] for m in row]), strict=True):
                    x[member] = value
        left = min((value - self.widths[member] / 2 for member, value in enumerate(x)), default=0.0)
        return [round(value - left, 3) for value in x]


def _sorted(row: Sequence[int], neighbours: Sequence[Sequence[int]], places: dict[int, float]) -> list[int]:
    """A row by the mean place of its neighbours; equals, and those without any, stay where they were."""
    old = {member: place - len(row) / 2 for place, member in enumerate(row)}
    return sorted(row, key=lambda member: (_mean(neighbours[member], places, old[member]), old[member]))


def _mean(neighbours: Sequence[int], places: dict[int, float], alone: float) -> float:
    known = [places[one] for one in neighbours if one in places]
    return sum(known) / len(known) if known else alone


def _mean_of(neighbours: Sequence[int], x: Sequence[float], alone: float) -> float:
    return sum(x[one] for one in neighbours) / len(neighbours) if neighbours else alone


def apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, in least squares, at which neighbours do not overlap.

    Args:
        wanted: from left to right.
        widths: two neighbours are at least half the sum of theirs apart.
    """
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2)
    blocks: list[tuple[float, int]] = []  # mean of what is wanted less the offset, how many
    for value, offset in zip(wanted, offsets, strict=False):
        mean, count = value - offset, 1
        while blocks and blocks[-1][0] >= mean:
            before, number = blocks.pop()
            mean = (before * number + mean * count) / (number + count)
            count += number
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
