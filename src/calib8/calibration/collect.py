"""One forward pass over the data: every tapped activation becomes statistics and is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import TensorAccumulator, accumulate
from calib8.calibration.statistics import Statistics, TensorStatistics, counting_isa
from calib8.data.arrays import rows_per_batch
from calib8.errors import DataError
from calib8.model.graph import graph_inputs, model_hash
from calib8.model.runtime import Arrays, Session, open_session
from calib8.model.taps import tapped_model

Activations = dict[str, npt.NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]


def collect(
    model: ir.Model,
    tensors: Sequence[str],
    batches: Iterable[Arrays],
    *,
    threads: int = 2,
    on_batch: Callable[[int], None] = lambda samples: None,
) -> Statistics:
    """Statistics of the named tensors over all batches: a ``Collector`` that is given them one by one.

    Args:
        model: a prepared float graph.
        tensors: graph inputs or computed float32 tensors.
        batches: arrays per graph input; axis 0 holds the samples.
        threads: for the float model and for counting.
        on_batch: called with the number of samples after each batch.

    Raises:
        DataError: there is no batch, or one does not fit the model.
        UsageError: CALIB8_ISA names an instruction set that is unknown or not available.
    """
    with Collector(model, tensors, threads=threads) as collector:
        for feeds in batches:
            on_batch(collector.add(feeds))
        if collector.samples == 0:
            raise DataError("calibration data", "holds no sample", "Give at least one image or array")
        return collector.statistics()


class Collector:
    """Runs the float model on batches and counts the values of the named tensors.

    The statistics do not depend on the order of the samples, on how they are split into batches or on
    ``threads``: counts and extremes merge exactly, and a batch that ONNX Runtime computes with other bits
    than its samples one by one is run one by one.

    A sample is an entry of axis 0 where that is the same batch axis in all inputs of the model, as
    ``calib8.data.batches`` has it; else all that is fed at once is one sample. A tensor whose axis 0 is no
    multiple of the batch belongs to the run as a whole and counts as one sample.
    """

    def __init__(self, model: ir.Model, tensors: Sequence[str], *, threads: int = 2) -> None:
        """Opens the model.

        Args:
            model: a prepared float graph.
            tensors: graph inputs or computed float32 tensors.
            threads: for the float model and for counting.

        Raises:
            ModelError: a tensor is not computed, or ONNX Runtime cannot load the model.
            UsageError: CALIB8_ISA names an instruction set that is unknown or not available.
        """
        counting_isa()
        inputs = graph_inputs(model)
        fed = {spec.name for spec in inputs}
        self._hash = model_hash(model)
        self._fed = [name for name in tensors if name in fed]
        taps = [name for name in tensors if name not in fed]
        session = open_session(tapped_model(model, taps), threads=threads) if taps else None
        rows = rows_per_batch(inputs)
        self._stacked = rows != 1
        self._runner = _Runner(session, taps, free=rows is None) if session is not None else None
        self._states = {name: TensorAccumulator() for name in tensors}
        self._threads = threads
        self._counter = ThreadPoolExecutor(1, thread_name_prefix="calib8-count")
        self._pending: Future[None] | None = None
        self._samples = 0

    @property
    def samples(self) -> int:
        """Samples added so far."""
        return self._samples

    def add(self, feeds: Arrays) -> int:
        """Runs one batch and counts it, the latter beside the run of the next batch; returns its samples.

        Args:
            feeds: one array per graph input.

        Raises:
            DataError: the arrays do not fit the model.
        """
        first = next(iter(feeds.values()))
        size = first.shape[0] if self._stacked and first.ndim else 1
        parts = self._runner.run(feeds, size) if self._runner is not None else [{}]
        parts.append({name: np.asarray(feeds[name], np.float32) for name in self._fed})
        self._wait()
        self._pending = self._counter.submit(self._count, parts, size)
        self._samples += size
        return size

    def statistics(self) -> Statistics:
        """What was counted so far; more may be added afterwards."""
        self._wait()
        found = {name: TensorStatistics.from_accumulator(state) for name, state in self._states.items()}
        return Statistics(self._hash, found)

    def close(self) -> None:
        """Ends the thread that counts."""
        self._counter.shutdown()

    def __enter__(self) -> Collector:
        """Itself, closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _count(self, parts: list[Activations], size: int) -> None:
        computed = len(parts) - 1
        for index, part in enumerate(parts):
            samples = 1 if computed > 1 and index < computed else size
            items = [
                (self._states[name], np.ascontiguousarray(array), _samples_of(array, samples))
                for name, array in part.items()
            ]
            accumulate(items, self._threads)


def _samples_of(array: npt.NDArray[np.float32], size: int) -> int:
    return size if array.ndim and array.shape[0] and array.shape[0] % size == 0 else 1


class _Runner:
    """Runs the tapped model batch by batch, or sample by sample once batching changed a bit.

    A model with a fixed axis 0 (a batch of that size, or an image without batch axis) cannot be run on less.

    Activations are written into two sets of buffers in turn: while one is counted the other is filled.
    """

    def __init__(self, session: Session, taps: list[str], *, free: bool) -> None:
        self._session = session
        self._taps = taps
        self._batching: bool | None = None if free else True
        self._shapes: Shapes | None = None
        self._buffers: tuple[Activations, Activations] = ({}, {})

    def run(self, feeds: Arrays, size: int) -> list[Activations]:
        """Activations of all samples, in one or ``size`` parts; valid until the call after the next."""
        if size == 1:
            return [self._activations(feeds)]
        if self._batching is None:
            self._batching = self._batching_is_exact(feeds, size)
        return [self._activations(feeds)] if self._batching else self._one_by_one(feeds, size)

    def _activations(self, feeds: Arrays) -> Activations:
        """Into the buffers where the shapes are those of the run before, into new arrays elsewhere."""
        shapes = {name: array.shape for name, array in feeds.items()}
        if shapes != self._shapes:
            found = self._fresh(feeds)
            self._shapes = shapes
            self._buffers = (found, {name: np.empty_like(array) for name, array in found.items()})
            return found
        self._buffers = self._buffers[::-1]
        try:
            self._session.run_into(feeds, self._buffers[0])
        except DataError:  # shapes that depend on values, or a real fault, which running afresh tells
            return self._fresh(feeds)
        return self._buffers[0]

    def _fresh(self, feeds: Arrays) -> Activations:
        return dict(zip(self._taps, self._session.run(feeds), strict=True))

    def _one_by_one(self, feeds: Arrays, size: int) -> list[Activations]:
        singles = [{name: _row(array, index) for name, array in feeds.items()} for index in range(size)]
        return [self._fresh(single) for single in singles]

    def _batching_is_exact(self, feeds: Arrays, size: int) -> bool:
        """Matrix products may sum in another order when they get more rows."""
        together = self._fresh(feeds)
        for index, single in enumerate(self._one_by_one(feeds, size)):
            for name, array in single.items():
                rows = array.shape[0] if array.ndim else 0
                share = together[name]
                if rows == 0 or share.shape[0] != size * rows:
                    return False
                if not np.array_equal(share[index * rows : (index + 1) * rows], array, equal_nan=True):
                    return False
        return True


def _row(array: npt.NDArray[np.generic], index: int) -> npt.NDArray[np.generic]:
    """One sample of a stacked array; a scalar belongs to every sample."""
    return array[index : index + 1] if array.ndim else array
