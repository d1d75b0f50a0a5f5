"""The second pass over the data: values counted in the bins of another tool, whose limits are now known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing

import numpy as np
import onnx_ir as ir

from calib8._core import layouts as native
from calib8.calibration.choose import refuse_non_finite
from calib8.calibration.layouts import Layout, LayoutCounts
from calib8.calibration.output_taps import Activations, OutputTaps
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS, needs_data_again
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.data.arrays import rows_per_batch
from calib8.data.batches import batches as batches_of
from calib8.data.samples import Dataset
from calib8.errors import CalibrationError
from calib8.model.graph import graph_inputs
from calib8.model.runtime import Arrays
from calib8.progress import Progress, SampleCounter


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
    seen = SampleCounter("calibrating, second pass", dataset.count, progress)
    with closing(batches_of(dataset, batch or 1, threads)) as pieces:
        feeds = (piece.inputs for piece in pieces)
        return collect_layouts(
            model, statistics, layout, feeds, threads=threads, without=without, on_batch=seen
        )


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
    seen = {name: found for name, found in statistics.tensors.items() if name not in without}
    refuse_non_finite(Statistics(statistics.model_hash, seen))
    counters = {name: layout.counter(found.magnitude) for name, found in seen.items() if found.magnitude}
    rows = rows_per_batch(graph_inputs(model))
    # All tensors of the first pass come out again: with others, ONNX Runtime might fuse other nodes.
    with closing(_LayoutTaps(model, tuple(statistics.tensors), counters, threads)) as taps:
        exact: dict[int, bool] = {}
        for feeds in batches:
            first = next(iter(feeds.values()))
            size = first.shape[0] if rows != 1 and first.ndim else 1
            if size == 1 or rows is not None or exact.get(size):
                taps.together(feeds, size)
            elif size in exact:
                taps.apart(feeds, size)
            else:
                exact[size] = taps.both(feeds, size)
            on_batch(size)
        taps.wait()
    empty = LayoutCounts(layout, 0.0, np.zeros(layout.bins, np.int64))
    return {
        name: _checked(name, layout, counters[name], seen[name]) if name in counters else empty
        for name in seen
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


def _checked(name: str, layout: Layout, counter: native.KeyCounter, first: TensorStatistics) -> LayoutCounts:
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
