"""Passes over data by workers of Ray: units or blocks in, merged rows out.

    units   →  actors that hold the model  →  tasks that merge 16 rows  →  the driver

Ray schedules, sends lost work again and moves rows; nothing here does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from calib8.distributed.choice import ClusterChoice
from calib8.distributed.cluster import usable_workers
from calib8.distributed.merging import ROWS_PER_TASK, Merging
from calib8.distributed.units import Unit
from calib8.distributed.watch import MOST_ATTEMPTS
from calib8.distributed.workers import KEYS, PART, UNIT, BlockWorker, Equipment, UnitWorker
from calib8.distributed.works import Joining, WorkOnBlocks, WorkOnUnits
from calib8.errors import UsageError

ROWS_PER_BLOCK: Final = 256
"""Rows of a dataset that are counted as one piece."""

WORKERS_PER_MERGING: Final = 8
"""Workers whose parts one task can merge as they come."""


@dataclass(frozen=True)
class Passes:
    """What all passes of a run have in common.

    Attributes:
        equipment: of every worker.
        merging: makes one row of several, in tasks.
        choice: how many workers there are, and where.
    """

    equipment: Equipment
    merging: Merging | Joining
    choice: ClusterChoice

    def over_units(self, units: Sequence[Unit]) -> Iterator[tuple[str, bytes]]:
        """Keys and parts of units, merged to few rows."""
        return self._by_units(UnitWorker, units, self.equipment)

    def work_on_units(self, units: Sequence[Unit], work: Any) -> Iterator[tuple[str, bytes]]:
        """Keys of units and what a work, given by its reference, finds of them, joined to few rows."""
        return self._by_units(WorkOnUnits, units, self.equipment, work)

    def _by_units(self, worker: type, units: Sequence[Unit], *made_of: Any) -> Iterator[tuple[str, bytes]]:
        import ray.data

        rows = ray.data.from_items([{UNIT: unit.to_json()} for unit in units], override_num_blocks=len(units))
        done = rows.map_batches(
            worker, batch_size=1, fn_constructor_args=made_of, **self._as_workers(len(units))
        )
        yield from self._merged(done, len(units))

    def over_keys(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Keys and parts of the store, merged to few rows."""
        import ray.data

        tasks = -(-len(keys) // ROWS_PER_TASK)
        rows = ray.data.from_items([{KEYS: key, PART: b""} for key in keys], override_num_blocks=tasks)
        yield from self._merged(rows, len(keys))

    def over_blocks(
        self, dataset: Any, column: str | None, done: frozenset[str]
    ) -> Iterator[tuple[str, bytes]]:
        """Keys and parts of a dataset, merged to few rows."""
        return self._by_blocks(BlockWorker, dataset, self.equipment, column, done)

    def work_on_blocks(self, dataset: Any, work: Any, column: str | None) -> Iterator[tuple[str, bytes]]:
        """Keys of blocks and what a work, given by its reference, finds of them, joined to few rows."""
        return self._by_blocks(WorkOnBlocks, dataset, self.equipment, work, column)

    def _by_blocks(self, worker: type, dataset: Any, *made_of: Any) -> Iterator[tuple[str, bytes]]:
        found = dataset.map_batches(
            worker, batch_size=ROWS_PER_BLOCK, fn_constructor_args=made_of, **self._as_workers(None)
        )
        yield from self._merged(found, None)

    @property
    def _from_store(self) -> bool:
        """Whether parts are read while they are merged."""
        return isinstance(self.merging, Merging) and self.merging.store is not None

    def _as_workers(self, units: int | None) -> dict[str, Any]:
        """Options of the operator whose actors hold the model."""
        from ray.data import ActorPoolStrategy

        workers = usable_workers(self.choice.workers, self.choice.threads)
        most = workers if units is None else max(1, min(workers, units))
        asked: dict[str, Any] = {
            "min_size": 1, "max_size": most, "initial_size": most, "max_tasks_in_flight_per_actor": 2,
        }  # fmt: skip
        known = inspect.signature(ActorPoolStrategy).parameters
        pool = ActorPoolStrategy(**{name: value for name, value in asked.items() if name in known})
        options: dict[str, Any] = {"compute": pool, "num_cpus": self.choice.threads, "batch_format": "numpy"}
        if self.choice.node_labels:
            options["label_selector"] = dict(self.choice.node_labels)
        return options

    def _merged(self, rows: Any, many: int | None) -> Iterator[tuple[str, bytes]]:
        """The rows of a dataset of parts, merged by tasks until they are few; those of a store once at least.

        Two steps differ in what they ask of a machine: Ray makes one step of two that ask the same.
        """
        from ray.data import TaskPoolStrategy

        levels = 2 if many is None or many > ROWS_PER_TASK**2 else int(many > ROWS_PER_TASK)
        levels = max(levels, int(self._from_store))  # tasks are sent again, the driver is not
        tasks = 1 + usable_workers(self.choice.workers, self.choice.threads) // WORKERS_PER_MERGING
        for processors in (0.0, 0.001)[:levels]:
            rows = rows.map_batches(
                self.merging, batch_size=ROWS_PER_TASK, batch_format="numpy", num_cpus=processors,
                compute=TaskPoolStrategy(size=tasks), **_sent_again(rows),
            )  # fmt: skip
        with _quiet(rows):
            for row in rows.iter_rows():
                yield str(row[KEYS]), bytes(row[PART])


def check_node_labels(choice: ClusterChoice) -> None:
    """Refuses labels where this Ray knows none.

    Raises:
        UsageError: it does not.
    """
    import ray.data

    if (
        choice.node_labels
        and "label_selector" not in inspect.signature(ray.data.Dataset.map_batches).parameters
    ):
        problem = f"are not known to Ray {ray.__version__}"
        raise UsageError("node_labels", problem, "Use a newer Ray, or a cluster of machines of one kind")


def _sent_again(rows: Any) -> dict[str, Any]:
    """Options of tasks that may fail, for versions of Ray in which a dataset does not say it."""
    if hasattr(rows.context, "retried_map_errors"):
        return {}
    return {"retry_exceptions": [OSError], "max_retries": MOST_ATTEMPTS}


@contextmanager
def _quiet(rows: Any) -> Iterator[None]:
    """Ray shows nothing of its own while the rows are iterated, and hands errors on as they were raised."""
    import logging

    wishes: dict[str, Any] = {
        "enable_progress_bars": False,
        "print_on_execution_start": False,
        "raise_original_map_exception": True,
        "retried_map_errors": ["ConnectionError", "TimeoutError", "OSError"],
        "max_map_retries": MOST_ATTEMPTS - 1,
    }
    if not hasattr(rows.context, "retried_map_errors"):
        wishes["actor_task_retry_on_errors"] = [OSError]
    for name, value in wishes.items():
        if hasattr(rows.context, name):
            setattr(rows.context, name, value)
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


Pass = Callable[[], Iterable[tuple[str, bytes]]]
"""A pass that begins when it is called."""
