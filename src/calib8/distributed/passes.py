"""Passes over data by workers of Ray: units or blocks in, joined rows out.

units    →  tasks of ``spread``, whose processes hold the model, and tasks that join rows →  the driver
blocks   →  an operator of Ray Data, whose actors hold the model  →  tasks that join rows →  the driver
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from calib8.distributed.choice import ClusterChoice
from calib8.distributed.cluster import check_room_beside, usable_workers
from calib8.distributed.jobs import Row
from calib8.distributed.spread import ROWS_PER_TASK, Spread
from calib8.distributed.units import Unit
from calib8.distributed.watch import MOST_ATTEMPTS
from calib8.distributed.workers import CONTENT, KEYS, BlockWorker, Equipment, Joiner, unit_row
from calib8.errors import UsageError
from calib8.parameters import parameter

ROWS_PER_BLOCK: Final = 256
"""Rows of a dataset that are done as one piece."""

WORKERS_PER_JOINING: Final = 8
"""Workers whose rows one task can join as they come."""


@dataclass(frozen=True)
class Passes:
    """What all passes of a run have in common.

    Attributes:
        equipment: of every worker.
        choice: how many workers there are, and where.
    """

    equipment: Equipment
    choice: ClusterChoice

    def over_units(self, units: Sequence[Unit]) -> Iterator[Row]:
        """Rows of units, joined to few."""
        return self._spread().units([unit.to_json() for unit in units])

    def over_keys(self, keys: Sequence[str]) -> Iterator[Row]:
        """Rows of the store, joined to few."""
        return self._spread().keys(keys)

    def over_blocks(self, dataset: Any, column: str | None, done: frozenset[str]) -> Iterator[Row]:
        """Rows of a dataset of Ray, joined to few; ``done``: keys in the store.

        Raises:
            UsageError: a worker would leave no processor for what makes the dataset, and wait for ever.
        """
        check_room_beside(self.choice.threads)
        found = dataset.map_batches(
            BlockWorker, batch_size=ROWS_PER_BLOCK, batch_format="numpy",
            fn_constructor_args=(self.equipment, column, done), compute=self._pool(),
            **self._place(),
        )  # fmt: skip
        yield from self._joined(found)

    def _spread(self) -> Spread:
        """Where all machines work, Ray always has tasks that wait for room."""
        at_once = self._workers if self.choice.workers else 2 * self._workers
        return Spread(self.equipment, at_once, self._place(), by_tasks=self.choice.checkpoint is not None)

    @property
    def _workers(self) -> int:
        return usable_workers(self.choice.workers, self.choice.threads)

    def _place(self) -> dict[str, Any]:
        """What a worker needs of a machine."""
        needs: dict[str, Any] = {"num_cpus": self.choice.threads}
        if self.choice.node_labels:
            needs["label_selector"] = dict(self.choice.node_labels)
        return needs

    def _pool(self) -> Any:
        """The actors of Ray Data's operator: as many as it finds room for beside what makes the dataset."""
        from ray.data import ActorPoolStrategy

        asked: dict[str, Any] = {
            "min_size": 1, "max_size": self._workers, "max_tasks_in_flight_per_actor": 2,
        }  # fmt: skip
        known = inspect.signature(ActorPoolStrategy).parameters
        return ActorPoolStrategy(**{name: value for name, value in asked.items() if name in known})

    def _joined(self, rows: Any) -> Iterator[Row]:
        """The rows of a dataset, joined by tasks until they are few; tasks are sent again, the driver is not.

        Two steps differ in what they ask of a machine: Ray makes one step of two that ask the same. Neither
        asks for a processor: workers may hold all of them until somebody takes their rows.
        """
        from ray.data import TaskPoolStrategy

        tasks = 1 + self._workers // WORKERS_PER_JOINING
        for more in ({}, {"memory": 1}):
            rows = rows.map_batches(
                Joiner(self.equipment.job), batch_size=ROWS_PER_TASK, batch_format="numpy",
                num_cpus=0, compute=TaskPoolStrategy(size=tasks), **more, **_sent_again(rows),
            )  # fmt: skip
        with quiet_rows(rows):
            for row in rows.iter_rows():
                yield str(row[KEYS]), bytes(row[CONTENT])


def check_node_labels(choice: ClusterChoice) -> None:
    """Refuses labels that this Ray does not know or take, and those of no machine, on which all would wait.

    Raises:
        UsageError: it is so.
    """
    if not choice.node_labels:
        return
    import ray

    given, kind = parameter("node_labels"), ray.remote(unit_row)
    try:
        kind.options(label_selector={})
    except ValueError as error:
        cure = "Use a newer Ray, or a cluster of machines of one kind"
        raise UsageError(given, f"are not known to Ray {ray.__version__}", cure) from error
    try:
        kind.options(label_selector=dict(choice.node_labels))
    except ValueError as error:
        raise UsageError(
            given, f"are refused by Ray ({error})", "Give keys and values as Ray has them"
        ) from error
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    if not any(_has(node, choice.node_labels) for node in nodes):
        told = ", ".join(f"{key}={value}" for key, value in choice.node_labels.items())
        raise UsageError(given, f"{told} is on no machine of the cluster", "Give those of some machine")


def _has(node: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a machine has all labels; of what selects in another way than by name only Ray can tell."""
    had = node.get("Labels", {})
    return bool(node["Alive"]) and all(
        had.get(key) == value for key, value in labels.items() if re.fullmatch(r"[\w.-]+", value)
    )


def _sent_again(rows: Any) -> dict[str, Any]:
    """Options of tasks that may fail, for versions of Ray in which a dataset does not say it."""
    if hasattr(rows.context, "retried_map_errors"):
        return {}
    return {"retry_exceptions": [OSError], "max_retries": MOST_ATTEMPTS}


@contextmanager
def quiet_rows(rows: Any) -> Iterator[None]:
    """Ray shows nothing of its own while the rows are iterated, and hands errors on as they were raised.

    Args:
        rows: a dataset of Ray, of our own.
    """
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


Pass = Callable[[], Iterable[Row]]
"""A pass that begins when it is called."""
