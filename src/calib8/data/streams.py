"""How the items of Python objects are gone through: again and again, in the same order.

    list, tuple, DataLoader …    as they are iterated
    Dataset of PyTorch or Hugging Face
                                 by number, evenly spaced where not all are wanted
    function                     called for every pass
    generator, shuffling loader, calibration reader
                                 read once; what was read is kept for the next pass

What is kept may take 2 GB.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from threading import Lock
from typing import Any, Final

from calib8.data.arrays import rows_per_batch
from calib8.data.given_tables import refuse_table
from calib8.data.items import Items
from calib8.data.raised import told, told_by_number
from calib8.data.samples import Dataset, Pending, spaced
from calib8.errors import DataError, UsageError
from calib8.parameters import Text, parameter

MOST_KEPT: Final = 2 << 30
"""Bytes of samples that are kept for a second pass."""

CLASSES_WANTED: Final = Text(
    "Give integers from 0, one per row; of one-hot vectors by "
    f"{parameter('transform')}=lambda item: (item[0], item[1].argmax(-1))"
)
"""Cure of labels of another kind."""


@dataclass(frozen=True)
class Stream:
    """Items of an object.

    Attributes:
        items: a new iterator over them.
        count: how many samples they are; None where only iterating tells.
        once: they cannot be had again.
    """

    items: Callable[[], Iterator[Any]]
    count: int | None = None
    once: bool = False


def stream_of(data: Any, samples: int | None) -> Stream:
    """What is known of an object that yields items.

    Args:
        data: the user's object.
        samples: so many are wanted; None: all.

    Raises:
        UsageError: it yields nothing.
    """
    if isinstance(data, type):  # a class is a function that makes an object
        return Stream(lambda: _returned(data))
    if _is_reader(data):
        return Stream(lambda: iter(data.get_next, None), once=True)
    if isinstance(data, Iterator):
        return Stream(lambda: data, once=True)
    if isinstance(data, (list, tuple)):
        return Stream(lambda: iter(data), len(data) if all(map(_is_one, data)) else None)
    if _is_numbered(data):
        numbers = spaced(len(data), samples)
        return Stream(lambda: told_by_number(data, numbers))
    if isinstance(data, Iterable):
        return Stream(lambda: iter(data), once=shuffles(data))
    if callable(data):
        return Stream(lambda: _returned(data))
    raise no_source(data)


def comes_once(data: object) -> bool:
    """Whether the samples of an object cannot be had again, or not in the same order."""
    return not isinstance(data, type) and (
        _is_reader(data) or isinstance(data, Iterator) or (not _is_numbered(data) and shuffles(data))
    )


def _is_reader(data: object) -> bool:
    """ONNX Runtime's ``CalibrationDataReader``, or what looks like one."""
    return callable(getattr(data, "get_next", None))


def no_source(data: object) -> UsageError:
    """Nothing can be read of such an object."""
    problem = f"an object of type {type(data).__name__} is not a source of samples"
    return UsageError("data", problem, "Pass a path, an array, or an iterable of arrays or pictures")


def shuffles(data: object) -> bool:
    """A ``DataLoader`` of PyTorch that may order its samples anew each time: any but the plain order."""
    if not hasattr(data, "sampler") or not hasattr(data, "batch_sampler"):
        return False
    samplers = [data.sampler, getattr(data.batch_sampler, "sampler", None)]
    plain = ("SequentialSampler", "_InfiniteConstantSampler", "NoneType")
    batches = type(data.batch_sampler).__name__ in ("BatchSampler", "NoneType")
    return not batches or any(type(sampler).__name__ not in plain for sampler in samplers)


