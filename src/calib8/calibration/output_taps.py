"""Counting tapped tensors as graph outputs: works everywhere, needs memory and time for every tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import TensorAccumulator, accumulate
from calib8.calibration.cells import with_cells
from calib8.errors import DataError
from calib8.model.runtime import Arrays, Session, open_session
from calib8.model.taps import tapped_model

Activations = dict[str, npt.NDArray[np.float32]]
Outputs = list[npt.NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]


class OutputTaps:
    """Runs a model whose outputs are the tapped tensors and counts those on a thread beside the next run.

    Activations are written into two sets of buffers in turn: while one is counted the other is filled.
    """

    def __init__(
        self,
        model: ir.Model,
        tensors: Sequence[str],
        states: Mapping[str, TensorAccumulator],
        *,
        threads: int,
    ) -> None:
        """Opens the model; see ``Collector``."""
        fed = {value.name for value in model.graph.inputs}
        self._fed = [name for name in tensors if name in fed]
        self._taps = [name for name in tensors if name not in fed]
        self._session = self._opened(model, threads) if self._taps else None
        self._states = states
        self._threads = threads
        self._shapes: Shapes | None = None
        self._buffers: tuple[Activations, Activations] = ({}, {})
        self._counter = ThreadPoolExecutor(1, thread_name_prefix="calib8-count")
        self._pending: Future[None] | None = None

    def _opened(self, model: ir.Model, threads: int) -> Session:
        return open_session(tapped_model(with_cells(model, self._taps), self._taps), threads=threads)

    def together(self, feeds: Arrays, size: int) -> None:
        """Runs ``size`` samples at once and counts them, the latter beside the run that comes next."""
        self._submit([(self._activations(feeds), size)], feeds, size)

    def apart(self, feeds: Arrays, size: int) -> None:
        """The same, sample by sample."""
        self._submit([(single, 1) for single in self._singles(feeds, size)], feeds, size)

    def both(self, feeds: Arrays, size: int) -> bool:
        """Runs ``size`` samples at once and one by one, counts them once; whether all bits were the same."""
        try:
            together = self._fresh(feeds)
        except DataError:  # a model that cannot run a batch, whatever its inputs promise
            together = None
        singles = self._singles(feeds, size)
        self._submit([(single, 1) for single in singles], feeds, size)
        return together is not None and all(
            _is_share(together, single, index, size) for index, single in enumerate(singles)
        )

    @property
    def outputs(self) -> tuple[Outputs, ...]:
        """None: the outputs of the model are not computed."""
        return ()

    @property
    def half_counted(self) -> bool:
        """False: nothing is counted before its run has ended well."""
        return False

    def wait(self) -> None:
        """Returns when all is counted."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def close(self) -> None:
        """Ends the thread that counts."""
        self._counter.shutdown()

    def _submit(self, parts: list[tuple[Activations, int]], feeds: Arrays, size: int) -> None:
        fed = {name: np.asarray(feeds[name], np.float32) for name in self._fed}
        self.wait()
        self._pending = self._counter.submit(self._count, [*parts, (fed, size)])

    def _count(self, parts: list[tuple[Activations, int]]) -> None:
        for part, size in parts:
            items = [
                (self._states[name], np.ascontiguousarray(array), samples_of(array, size))
                for name, array in part.items()
            ]
            accumulate(items, self._threads)

    def _activations(self, feeds: Arrays) -> Activations:
        """Into the buffers where the shapes are those of the run before, into new arrays elsewhere."""
        if self._session is None:
            return {}
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
        if self._session is None:
            return {}
        return dict(zip(self._taps, self._session.run(feeds), strict=True))

    def _singles(self, feeds: Arrays, size: int) -> list[Activations]:
        return [self._fresh(one_sample(feeds, index)) for index in range(size)]


def one_sample(feeds: Arrays, index: int) -> dict[str, npt.NDArray[np.generic]]:
    """One sample of stacked arrays; a scalar belongs to every sample."""
    return {name: array[index : index + 1] if array.ndim else array for name, array in feeds.items()}


def apart(outputs: Outputs, size: int) -> tuple[Outputs, ...]:
    """The outputs of a run with ``size`` samples, one list per sample; none where that cannot be."""
    if size == 1:
        return (list(outputs),)
    if any(array.ndim == 0 or array.shape[0] % size for array in outputs):
        return ()
    return tuple(list(parts) for parts in zip(*(np.split(array, size) for array in outputs), strict=True))


def samples_of(array: npt.NDArray[np.float32], size: int) -> int:
    """How many samples an array of a run with ``size`` of them holds, see ``Collector``."""
    return size if array.ndim and array.shape[0] and array.shape[0] % size == 0 else 1


def _is_share(together: Activations, single: Activations, index: int, size: int) -> bool:
    """Matrix products may sum in another order when they get more rows."""
    for name, array in single.items():
        rows = array.shape[0] if array.ndim else 0
        share = together[name]
        if rows == 0 or share.shape[0] != size * rows:
            return False
        if not np.array_equal(share[index * rows : (index + 1) * rows], array, equal_nan=True):
            return False
    return True
