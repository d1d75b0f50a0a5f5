"""Works on all samples (``calib8.data.whole``) by the workers of a cluster.

    unit or block  →  what the work finds of it  →  tasks that join 16 findings  →  the driver

Nothing of it is kept in a store: findings are as large as statistics, and a lost one is found again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from calib8.data.samples import DataSource
from calib8.distributed.units import Unit
from calib8.distributed.workers import KEYS, PART, UNIT, Equipment, Rows, Worker, key_of, row, rows_of
from calib8.errors import DataError

NOTHING: Final = b"-"
"""What a row holds where no sample was good."""


class WorkWorker(Worker):
    """Finds, in place of counting.

    Attributes:
        work: what is to be found.
    """

    def __init__(self, equipment: Equipment, work: Any, column: str | None = None) -> None:
        """``work``: its reference in Ray's object store. ``column``: of blocks, see ``rows_of``."""
        import ray

        super().__init__(equipment)
        self.work: Any = ray.get(work)
        self._column = column

    def found(self, key: str, name: str, records: Callable[[], DataSource]) -> Rows:
        """The row of a piece of work; see ``Worker.part``."""
        seen = 0

        def count(samples: int) -> None:
            nonlocal seen
            seen += samples

        with self.told(key, name):
            settings = self.gatherer.settings
            opened = replace(settings, data=records()).opened(self.gatherer.inputs)
            dataset = replace(opened, taken=int(opened.skip_bad))
            try:
                content = pickle.dumps(self.work.over(dataset, settings.threads, count))
            except DataError:
                if seen or not dataset.skipped:
                    raise
        self.watch.done(key, seen)
        return row(key, content if seen else NOTHING)


class WorkOnUnits(WorkWorker):
    """Takes units: a batch of one row with a unit as text."""

    def __call__(self, batch: Rows) -> Rows:
        """The row of the unit."""
        unit = Unit.from_json(str(batch[UNIT][0]))
        return self.found(unit.key, unit.name, unit.records)


class WorkOnBlocks(WorkWorker):
    """Takes blocks of a dataset: columns of some rows."""

    def __call__(self, batch: Rows) -> Rows:
        """The row of the block."""
        records = rows_of(batch, self._column)
        return self.found(key_of(records), f"a block of {len(records)} rows", lambda: records)


@dataclass(frozen=True)
class Joining:
    """How findings become one; a plain value that tasks get.

    Attributes:
        work: reference of the work in Ray's object store.
        once: a key that comes again was done again; False: data may hold a block twice.
    """

    work: Any
    once: bool

    def __call__(self, batch: Rows) -> Rows:
        """Several rows as one."""
        keys, parts, seen = list[str](), list[bytes](), set[str]()
        for named, content in zip(batch[KEYS], batch[PART], strict=True):
            own = str(named).split()
            if self.once and seen.intersection(own):
                continue
            seen.update(own)
            keys += own
            parts.append(bytes(content))
        return row(" ".join(keys), self.joined(parts))

    def joined(self, parts: Iterable[bytes]) -> bytes:
        """Several findings as one."""
        found = list(_whole(parts))
        if len(found) < 2:
            return found[0] if found else NOTHING
        import ray

        work = ray.get(self.work)
        total = pickle.loads(found[0])
        for part in found[1:]:
            total = work.joined(total, pickle.loads(part))
        return pickle.dumps(total)


def _whole(parts: Iterable[bytes]) -> Iterator[bytes]:
    return (part for part in parts if part != NOTHING)