def dataset_of(data: Any, items: Items, samples: int | None, skip_bad: bool) -> Dataset:
    """The samples of an object that yields items.

    Args:
        data: the user's object.
        items: what its items are.
        samples: at most so many, of objects with numbered samples evenly spaced, else the first.
        skip_bad: files that cannot be decoded are passed over.

    Raises:
        UsageError: it yields nothing, or is a table; pictures without preprocessing.
        DataError: its first item is no sample.
    """
    refuse_table(data, items.inputs)
    stream = stream_of(data, samples)
    stream = replace(stream, items=partial(told, stream.items, type(data).__name__))
    each = stream.items
    first: list[Any] = []
    if items.preprocess is not None:  # which says what the samples look like, where they are pictures
        first, each = _looked_at(stream)
    fitted = items.fitted if any(map(items.is_picture, first)) else None
    all_of = partial(_numbered, items=items)
    kept = _Kept(all_of(each()), data) if stream.once else None

    def pending() -> Iterator[Pending]:
        return islice(all_of(each()) if kept is None else iter(kept), samples)

    known = stream.count if samples is None or stream.count is None else min(stream.count, samples)
    rows = rows_per_batch(items.inputs)
    return Dataset(
        "data", pending, known, rows, fitted, skip_bad, [],
        labels_asked=True, left_out=items.left_out, label_cure=CLASSES_WANTED, total=stream.count,
    )  # fmt: skip


def _looked_at(stream: Stream) -> tuple[list[Any], Callable[[], Iterator[Any]]]:
    """The first item of a stream, if there is one, and its items: what was begun is the first pass."""
    rest = stream.items()
    first = list(islice(rest, 1))
    begun = [chain(first, rest)]
    return first, lambda: begun.pop() if begun else stream.items()


class _Kept:
    """Samples that can be had once, kept for further passes: as many as were asked for so far."""

    def __init__(self, samples: Iterator[Pending], data: object) -> None:
        self._rest, self._kind = samples, f"an object of type {type(data).__name__}"
        self._is_spent_once = isinstance(data, Iterator) or _is_reader(data)
        self._kept: list[Pending] = []
        self._held = 0
        self._lock = Lock()

    def __iter__(self) -> Iterator[Pending]:
        for place in count():
            with self._lock:
                if place == len(self._kept) and not self._take():
                    return
                sample = self._kept[place]
            yield sample

    def _take(self) -> bool:
        sample = next(self._rest, None)
        if sample is None:
            self._refuse_spent()
            return False
        self._held += sample.held
        if self._held > MOST_KEPT:
            problem = f"{self._kind} can be read only once, and keeping its samples takes more than 2 GB"
            cure = f"Pass a function that returns a new one each time, or fewer {parameter('samples')}"
            raise UsageError("data", problem, cure)
        self._kept.append(sample)
        return True

    def _refuse_spent(self) -> None:
        if self._is_spent_once and not self._kept:
            problem = f"{self._kind} gave no samples: it was read to its end before, or never had any"
            raise DataError("data", problem, "Give a new one, or a function that returns a new one each time")


def _numbered(stream: Iterator[Any], items: Items) -> Iterator[Pending]:
    """All samples of all items; a file that comes again has its number behind its name."""
    files: set[str] = set()
    number = 0
    for item in stream:
        for sample in items.pending(item, number):
            number += 1
            if sample.name in files:
                sample = _renamed(sample, f"{sample.name} ({number})")
            elif sample.name != f"sample {number - 1}":
                files.add(sample.name)
            yield sample


def _renamed(sample: Pending, name: str) -> Pending:
    return replace(sample, name=name, load=lambda: replace(sample.load(), name=name))


def _is_one(item: Any) -> bool:
    """An item that is one sample by its type."""
    if isinstance(item, (tuple, list)):
        return len(item) == 2 and not hasattr(item[1], "__len__") and _is_one(item[0])
    return isinstance(item, (Mapping, str)) or not hasattr(item, "ndim")


def _is_numbered(data: object) -> bool:
    methods = (getattr(type(data), name, None) for name in ("__getitem__", "__len__"))
    streaming = any(kind.__name__ == "IterableDataset" for kind in type(data).__mro__)
    return all(map(callable, methods)) and not streaming and not isinstance(data, (bytes, Sequence))


def _returned(function: Callable[..., Any]) -> Iterator[Any]:
    """The items of what a function returns."""
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        problem = f"the function {getattr(function, '__name__', '')} needs arguments ({error})"
        raise UsageError("data", problem, "Pass a function without, such as a lambda") from error
    except ValueError:  # a function of C without a signature
        pass
    returned = function()
    refuse_table(returned)
    if isinstance(returned, (str, bytes, Mapping, os.PathLike)) or callable(returned):
        raise no_source(returned)
    return stream_of(returned, None).items()
