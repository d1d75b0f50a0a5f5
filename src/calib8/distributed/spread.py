"""Units spread over actors that hold the model: each has one at work and one more, and joins rows between.

    units  →  queue  →  actors  →  rows {keys, content}  →  16 rows to one, by the actors  →  the driver

Ray places actors, starts lost ones again, and calls again what they had. An actor that has no place yet gets
nothing; one for which nothing is left gives its place back, so that a lost one finds room.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from calib8.distributed.jobs import Row
from calib8.distributed.watch import MOST_ATTEMPTS
from calib8.distributed.workers import Equipment

CALLS_PER_WORKER: Final = 2
ROWS_PER_CALL: Final = 16
FEW_ROWS: Final = 64
"""So many rows the driver joins by itself."""


@dataclass(frozen=True)
class _Call:
    """What an actor is asked for.

    Attributes:
        method: ``unit`` or ``joined``.
        values: that it takes behind the equipment.
        level: how often what its row holds was joined.
        failed: how often it failed.
    """

    method: str
    values: tuple[Any, ...]
    level: int = 0
    failed: int = 0


@dataclass(eq=False)
class _Actor:
    """An actor, and how many calls it has."""

    handle: Any
    calls: int = 0


@dataclass(frozen=True)
class _Asked:
    """Who was asked for what, and the reference of the content; no call: whether the actor is there."""

    actor: _Actor
    call: _Call | None = None
    content: Any = None


class Spread:
    """One pass."""

    def __init__(self, make: Callable[[], Any], equipment: Equipment, most: int, *, by_actors: bool) -> None:
        """Nothing was given to any actor.

        Args:
            make: a new actor, a ``UnitWorker``.
            equipment: of every actor.
            most: actors at once.
            by_actors: every row is read by an actor, whose failures are made good, and none by the driver
                unless it was joined.
        """
        self._make, self._equipment = make, equipment
        self._most, self._by_actors = most, by_actors
        self._queue = deque[_Call]()
        self._asked = dict[Any, _Asked]()
        self._rows = defaultdict[int, list[tuple[str, Any]]](list)
        self._few = False

    def units(self, units: Sequence[str]) -> Iterator[Row]:
        """Rows of units, given as text: all of them, or what they were joined to."""
        self._queue.extend(_Call("unit", (unit,)) for unit in units)
        self._few = len(units) <= FEW_ROWS and not self._by_actors
        return self._run()

    def keys(self, keys: Sequence[str]) -> Iterator[Row]:
        """Rows that keys of a store were joined to."""
        for start in range(0, len(keys), ROWS_PER_CALL):
            self._queue.append(_joining([(key, b"") for key in keys[start : start + ROWS_PER_CALL]], 0))
        return self._run()

    def _run(self) -> Iterator[Row]:
        import ray

        try:
            while self._queue or self._at_work:
                for _ in range(min(self._most, len(self._queue)) if not self._asked else 0):
                    self._begin()
                for reference in _ready(list(self._asked)):
                    yield from self._taken(reference)
            for rows in self._rows.values():
                yield from _fetched(rows)
        finally:
            for actor in {asked.actor for asked in self._asked.values()}:
                ray.kill(actor.handle)

    @property
    def _at_work(self) -> bool:
        return any(asked.call is not None for asked in self._asked.values())

    def _begin(self) -> None:
        actor = _Actor(self._make())
        self._asked[actor.handle.ready.remote()] = _Asked(actor)

    def _taken(self, reference: Any) -> Iterator[Row]:
        """Takes what an actor gave, and gives it what is next."""
        import ray

        asked, rows = self._asked.pop(reference), list[tuple[str, Any]]()
        actor, call = asked.actor, asked.call
        actor.calls -= int(call is not None)
        try:
            keys = ray.get(reference)
            if call is not None and self._few:
                rows.append((keys, asked.content))
            elif call is not None:
                self._keep(call.level, keys, asked.content)
        except OSError:
            if call is None or call.failed + 1 == MOST_ATTEMPTS:
                raise
            self._queue.append(replace(call, failed=call.failed + 1))
        except ray.exceptions.ObjectLostError:
            pass  # what it was to join is gone with a machine: nobody counted that, and it is done again
        self._give(actor)
        yield from _fetched(rows)

    def _keep(self, level: int, keys: str, content: Any) -> None:
        """Keeps a row until there are enough of them to join."""
        self._rows[level].append((keys, content))
        if len(self._rows[level]) == ROWS_PER_CALL:
            self._join(level)
        elif self._by_actors and self._rows[0] and not (self._queue or self._at_work):
            self._join(0)

    def _join(self, level: int) -> None:
        self._queue.appendleft(_joining(self._rows.pop(level), level + 1))

    def _give(self, actor: _Actor) -> None:
        """As much as an actor takes; one for which nothing is left ends."""
        import ray

        most = CALLS_PER_WORKER if len(self._queue) > self._most else 1  # the last ones go to who is free
        while self._queue and actor.calls < most:
            call = self._queue.popleft()
            method = getattr(actor.handle, call.method).options(num_returns=2)
            keys, content = method.remote(self._equipment, *call.values)
            self._asked[keys] = _Asked(actor, call, content)
            actor.calls += 1
        if not actor.calls:
            ray.kill(actor.handle)


def _joining(rows: Sequence[tuple[str, Any]], level: int) -> _Call:
    return _Call("joined", ([keys for keys, _ in rows], *(content for _, content in rows)), level)


def _fetched(rows: Sequence[tuple[str, Any]]) -> Iterator[Row]:
    """Rows with their contents; those that are gone with a machine are left out, and done again."""
    import ray

    for keys, content in rows:
        with suppress(ray.exceptions.ObjectLostError):
            yield keys, ray.get(content)


def _ready(references: list[Any]) -> list[Any]:
    """Those that are there, one at least."""
    import ray

    ray.wait(references, num_returns=1, fetch_local=False)
    done: list[Any] = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)[0]
    return done
