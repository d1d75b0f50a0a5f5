"""The second pass over the data: values counted in the bins of another tool, whose limits are now known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8._core import layouts as native
from calib8.calibration.choose import refuse_non_finite
from calib8.calibration.layouts import Layout, LayoutCounts
from calib8.calibration.output_taps import Activations, OutputTaps
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS, needs_data_again
from calib8.calibration.statistics import Bins, Statistics, TensorStatistics
from calib8.data.arrays import rows_per_batch
from calib8.data.samples import Dataset
from calib8.data.whole import batched, found_of_all
from calib8.errors import CalibrationError
from calib8.model.carried import Carried
from calib8.model.graph import graph_inputs
from calib8.model.runtime import Arrays
from calib8.progress import Progress


def count_again(
    method: str,
    model: ir.Model,
    statistics: Statistics,
    dataset: Dataset,
    *,
    batch: int | None,
    threads: int,
    progress: Progress,
    without: Collection[str] = (),
) -> dict[str, LayoutCounts] | None:
    """What a method needs beside the statistics: counts in its own bins, None if it needs nothing.

    Args:
        method: name of a method.
        model, statistics, without: see ``collect_layouts``.
        dataset: the samples that the statistics are of.
        batch: samples per run, a matter of speed; None for one, as every tensor of a run is kept until it is
            counted: more would take much memory.
        threads: for decoding, the float model and counting.
        progress: see ``Progress``.

    Raises:
        CalibrationError, DataError: as ``collect_layouts``.
    """
    if not needs_data_again(method):
        return None
    layout = TWO_PASS_METHODS[method].layout
    work = LayoutWork(Carried(model), statistics, layout, frozenset(without), batch or 1)
    return work.counts(found_of_all(work, dataset, threads, "calibrating, second pass", progress))


def collect_layouts(
    model: ir.Model,
    statistics: Statistics,
    layout: Layout,
    batches: Iterable[Arrays],
    *,
    threads: int = 2,
    without: Collection[str] = (),
    on_batch: Callable[[int], None] = lambda samples: None,
) -> dict[str, LayoutCounts]:
    """Counts of the tensors of ``statistics`` in the bins that ``layout`` has for their largest magnitudes.

    As in the first pass, the result depends neither on the order of the samples nor on how they are split
    into batches nor on ``threads``.

    Args:
        model: the prepared float graph that the statistics were made of.
        statistics: of the first pass over the same data.
        layout: the bins.
        batches: arrays per graph input; axis 0 holds the samples.
        threads: for the float model and for counting.
        without: tensors whose range is known anyway.
        on_batch: called with the number of samples after each batch.

    Raises:
        CalibrationError: a tensor held NaN or infinite values, or has not the values of the first pass.
        DataError: a batch does not fit the model.
    """
    work = LayoutWork(Carried(model), statistics, layout, frozenset(without))
    return work.counts(work.of(batches, threads, on_batch))


@dataclass(frozen=True, eq=False)
class Counted:
    """What a part of the samples put into the bins of one tensor.

    Attributes:
        bins: int64 counts.
        below, outside: values in front of the first bin and beyond the last.
    """

    bins: Bins
    below: int
    outside: int

    def joined(self, other: Counted) -> Counted:
        """Of the samples of both."""
        return Counted(self.bins + other.bins, self.below + other.below, self.outside + other.outside)


@dataclass(frozen=True, eq=False)
class LayoutWork:
    """The second pass as work on all samples (``calib8.data.whole``); see ``collect_layouts``."""

    model: Carried
    statistics: Statistics
    layout: Layout
    without: frozenset[str]
    batch: int = 1

    def __post_init__(self) -> None:
        """Refuses tensors that have no bins."""
        refuse_non_finite(Statistics(self.statistics.model_hash, self._wanted))

    @property
    def _wanted(self) -> dict[str, TensorStatistics]:
        return {name: t for name, t in self.statistics.tensors.items() if name not in self.without}

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> dict[str, Counted]:
        """The counts of every tensor that is not all zeros."""
        with batched(dataset, self.batch, threads) as pieces:
            return self.of((piece.inputs for piece in pieces), threads, seen)

    def of(self, feeds: Iterable[Arrays], threads: int, seen: Callable[[int], None]) -> dict[str, Counted]:
        """The same of batches."""
        found = {name: t for name, t in self._wanted.items() if t.magnitude}
        counters = {name: self.layout.counter(t.magnitude) for name, t in found.items()}
        rows = rows_per_batch(graph_inputs(self.model.model))
        # All tensors of the first pass come out again: with others, ONNX Runtime might fuse other nodes.
        tensors = tuple(self.statistics.tensors)
        with closing(_LayoutTaps(self.model.model, tensors, counters, threads)) as taps:
            exact: dict[int, bool] = {}
            for batch in feeds:
                first = next(iter(batch.values()))
                size = first.shape[0] if rows != 1 and first.ndim else 1
                if size == 1 or rows is not None or exact.get(size):
                    taps.together(batch, size)
                elif size in exact:
                    taps.apart(batch, size)
                else:
                    exact[size] = taps.both(batch, size)
                seen(size)
            taps.wait()
        return {name: Counted(c.bins, c.below, c.outside) for name, c in counters.items()}

    def joined(self, first: dict[str, Counted], second: dict[str, Counted]) -> dict[str, Counted]:
        """Of the samples of both."""
        return {name: counts.joined(second[name]) for name, counts in first.items()}

    def counts(self, found: dict[str, Counted]) -> dict[str, LayoutCounts]:
        """Those of all samples.

        Raises:
            CalibrationError: they are not of the values of the first pass.
        """
        empty = LayoutCounts(self.layout, 0.0, np.zeros(self.layout.bins, np.int64))
        return {
            name: _checked(name, self.layout, found[name], first) if name in found else empty
            for name, first in self._wanted.items()
        }


class _LayoutTaps(OutputTaps):
    """Graph outputs that go into the bins of a layout; those of no counter are passed over."""

    def __init__(
        self,
        model: ir.Model,
        tensors: tuple[str, ...],
        counters: Mapping[str, native.KeyCounter],
        threads: int,
    ) -> None:
        super().__init__(model, tensors, {}, threads=threads)
        self._counters = counters

    def _count(self, parts: list[tuple[Activations, int]]) -> None:
        for part, _ in parts:
            found = [(self._counters[name], a) for name, a in part.items() if name in self._counters]
            native.count([(counter, np.ascontiguousarray(a)) for counter, a in found], self._threads)


def _checked(name: str, layout: Layout, counter: Counted, first: TensorStatistics) -> LayoutCounts:
    """The counts, if they are of as many values as the first pass saw, up to the largest of them."""
    counts = LayoutCounts(layout, first.magnitude, counter.bins)
    total = int(counts.bins.sum()) + counter.below + counter.outside
    if counter.outside or total != first.count or (layout.magnitudes and counter.below != first.zeros):
        raise CalibrationError(
            f"tensor '{name}'",
            f"had other values when the data was read again: {total} instead of {first.count}, "
            f"{counter.outside} of them beyond ±{first.magnitude:g}",
            "Give data that is the same every time",
        )
    return counts
