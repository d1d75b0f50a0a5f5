"""From a dataset to statistics, in one go or over several runs: collect, follow, save now and then.

    statistics of all = statistics of the checkpoint merged with those of the samples behind it

The merge is exact, so where a run was stopped, and how often, leaves no trace in the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypedDict

import onnx_ir as ir

from calib8.calibration.checkpoint import Checkpoint, Run
from calib8.calibration.collect import Collector
from calib8.calibration.kept_runs import KeptRun, RunKeeper
from calib8.calibration.moving import Averages, MovingExtremes
from calib8.calibration.origin import this_origin
from calib8.calibration.statistics import Statistics
from calib8.data.batches import Batch, batches
from calib8.data.digests import DigestLog
from calib8.data.samples import Dataset
from calib8.data.shards import Shard
from calib8.data.trail import START, Trail
from calib8.errors import DataError, TableError, UsageError
from calib8.files import checked_path, remove_leftovers
from calib8.model.graph import model_hash
from calib8.model.runtime import runtime_version
from calib8.parameters import parameter
from calib8.progress import Progress, SampleCounter, check_positive, silent
from calib8.requests import Request

SECONDS_BETWEEN: Final = 10.0
"""Least time between two checkpoints where no number of samples is given."""

SHARE_OF_SAVING: Final = 0.05
"""Most of the time that may go into checkpoints then."""


@dataclass(frozen=True)
class Checkpointing(Request):
    """Where a run is saved, and how often; false where it is not.

    Attributes:
        checkpoint: a file that the statistics are saved in on the way. Where it exists, the run goes on with
            it; the result is that of one run. It stays when all is done.
        checkpoint_every: samples between two savings; None: every 10 seconds or more seldom.

    Raises:
        UsageError: ``checkpoint_every`` without a file, or below 1; what is not a path.
    """

    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = None

    def __post_init__(self) -> None:
        """Refuses what is not a path or not a number of samples."""
        super().__post_init__()
        if self.checkpoint is not None:
            checked_path(self.checkpoint, "checkpoint")
        elif self.checkpoint_every is not None:
            cure = f"Add {parameter('checkpoint')} FILE"
            raise UsageError(parameter("checkpoint_every"), "says how often, but not where", cure)
        if self.checkpoint_every is not None:
            check_positive("checkpoint_every", self.checkpoint_every)

    def __bool__(self) -> bool:
        """Whether the run is saved."""
        return self.checkpoint is not None

    @property
    def path(self) -> Path:
        """The file."""
        return checked_path(self.checkpoint, "checkpoint")


NOT_SAVED: Final = Checkpointing()


class CheckpointWords(TypedDict, total=False):
    """The fields of a ``Checkpointing`` beside the file, as keywords."""

    checkpoint_every: int | None


@dataclass(frozen=True)
class Gathering:
    """How to go through a dataset.

    Attributes:
        batch, threads: matters of speed; no ``batch`` is what serves the model best.
        decay: follow moving averages with it, one sample at a time; None: do not.
        shard: which part of the data the dataset is.
        checkpoint: go on with it, and keep it up to date. At the end it is complete, not removed.
        bins: False for counts and extremes alone, which is faster; not with a checkpoint, which serves runs
            that need more.
        keep: so many samples of lowest digest, with the outputs of the model; not with a checkpoint.
        keep_bytes: bytes that these may have, see ``calib8.calibration.kept_runs.RunKeeper``.
    """

    batch: int | None = None
    threads: int = 1
    decay: float | None = None
    shard: Shard | None = None
    checkpoint: Checkpointing = NOT_SAVED
    bins: bool = True
    keep: int = 0
    keep_bytes: int | None = None


@dataclass(frozen=True)
class Gathered:
    """What a run through a dataset gave.

    Attributes:
        statistics: of all samples.
        averages: for ``ema``, where a decay was given.
        resumed: samples that a checkpoint had already.
        fallback: why the values were not counted inside ONNX Runtime's run, empty where they were.
        kept: the samples that were to be kept; None where none was, or they did not come apart.
    """

    statistics: Statistics
    averages: Averages | None = None
    resumed: int = 0
    fallback: str = ""
    kept: tuple[KeptRun, ...] | None = None


def gather(
    model: ir.Model,
    tensors: Sequence[str],
    dataset: Dataset,
    how: Gathering,
    progress: Progress = silent,
) -> Gathered:
    """Statistics of the named tensors over a dataset.

    Args:
        model: a prepared float graph.
        tensors: what is looked at.
        dataset: the samples; afterwards its ``skipped`` has the bad ones of all runs.
        how: see ``Gathering``.
        progress: see ``Progress``.

    Raises:
        DataError: bad data.
        TableError: the checkpoint is broken or belongs to another run.
        OutputError: the checkpoint cannot be written; what it had stays.
    """
    keeper = _Keeper(how, model, tensors, dataset) if how.checkpoint else None
    old = None if keeper is None else keeper.found
    moving = None if how.decay is None else MovingExtremes(how.decay, old.averages if old else None)
    rest = dataset if keeper is None else keeper.trail.dataset
    resumed = rest.taken
    seen = SampleCounter("calibrating", dataset.count, progress)
    if resumed:
        seen(resumed)
    log = DigestLog(rest)
    alone = keeper is None and dataset.rows_per_batch in (None, 1)
    runs = RunKeeper(how.keep, how.keep_bytes) if how.keep and alone else None
    with Collector(
        model, tensors, threads=how.threads, bins=how.bins or keeper is not None, outputs=runs is not None
    ) as collector:
        state = _State(collector, moving, old.statistics if old else None, preprocess_text(dataset), log)
        most = 1 if moving is not None else how.batch or collector.batch_size
        pieces = batches(log.dataset, most, how.threads)
        with closing(pieces if keeper is None else keeper.guarded(pieces, state)) as safe:
            for piece, digests, size in taken_in(collector, log, safe):
                seen(size)
                if runs is not None:
                    runs.add(digests, piece.inputs, collector.outputs)
                if moving is not None:
                    moving.update(collector.statistics())
                if keeper is not None:
                    keeper.passed(piece, state)
        if keeper is not None:
            keeper.finish(state)
            dataset.skipped[:] = keeper.trail.mark.skipped
        kept = None if runs is None else runs.runs()
        return Gathered(state.statistics(), state.averages, resumed, collector.fallback, kept)


def taken_in(
    collector: Collector, log: DigestLog, pieces: Iterable[Batch]
) -> Iterator[tuple[Batch, tuple[bytes, ...], int]]:
    """Counts batches one by one; yields each when it is counted, with digests and number of its samples."""
    for piece in pieces:
        size = collector.add(piece.inputs)
        yield piece, log.advance(piece.names), size


@dataclass(frozen=True)
class _State:
    """What was gathered so far.

    Attributes:
        collector: of this run.
        moving: of this run and those before it.
        before: statistics of the runs before it.
        preprocess: of the data.
        log: the samples of this run.
    """

    collector: Collector
    moving: MovingExtremes | None
    before: Statistics | None
    preprocess: str | None
    log: DigestLog

    def statistics(self) -> Statistics:
        """Those of all runs."""
        found = replace(
            self.collector.statistics(),
            preprocess=self.preprocess,
            origins=(this_origin(),),
            digests=self.log.digests(),
        )
        return found if self.before is None else self.before.merge(found)

    @property
    def averages(self) -> Averages | None:
        """Those of all runs."""
        return None if self.moving is None else self.moving.averages


def preprocess_text(dataset: Dataset) -> str | None:
    """How its images become inputs, as statistics keep it."""
    return None if dataset.preprocess is None else dataset.preprocess.to_json()


class _Keeper:
    """Finds the checkpoint of a run and keeps it up to date."""

    def __init__(self, how: Gathering, model: ir.Model, tensors: Sequence[str], dataset: Dataset) -> None:
        self._settings = how.checkpoint
        preprocess = preprocess_text(dataset)
        shard_text = None if how.shard is None else str(how.shard)
        self._run = Run(preprocess, dataset.count, shard_text, how.decay, runtime_version())
        self._waiting = 0
        self._next = time.monotonic() + SECONDS_BETWEEN
        self.found = self._load(model_hash(model), tensors)
        self.trail = self._trail(dataset)

    def _load(self, model: str, tensors: Sequence[str]) -> Checkpoint | None:
        path = self._settings.path
        remove_leftovers(path)
        if not path.exists():
            return None
        found = Checkpoint.load(path)
        found.check(self._run, model, tensors, str(path))
        return found

    def _trail(self, dataset: Dataset) -> Trail:
        mark = START if self.found is None else self.found.mark
        if mark.skipped and not dataset.skip_bad:
            bad = mark.skipped[0]
            raise DataError(
                bad.name,
                bad.reason,
                f"Remove the checkpoint, or pass over it with {parameter('skip_bad', True)}",
            )
        try:
            return Trail(dataset, mark)
        except DataError as error:
            raise TableError(
                str(self._settings.path), f"is of other data: {error.subject}: {error.problem}", error.cure
            ) from error

    def guarded(self, pieces: Generator[Batch, None, None], state: _State) -> Generator[Batch, None, None]:
        """The batches; a bad sample ends the run, but not before what was gathered is saved."""
        with closing(pieces):
            try:
                yield from pieces
            except DataError:
                if self._waiting:
                    self._save(state)
                raise

    def passed(self, piece: Batch, state: _State) -> None:
        """A batch was taken in: saves where it is time to."""
        self.trail.advance(piece.names)
        self._waiting += len(piece.names)
        every = self._settings.checkpoint_every
        if self._waiting >= every if every is not None else time.monotonic() >= self._next:
            self._save(state)

    def finish(self, state: _State) -> None:
        """All samples were taken in."""
        self.trail.finish()
        self._save(state)

    def _save(self, state: _State) -> None:
        start = time.monotonic()
        made = Checkpoint(self._run, self.trail.mark, state.statistics(), state.averages)
        made.save(self._settings.path)
        self._waiting = 0
        end = time.monotonic()
        self._next = end + max(SECONDS_BETWEEN, (end - start) / SHARE_OF_SAVING)
