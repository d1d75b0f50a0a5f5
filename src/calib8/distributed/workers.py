"""Workers: each has the prepared model once, and does its job with one piece after the other.

unit    →  its samples, which the worker reads itself  →  row {keys, content}
block   →  its samples, which Ray brings               →  row {keys, content}
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.calibration.gatherer import Gatherer
from calib8.data.fingerprints import array_fingerprint
from calib8.data.samples import DataSource
from calib8.distributed.function_digest import UntellableError, value_digest
from calib8.distributed.jobs import Job, Joined, Row
from calib8.distributed.units import Unit
from calib8.distributed.watch import MOST_ATTEMPTS, Told
from calib8.errors import Calib8Error, DataError

Rows: TypeAlias = "dict[str, npt.NDArray[Any]]"

KEYS: Final = "keys"
CONTENT: Final = "content"
"""Columns of rows in a dataset of Ray."""


class StoppedError(Exception):
    """The run has ended without this piece."""


class WorkerFaultError(Exception):
    """What no user can have caused: a fault of calib8 itself."""


@dataclass(frozen=True)
class Equipment:
    """What every worker gets.

    Attributes:
        gatherer: the reference of one with the prepared model, in Ray's object store.
        job: what is done with every piece.
        watch: what is told of the work.
    """

    gatherer: Any
    job: Job[Any]
    watch: Told


class Worker:
    """Does a job.

    Attributes:
        gatherer: has the prepared model, and how records become inputs.
        watch: is told of the work.
    """

    def __init__(self, equipment: Equipment) -> None:
        """Fetches the prepared model; it is opened with the first samples."""
        import ray

        self.gatherer: Gatherer = ray.get(equipment.gatherer)
        self.job, self.watch = equipment.job, equipment.watch

    def piece(self, key: str, name: str, records: Callable[[], DataSource]) -> Row:
        """The row of a piece of work.

        Args:
            key: of the piece.
            name: for messages.
            records: reads its samples.

        Raises:
            Calib8Error: the samples do not fit the model, or cannot be read or written to the end.
            OSError: they could not be read or written this time, and may be another time.
        """
        with self.told(key, name):
            content, samples = self.job.over(self.gatherer, key, records)
        self.watch.done(key, samples)
        return key, content

    @contextmanager
    def told(self, key: str, name: str) -> Iterator[None]:
        """Tells the driver what ends the run, before Ray wraps it."""
        attempt = self.watch.begin(key, name)
        if not attempt:
            raise StoppedError
        try:
            yield
        except Calib8Error as error:
            self.gatherer.close()
            told = _naming(error, name)
            self.watch.fail(told)
            raise told from error
        except OSError as error:
            self.gatherer.close()
            if attempt < MOST_ATTEMPTS:
                raise
            problem = f"could not be read {attempt} times ({error})"
            told = DataError(name, problem, "Look at the store that it comes from, then start again")
            self.watch.fail(told)
            raise told from error
        except Exception as error:
            raise WorkerFaultError(f"{type(error).__name__}: {error}") from error


_EQUIPPED: Final = dict[Any, Worker]()
"""The worker of this process for the latest run, by the reference of its model."""


def unit_row(equipment: Equipment, text: str) -> Row:
    """A task: the row of a unit, given as text.

    Raises:
        Calib8Error, OSError: see ``Worker.piece``.
    """
    unit = Unit.from_json(text)
    return _equipped(equipment).piece(unit.key, unit.name, unit.records)


def joined_row(equipment: Equipment, keys: Sequence[str], *contents: bytes) -> Row:
    """A task: several rows as one.

    Raises:
        Calib8Error: one is broken or gone, or they do not belong together.
        OSError: one could not be read this time.
    """
    return Joined(equipment.job, zip(keys, contents, strict=True)).row()


def _equipped(equipment: Equipment) -> Worker:
    """A process does many units; it opens the model with the first one."""
    found = _EQUIPPED.get(equipment.gatherer)
    if found is None:
        for worker in _EQUIPPED.values():
            worker.gatherer.close()
        _EQUIPPED.clear()
        _EQUIPPED[equipment.gatherer] = found = Worker(equipment)
    return found


class BlockWorker(Worker):
    """Takes blocks of a dataset: columns of some rows."""

    def __init__(self, equipment: Equipment, column: str | None, done: frozenset[str]) -> None:
        """``column``: which holds the samples; None: whole rows are samples. ``done``: keys in the store."""
        super().__init__(equipment)
        self._column, self._done = column, done

    def __call__(self, batch: Rows) -> Rows:
        """The row of the block."""
        records = rows_of(batch, self._column)
        key = key_of(records)
        if key in self._done:
            self.watch.done(key, len(records))
            return as_batch((key, b""))
        return as_batch(self.piece(key, f"a block of {len(records)} rows", lambda: records))


@dataclass(frozen=True)
class Joiner:
    """Joins rows that come as batches of a dataset of Ray."""

    job: Job[Any]

    def __call__(self, batch: Rows) -> Rows:
        """Several rows as one."""
        return as_batch(Joined(self.job, zip(batch[KEYS], batch[CONTENT], strict=True)).row())


def as_batch(row: Row) -> Rows:
    """A row as a batch."""
    return {KEYS: np.array([row[0]], object), CONTENT: np.array([row[1]], object)}


def rows_of(batch: Mapping[str, npt.NDArray[Any]], column: str | None) -> list[Any]:
    """The samples of a block.

    Args:
        batch: column → one value per row.
        column: that holds them; None: every row is one, as ``{column: value}``.

    Raises:
        DataError: there is no such column.
    """
    if column is None:
        names = list(batch)
        return [dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    if column not in batch:
        held = ", ".join(batch) or "nothing"
        raise DataError(
            "dataset", f"has no column '{column}', it has {held}", "Name the one with the samples"
        )
    return list(batch[column])


def key_of(records: Sequence[Any]) -> str:
    """The key of a block: SHA-256 over the sorted digests of its samples.

    Raises:
        DataError: a sample holds something that does not say what it is.
    """
    try:
        digests = sorted(map(_digest, records))
    except UntellableError as error:
        problem = f"has samples that hold a {error}, which nothing tells from another one"
        raise DataError("dataset", problem, "Give arrays, pictures, numbers and text") from error
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _digest(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return hashlib.sha256(value).digest()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return array_fingerprint({"": value})
    if isinstance(value, Mapping):
        parts = [(str(name).encode(), _digest(value[name])) for name in sorted(value, key=str)]
        return hashlib.sha256(b"".join(hashlib.sha256(name).digest() + of for name, of in parts)).digest()
    if isinstance(value, np.ndarray | list | tuple):
        return hashlib.sha256(b"".join(map(_digest, value))).digest()
    if isinstance(value, str | os.PathLike):
        return value_digest((os.fspath(value), *_stamp(value)))
    return value_digest(value)


def _stamp(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Size and time of what lies there; nothing where nothing does, as with any other text."""
    try:
        state = Path(path).stat()
    except (OSError, ValueError):
        return ()
    return state.st_size, state.st_mtime_ns


def _naming(error: Calib8Error, name: str) -> Calib8Error:
    """The error with the piece before its sample, unless that says where it lies."""
    source = name.partition(": ")[0]
    if source in error.subject:
        return error
    return type(error)(f"{name}: {error.subject.both}", error.problem, error.cure)
