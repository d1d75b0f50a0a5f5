"""The second pass over the data: values counted in the bins of another tool, whose limits are now known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import onnx_ir as ir

from calib8._core import layouts as native
from calib8.calibration.choose import refuse_non_finite
from calib8.calibration.collect import Activations, _Runner
from calib8.calibration.layouts import Layout, LayoutCounts
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.data.arrays import rows_per_batch
from calib8.errors import CalibrationError
from calib8.model.graph import graph_inputs
from calib8.model.runtime import Arrays, open_session
from calib8.model.taps import tapped_model


def collect_layouts(
    model: ir.Model,
    statistics: Statistics,
    layout: Layout,
    batches: Iterable[Arrays],
    *,
    threads: int = 2,
    on_batch: Callable[[int], None] = lambda samples: None,
) -> dict[str, LayoutCounts]:
    """Counts of all tensors of ``statistics`` in the bins that ``layout`` has for their largest magnitudes.

    As in the first pass, the result depends neither on the order of the samples nor on how they are split
    into batches nor on ``threads``.

    Args:
        model: the prepared float graph that the statistics were made of.
        statistics: of the first pass over the same data.
        layout: the bins.
        batches: arrays per graph input; axis 0 holds the samples.
        threads: for the float model and for counting.
        on_batch: called with the number of samples after each batch.

    Raises:
        CalibrationError: a tensor held NaN or infinite values, or has not the values of the first pass.
        DataError: a batch does not fit the model.
    """
    refuse_non_finite(statistics)
    seen = statistics.tensors
    counters = {name: layout.counter(s.magnitude) for name, s in seen.items() if not s.is_degenerate}
    # All tensors of the first pass are outputs again: with others, ONNX Runtime might fuse other nodes.
    outputs = _GraphOutputs(model, tuple(seen), threads)
    pending: Future[None] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="calib8-count") as worker:
        for feeds in batches:
            parts, size = outputs.run(feeds)
            if pending is not None:
                pending.result()
            pending = worker.submit(_count, counters, parts, threads)
            on_batch(size)
        if pending is not None:
            pending.result()
    empty = np.zeros(layout.bins, np.int64)
    return {
        name: _checked(name, layout, counters[name], seen[name])
        if name in counters
        else LayoutCounts(layout, 0.0, empty)
        for name in seen
    }


class _GraphOutputs:
    """Runs the float model with the named tensors as outputs, batched where that changes no bit."""

    def __init__(self, model: ir.Model, tensors: tuple[str, ...], threads: int) -> None:
        inputs = graph_inputs(model)
        rows = rows_per_batch(inputs)
        fed = {spec.name for spec in inputs}
        taps = [name for name in tensors if name not in fed]
        self._fed = [name for name in tensors if name in fed]
        self._stacked = rows != 1
        self._runner = None
        if taps:
            session = open_session(tapped_model(model, taps), threads=threads)
            self._runner = _Runner(session, taps, free=rows is None)

    def run(self, feeds: Arrays) -> tuple[list[Activations], int]:
        """Values of all tensors, in parts that hold some of the samples each, and the number of samples."""
        first = next(iter(feeds.values()))
        size = first.shape[0] if self._stacked and first.ndim else 1
        parts = self._runner.run(feeds, size) if self._runner is not None else []
        return [*parts, {name: np.asarray(feeds[name], np.float32) for name in self._fed}], size


def _count(counters: dict[str, native.KeyCounter], parts: list[Activations], threads: int) -> None:
    for part in parts:
        items = [(counters[name], np.ascontiguousarray(a)) for name, a in part.items() if name in counters]
        native.count(items, threads)


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
