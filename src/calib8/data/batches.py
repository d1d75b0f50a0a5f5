"""Batches of a dataset, decoded ahead of their use in threads, in the order of the dataset.

Memory is bounded: at most ``size + threads`` samples are loading or waiting beside the batch being filled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calib8.data.samples import Array, Dataset, Pending, Sample, Schedule
from calib8.errors import UsageError


@dataclass(frozen=True)
class Batch:
    """Consecutive samples.

    Attributes:
        inputs: one array per input of the model, the samples' arrays concatenated along axis 0.
        labels: one per sample.
        names: one per sample.
    """

    inputs: Mapping[str, Array]
    labels: tuple[int | None, ...]
    names: tuple[str, ...]


def batches(dataset: Dataset, size: int, threads: int) -> Generator[Batch, None, None]:
    """The dataset in batches of at most ``size`` rows, in order; the same ones for every number of threads.

    A model with a fixed batch axis gets that many rows instead of ``size``, fewer only in the last batch;
    samples that cannot be stacked come one by one. A new batch starts where the shape of the samples
    changes. A sample that has more rows than ``size`` is a batch of its own.

    Args:
        dataset: what ``open_dataset`` gave.
        size: rows (entries of axis 0) per batch, at least 1.
        threads: how many threads decode, at least 1.

    Returns:
        A generator; closing it ends the threads.

    Raises:
        UsageError: ``size`` or ``threads`` below 1.
        DataError: from iterating, when the bad sample's turn comes.
    """
    for name, value in (("batch size", size), ("threads", threads)):
        if value < 1:
            raise UsageError(name, f"{value} is too few", "Give at least 1")
    rows = dataset.rows_per_batch or size
    return _batched(dataset, rows, partial(_loaded_ahead, ahead=rows + threads, threads=threads))


def _batched(dataset: Dataset, rows: int, schedule: Schedule) -> Generator[Batch, None, None]:
    waiting: list[Sample] = []
    with closing(dataset.loaded(schedule)) as samples:
        for sample in samples:
            if waiting and not _stackable(waiting, sample, rows):
                yield _stacked(waiting)
                waiting = []
            waiting.append(sample)
            if _rows(waiting) >= rows:
                yield _stacked(waiting)
                waiting = []
        if waiting:
            yield _stacked(waiting)


def _stackable(waiting: list[Sample], sample: Sample, rows: int) -> bool:
    same = all(array.shape[1:] == waiting[0].inputs[name].shape[1:] for name, array in sample.inputs.items())
    return same and _rows([*waiting, sample]) <= rows


def _rows(samples: list[Sample]) -> int:
    first = [next(iter(sample.inputs.values())) for sample in samples]
    return sum(len(array) if array.ndim else 1 for array in first)


def _stacked(samples: list[Sample]) -> Batch:
    names = tuple(sample.name for sample in samples)
    labels = tuple(sample.label for sample in samples)
    if len(samples) == 1:
        return Batch(samples[0].inputs, labels, names)
    inputs = {name: np.concatenate([sample.inputs[name] for sample in samples]) for name in samples[0].inputs}
    return Batch(inputs, labels, names)


def _loaded_ahead(pending: Iterator[Pending], ahead: int, threads: int) -> Generator[Pending, None, None]:
    """The same samples in the same order, the next ``ahead`` of them loading or loaded."""
    queue: deque[Pending | Exception] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="calib8-data")
    try:
        exhausted = False
        while queue or not exhausted:
            while not exhausted and len(queue) < ahead:
                exhausted = _submit_next(pending, pool, queue)
            if queue:
                item = queue.popleft()
                if isinstance(item, Exception):  # of the source itself: no sample is passed over for it
                    raise item
                yield item
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submit_next(
    pending: Iterator[Pending], pool: ThreadPoolExecutor, queue: deque[Pending | Exception]
) -> bool:
    """Queues the next sample; True when there is none."""
    try:
        item = next(pending, None)
    except Exception as error:  # an error of the source itself waits for its turn like that of a sample
        queue.append(error)
        return True
    if item is not None:
        queue.append(replace(item, load=pool.submit(item.load).result))
    return item is None
