"""Units as tasks of Ray: it places them, sends lost or failed ones again, and keeps and moves what they give.

units  →  tasks  →  rows {keys, content}  →  tasks that join 16 rows to one  →  the driver
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from calib8.distributed.jobs import Row
from calib8.distributed.watch import MOST_ATTEMPTS
from calib8.distributed.workers import Equipment, joined_row, unit_row

ROWS_PER_TASK: Final = 16
SECONDS: Final = 0.5
"""Between two looks whether somebody still waits."""

FEW_ROWS: Final = 64
"""So many rows the driver joins by itself."""


class Spread:
    """One pass."""

    def __init__(
        self, equipment: Equipment, at_once: int, needs: Mapping[str, Any], *, by_tasks: bool
    ) -> None:
        """Nothing was begun.

        Args:
            equipment: of every worker.
            at_once: tasks that Ray is given at once; it chooses which of them begins where.
            needs: what a task needs of a machine, options of Ray's.
            by_tasks: every row is read by a task, which is sent again where that fails, and none by the
                driver unless it was joined.
        """
        import ray

        options: dict[str, Any] = {
            "num_returns": 2, "max_retries": MOST_ATTEMPTS, "retry_exceptions": [OSError],
            "scheduling_strategy": "SPREAD", **needs,
        }  # fmt: skip
        self._unit: Any = ray.remote(unit_row).options(**options)
        self._join: Any = ray.remote(joined_row).options(**options)
        self._equipment, self._at_once, self._by_tasks = equipment, at_once, by_tasks
        self._joins = deque[tuple[int, list[tuple[str, Any]]]]()
        self._rows = defaultdict[int, list[tuple[str, Any]]](list)

    def units(self, units: Sequence[str]) -> Iterator[Row]:
        """Rows of units, given as text: all of them, or what they were joined to."""
        few = len(units) <= FEW_ROWS and not self._by_tasks
        calls = (partial(self._unit.remote, self._equipment, unit) for unit in units)
        return _fetched(self._ended(calls)) if few else self._joined(calls)

    def keys(self, keys: Sequence[str]) -> Iterator[Row]:
        """Rows that keys of a store were joined to."""
        for start in range(0, len(keys), ROWS_PER_TASK):
            self._joins.append((1, [(key, b"") for key in keys[start : start + ROWS_PER_TASK]]))
        return self._joined(iter(()))

    def _joined(self, calls: Iterator[Callable[[], Any]]) -> Iterator[Row]:
        """Rows, joined as they come until they are few; those that only tasks may read once at least."""
        for level, keys, content in self._ended(calls):
            self._keep(level, keys, content)
        if self._by_tasks and self._rows[0]:
            self._joins.append((1, self._rows.pop(0)))
            for level, keys, content in self._ended(iter(())):
                self._keep(level, keys, content)
        yield from _fetched((level, *row) for level, rows in self._rows.items() for row in rows)

    def _keep(self, level: int, keys: str, content: Any) -> None:
        """Keeps a row until there are enough of them to join."""
        self._rows[level].append((keys, content))
        if len(self._rows[level]) == ROWS_PER_TASK:
            self._joins.append((level + 1, self._rows.pop(level)))

    def _ended(self, calls: Iterator[Callable[[], Any]]) -> Iterator[tuple[int, str, Any]]:
        """Level, keys and the content's reference of each task as it ends; what is left is called off."""
        import ray

        left = dict[Any, tuple[int, Any]]()
        try:
            while True:
                while len(left) < self._at_once and (begun := self._begun(calls)) is not None:
                    level, (keys, content) = begun
                    left[keys] = level, content
                if not left:
                    return
                ended, _ = ray.wait(list(left), num_returns=1, fetch_local=False, timeout=SECONDS)
                if self._equipment.watch.stopped:
                    return
                for keys in ended:
                    level, content = left.pop(keys)
                    yield level, ray.get(keys), content
        finally:
            if ray.is_initialized():  # whoever calls Ray behind its end starts it anew
                for keys in left:
                    ray.cancel(keys)

    def _begun(self, calls: Iterator[Callable[[], Any]]) -> tuple[int, Any] | None:
        """The next task; rows that wait to be joined go first, for they take room."""
        if self._joins:
            level, rows = self._joins.popleft()
            keys, contents = [keys for keys, _ in rows], [content for _, content in rows]
            return level, self._join.remote(self._equipment, keys, *contents)
        call = next(calls, None)
        return None if call is None else (0, call())


def _fetched(rows: Iterable[tuple[int, str, Any]]) -> Iterator[Row]:
    """Rows with their contents, which Ray makes again where they are gone with a machine."""
    import ray

    for _, keys, content in rows:
        yield keys, ray.get(content)
