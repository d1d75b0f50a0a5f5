"""One run: a pass over what is not done yet, its rows joined with each key once, and again what nobody did.

    pieces  →  a pass  →  rows {keys, content}  →  each key once  →  joined
       ▲                                                │
       └────────────── what nobody did ─────────────────┘

The driver holds the keys of what is to be done, and one row at a time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from traceback import walk_tb
from types import FrameType
from typing import Any, Generic

from calib8.calibration.gatherer import Gatherer
from calib8.distributed.choice import ClusterChoice
from calib8.distributed.cluster import cause_of, fault_of_rows, said_by
from calib8.distributed.jobs import Job, Joined, Total
from calib8.distributed.passes import Pass, Passes
from calib8.distributed.units import Unit
from calib8.distributed.waiting import awaited
from calib8.distributed.watch import Told, new_watch
from calib8.distributed.workers import Equipment
from calib8.errors import Calib8Error, DataError, OutputError
from calib8.progress import Progress, silent


@dataclass
class Run(Generic[Total]):
    """What all passes of a run share, and what was done so far.

    Attributes:
        job: what is done with every piece.
        gatherer: has the prepared model, and how records become inputs.
        choice: of the cluster, which this process has joined.
        stage: for ``progress``.
        progress: is told how far all workers are.
        total: samples in all; None where only reading tells.
        before: samples that were done before this run.
        found: what was done, joined.
    """

    job: Job[Total]
    gatherer: Gatherer
    choice: ClusterChoice
    stage: str
    progress: Progress = silent
    total: int | None = None
    before: int = 0
    found: Joined[Total] = field(init=False)

    def __post_init__(self) -> None:
        """Puts the model where workers fetch it."""
        import ray

        self.found, self._shown = Joined(self.job), -1
        self._watch: Told = new_watch()
        self._passes = Passes(Equipment(ray.put(self.gatherer), self.job, self._watch), self.choice)

    def keys(self, keys: Sequence[str]) -> Total:
        """Takes what a store has of these keys."""
        return self._take(partial(self._passes.over_keys, keys))

    def units(self, units: Iterable[Unit]) -> Total:
        """Does all units that were not taken yet.

        Raises:
            Calib8Error: what a worker found wrong.
        """
        left = {unit.key: unit for unit in units}
        while rest := [unit for key, unit in left.items() if key not in self.found]:
            before = len(self.found.keys)
            self._take(partial(self._passes.over_units, rest))
            if len(self.found.keys) == before:
                raise DataError(rest[0].name, "was not done by any worker", "Start again")
        return self.found.total

    def blocks(self, dataset: Any, column: str | None, done: frozenset[str] = frozenset()) -> Total:
        """Does all blocks of a dataset of Ray; ``done``: keys in the store.

        Raises:
            Calib8Error: what a worker found wrong.
        """
        with rows_of_user():
            return self._take(partial(self._passes.over_blocks, dataset, column, done))

    def _take(self, rows: Pass) -> Total:
        try:
            for keys, content in awaited(rows, self._look, self._watch.stop):
                self.found.take(keys, content)
        except Exception as error:  # maybe that of a worker which stopped because of another one's
            _, failure = self._watch.look()
            if failure is None or failure is error:
                raise
            raise failure from error
        return self.found.total

    def _look(self) -> None:
        """Tells how far all workers are; ends the run where one of them found what ends it."""
        done, failure = self._watch.look()
        if failure is not None:
            raise failure
        if done != self._shown:
            self._shown = done
            self.progress(self.stage, self.before + done, self.total)


@contextmanager
def rows_of_user() -> Iterator[None]:
    """Tells what the functions raise with which a user's dataset of Ray makes its rows.

    Raises:
        DataError: one did.
    """
    try:
        yield
    except Exception as error:
        if (cause := fault_of_rows(error)) is None:
            raise
        problem = f"could not make its rows ({type(cause).__name__}: {said_by(cause)})"
        raise DataError("dataset", problem, "Mend the functions that make them") from error


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of the cluster as those of one process.

    They keep none of Ray's workers: whoever keeps the error, as a notebook does, may start another run.
    """
    before = sys.exc_info()[1]
    try:
        yield
    except BaseException as error:  # Ray wraps what its workers raise in types of its own
        _let_go(error, before)
        if not isinstance(error, Exception):
            raise
        cause = cause_of(error)
        if cause is error and isinstance(error, Calib8Error):
            raise
        if isinstance(cause, Calib8Error):
            raise cause from error
        if isinstance(cause, OSError):
            cure = "Look at the machine or store that it speaks of, then start again"
            raise OutputError("cluster", f"could not go on ({said_by(cause)})", cure) from error
        raise


def _let_go(error: BaseException, before: BaseException | None) -> None:
    """Frees what a run that failed leaves behind: calls in tracebacks and in circles hold workers of Ray.

    Args:
        error: that ended the run.
        before: what the caller was handling when the run began; it is left as it is.
    """
    found: list[BaseException | None] = [None, before]
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and one not in found:
            found.append(one)
            left += [one.__cause__, one.__context__]
            for frame, _ in walk_tb(one.__traceback__):
                _clear(frame)
    gc.collect()


def _clear(frame: FrameType | None) -> None:
    """Clears the variables of a call and of those that it came from, but of those that go on."""
    while frame is not None:
        with suppress(RuntimeError):
            frame.clear()
        frame = frame.f_back
