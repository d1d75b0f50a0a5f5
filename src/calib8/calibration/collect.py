"""One forward pass over the data: every tapped activation becomes statistics and is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import onnx_ir as ir

from calib8._core import TensorAccumulator
from calib8.calibration.graph_taps import GraphTaps, channel_block
from calib8.calibration.output_taps import Outputs, OutputTaps
from calib8.calibration.statistics import Statistics, TensorStatistics, counting_isa
from calib8.data.arrays import rows_per_batch
from calib8.data.samples import Dataset
from calib8.data.whole import batched
from calib8.errors import Calib8Error, CalibrationError, DataError
from calib8.model.carried import Carried
from calib8.model.graph import graph_inputs, model_hash
from calib8.model.runtime import Arrays

FREE_BATCH: Final = 4
"""Samples per run that serve speed best where a model takes any number."""


def collect(
    model: ir.Model,
    tensors: Sequence[str],
    batches: Iterable[Arrays],
    *,
    threads: int = 2,
    bins: bool = True,
    on_batch: Callable[[int], None] = lambda samples: None,
) -> Statistics:
    """Statistics of the named tensors over all batches: a ``Collector`` that is given them one by one.

    Args:
        model: a prepared float graph.
        tensors: graph inputs or computed float32 tensors.
        batches: arrays per graph input; axis 0 holds the samples.
        threads: for the float model and for counting.
        bins: False for counts and extrema alone, which is faster.
        on_batch: called with the number of samples after each batch.

    Raises:
        DataError: there is no batch, or one does not fit the model.
        UsageError: CALIB8_ISA names an instruction set that is unknown or not available.
    """
    with Collector(model, tensors, threads=threads, bins=bins) as collector:
        for feeds in batches:
            on_batch(collector.add(feeds))
        if collector.samples == 0:
            raise DataError("calibration data", "holds no sample", "Give at least one image or array")
        return collector.statistics()


@dataclass(frozen=True, eq=False)
class CountingWork:
    """Statistics of the named tensors as work on all samples, see ``calib8.data.whole``."""

    model: Carried
    tensors: tuple[str, ...]
    batch: int = FREE_BATCH

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> Statistics:
        """Those of some samples."""
        with batched(dataset, self.batch, threads) as pieces:
            feeds = (piece.inputs for piece in pieces)
            return collect(self.model.model, self.tensors, feeds, threads=threads, on_batch=seen)

    def joined(self, first: Statistics, second: Statistics) -> Statistics:
        """Those of both."""
        return first.merge(second)


class Collector:
    """Runs the float model on batches and counts the values of the named tensors.

    The statistics do not depend on the order of the samples, on how they are split into batches, on
    ``threads``, or on where the values are counted: counts and extremes merge exactly, and a batch that
    ONNX Runtime computes with other bits than its samples one by one is run one by one. The first batch of
    every size is run both ways to know.

    A sample is an entry of axis 0 where that is the same batch axis in all inputs of the model, as
    ``calib8.data.batches`` has it; else all that is fed at once is one sample. A tensor whose axis 0 is no
    multiple of the batch belongs to the run as a whole and counts as one sample.

    Values are counted inside ONNX Runtime while they are in the cache. Where that cannot be, the tensors
    come out as graph outputs and are counted beside the next run; ``fallback`` says why.
    """

    def __init__(
        self,
        model: ir.Model,
        tensors: Sequence[str],
        *,
        threads: int = 2,
        bins: bool = True,
        in_graph: bool = True,
        outputs: bool = False,
    ) -> None:
        """Opens the model.

        Args:
            model: a prepared float graph.
            tensors: graph inputs or computed float32 tensors.
            threads: for the float model and for counting.
            bins: False for counts and extrema alone, which is faster.
            in_graph: False to count graph outputs.
            outputs: True to have those of the model, see ``outputs``.

        Raises:
            ModelError: a tensor is not computed, or ONNX Runtime cannot load the model.
            UsageError: CALIB8_ISA names an instruction set that is unknown or not available.
        """
        counting_isa()
        self._model, self._tensors = model, list(tensors)
        self._threads, self._bins, self._with_outputs = threads, bins, outputs
        self._rows = rows_per_batch(graph_inputs(model))
        self._hash = model_hash(model)
        self._exact: dict[int, bool] = {}
        self._samples = 0
        self._broken = False
        self._fallback = "" if in_graph else "not wanted"
        self._states = self._new_states()
        self._taps = self._opened()

    @property
    def samples(self) -> int:
        """Samples added so far."""
        return self._samples

    @property
    def fallback(self) -> str:
        """Why values are counted as graph outputs; empty where ONNX Runtime counts them inside its run."""
        return self._fallback

    @property
    def outputs(self) -> tuple[Outputs, ...]:
        """What the model yields for each sample of the latest batch, in the order of its outputs.

        Empty where they were not wanted, do not come apart into samples, or values are counted as graph
        outputs. The bits are those of the sample run alone.
        """
        return self._taps.outputs if self._with_outputs else ()

    @property
    def batch_size(self) -> int:
        """Samples to add at once: what the model takes, or what is fastest where it takes any number."""
        return self._rows or FREE_BATCH

    def add(self, feeds: Arrays) -> int:
        """Runs one batch and counts it; returns its number of samples.

        Args:
            feeds: one array per graph input.

        Raises:
            DataError: the arrays do not fit the model, or the run failed. If some tensors have been counted
                then, the collector is of no use any more.
        """
        self._require_whole()
        first = next(iter(feeds.values()))
        size = first.shape[0] if self._rows != 1 and first.ndim else 1
        try:
            self._run(feeds, size)
        except Calib8Error as error:
            if self._samples or isinstance(self._taps, OutputTaps):
                self._broken = self._taps.half_counted
                raise
            self._fall_back(error)
            self._run(feeds, size)
        self._samples += size
        return size

    def statistics(self) -> Statistics:
        """What was counted so far; more may be added afterwards.

        Raises:
            CalibrationError: a batch failed half-way.
        """
        self._require_whole()
        self._taps.wait()
        found = {name: TensorStatistics.from_accumulator(state) for name, state in self._states.items()}
        return Statistics(self._hash, found)

    def clear(self) -> None:
        """Forgets what was counted; the model stays open for the next samples.

        Raises:
            CalibrationError: a batch failed half-way.
        """
        self._require_whole()
        self._taps.wait()
        for state in self._states.values():
            state.clear()
        self._samples = 0

    def close(self) -> None:
        """Ends the threads."""
        self._taps.close()

    def __enter__(self) -> Collector:
        """Itself, closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def _run(self, feeds: Arrays, size: int) -> None:
        """A model with a fixed axis 0 (a batch, or an image without batch axis) cannot be run on less."""
        if size == 1 or self._rows is not None or self._exact.get(size):
            self._taps.together(feeds, size)
        elif size in self._exact:
            self._taps.apart(feeds, size)
        else:
            self._exact[size] = self._taps.both(feeds, size)

    def _opened(self) -> GraphTaps | OutputTaps:
        fed = {value.name for value in self._model.graph.inputs}
        if not self._fallback and not fed.issuperset(self._tensors):
            try:
                block = channel_block()
                return GraphTaps(
                    self._model, self._tensors, self._states, threads=self._threads, block=block,
                    outputs=self._with_outputs,
                )  # fmt: skip
            except Calib8Error as error:
                self._fallback = str(error)
        return OutputTaps(self._model, self._tensors, self._states, threads=self._threads)

    def _fall_back(self, error: Calib8Error) -> None:
        """Begins again with graph outputs; what is wrong with the batch itself is told by them."""
        self._fallback = str(error)
        self._states = self._new_states()
        self._exact = {}
        try:
            self._taps = self._opened()
        except Calib8Error:
            self._broken = True
            raise

    def _new_states(self) -> dict[str, TensorAccumulator]:
        return {name: TensorAccumulator(self._bins) for name in self._tensors}

    def _require_whole(self) -> None:
        if self._broken:
            raise CalibrationError(
                "collector", "was stopped half-way through a batch", "Collect anew without that batch"
            )
