"""One forward pass over the data: every tapped activation becomes statistics and is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import TensorAccumulator, accumulate
from calib8.calibration.statistics import Statistics, TensorStatistics, counting_isa
from calib8.errors import DataError
from calib8.model.graph import model_hash
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
    """Statistics of the named tensors over all batches.

    The result does not depend on the order of the samples, on how they are split into batches or on
    ``threads``: counts and extremes merge exactly, and a batch that ONNX Runtime computes with other bits
    than its samples one by one is run one by one.

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
    counting_isa()
    fed = {value.name for value in model.graph.inputs}
    taps = [name for name in tensors if name not in fed]
    runner = _Runner(open_session(tapped_model(model, taps), threads=threads), taps) if taps else None
    states = {name: TensorAccumulator() for name in tensors}
    samples = 0
    with ThreadPoolExecutor(1, thread_name_prefix="calib8-count") as counter:
        pending: Future[None] | None = None
        for feeds in batches:
            parts = runner.run(feeds) if runner is not None else [{}]
            parts.append({name: np.asarray(feeds[name], np.float32) for name in tensors if name in fed})
            if pending is not None:
                pending.result()
            pending = counter.submit(_count, states, parts, threads)
            size = _batch_size(feeds)
            samples += size
            on_batch(size)
        if pending is not None:
            pending.result()
    if samples == 0:
        raise DataError("calibration data", "holds no sample", "Give at least one image or array")
    return Statistics(
        model_hash(model), {name: TensorStatistics.from_accumulator(states[name]) for name in tensors}
    )


def _count(states: dict[str, TensorAccumulator], parts: list[Activations], threads: int) -> None:
    for part in parts:
        accumulate([(states[name], np.ascontiguousarray(array)) for name, array in part.items()], threads)


def _batch_size(feeds: Arrays) -> int:
    first = next(iter(feeds.values()))
    return first.shape[0] if first.ndim else 1


class _Runner:
    """Runs the tapped model batch by batch, or sample by sample once batching changed a bit.

    A model with a fixed axis 0 (a batch of that size, or an image without batch axis) cannot be run on less.

    Activations are written into two sets of buffers in turn: while one is counted the other is filled.
    """

    def __init__(self, session: Session, taps: list[str]) -> None:
        self._session = session
        self._taps = taps
        fixed = any(spec.shape and isinstance(spec.shape[0], int) for spec in session.inputs)
        self._batching: bool | None = True if fixed else None
        self._shapes: Shapes | None = None
        self._buffers: tuple[Activations, Activations] = ({}, {})

    def run(self, feeds: Arrays) -> list[Activations]:
        """Activations of all samples, in one or several parts; valid until the call after the next."""
        size = _batch_size(feeds)
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
