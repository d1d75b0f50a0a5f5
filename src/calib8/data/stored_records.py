"""Samples of tar shards, Parquet files and remote pictures: streamed, read ahead, nothing kept.

    place  →  parts (a file, and which of its rows)  →  the samples of each part

Parts are plain values, and the samples of one need no other: they can be read by different processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from calib8.data.arrays import rows_per_batch
from calib8.data.items import Items
from calib8.data.parquet_rows import chosen_columns, parquet_rows, row_count
from calib8.data.places import Place
from calib8.data.preprocess import Preprocess
from calib8.data.reading_ahead import read_ahead
from calib8.data.samples import Dataset, Pending, Sample, spaced
from calib8.data.stored_files import StoredFile
from calib8.data.tar_shards import tar_rows
from calib8.errors import DataError


@dataclass(frozen=True)
class Part:
    """Rows of one file.

    Attributes:
        file: a shard or a Parquet file.
        first: the first so many rows; None: all of them. Of tar shards.
        rows: numbers of rows, ascending; None: all of them. Of Parquet files.
        columns: those to read, of Parquet files.
    """

    file: StoredFile
    first: int | None = None
    rows: Sequence[int] | None = None
    columns: tuple[str, ...] = ()


def parts_of(place: Place, items: Items, samples: int | None) -> list[Part]:
    """What is read of each file, in the order of the files.

    Args:
        place: tar shards or Parquet files.
        items: how rows become samples.
        samples: at most so many: of S shards the first ``samples / S`` rows of each, the first shards one
            more where that leaves a rest; rows of Parquet files evenly spaced over all of them.

    Raises:
        UsageError: a package is missing.
        DataError: a Parquet file cannot be read, or lacks a column.
    """
    files = place.files
    if place.kind == "tar":
        if samples is None:
            return [Part(file) for file in files]
        share, rest = divmod(samples, len(files))
        shares = [share + (number < rest) for number in range(len(files))]
        return [Part(file, first=first) for file, first in zip(files, shares, strict=True) if first]
    names = [spec.name for spec in items.inputs]
    named = [str(column) for column in items.input_map.values()]
    columns = chosen_columns(files[0], names, named, items.transform is not None)
    if samples is None:
        return [Part(file, columns=columns) for file in files]
    bounds = np.cumsum([0, *map(row_count, files)])
    chosen = np.asarray(spaced(int(bounds[-1]), samples), np.int64)
    cuts = np.searchsorted(chosen, bounds)
    each = [
        tuple((chosen[a:b] - start).tolist()) for a, b, start in zip(cuts, cuts[1:], bounds, strict=False)
    ]
    return [Part(file, rows=rows, columns=columns) for file, rows in zip(files, each, strict=True) if rows]


def samples_of_part(part: Part, items: Items) -> Iterator[Pending]:
    """The samples of a part, in their order.

    A row that is bad by itself is a sample whose ``load`` raises; a file that is broken raises here.

    Raises:
        UsageError: a package is missing.
        DataError: the file cannot be read, or not to its end.
    """
    found = (_of_row(items, row, number, name) for number, (name, row) in enumerate(_named_rows(part)))
    return islice(chain.from_iterable(found), part.first)


def dataset_of_records(place: Place, items: Items, samples: int | None, skip_bad: bool) -> Dataset:
    """The samples of tar shards or Parquet files.

    Raises:
        UsageError: pictures without preprocessing, a package is missing.
        DataError: a file cannot be read, its first row is no sample.
    """
    return dataset_of_parts(parts_of(place, items, samples), place.shown, items, skip_bad)


def dataset_of_parts(parts: Sequence[Part], shown: str, items: Items, skip_bad: bool) -> Dataset:
    """The samples of some parts; ``shown`` names them in messages.

    Raises:
        UsageError, DataError: as ``dataset_of_records``.
    """
    fitted = _fitted(parts, items, skip_bad) if items.preprocess is not None else None

    def pending() -> Iterator[Pending]:
        return read_ahead(lambda: chain.from_iterable(samples_of_part(part, items) for part in parts))

    known = [len(part.rows) for part in parts if part.rows is not None]
    return Dataset(
        shown, pending, sum(known) if len(known) == len(parts) else None,
        rows_per_batch(items.inputs), fitted, skip_bad, [], left_out=items.left_out,
    )  # fmt: skip


def _named_rows(part: Part) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their names in messages: ``a.tar/000/17``, ``a.parquet[17]``, ``a.parquet[17] key``."""
    name = part.file.name
    if part.file.kind == "tar":
        return ((f"{name}/{row['__key__']}", row) for row in tar_rows(part.file))
    rows = parquet_rows(part.file, part.columns, part.rows)
    return ((f"{name}[{number}]{_key(row)}", row) for number, row in rows)


def _key(row: dict[str, Any]) -> str:
    key = row.get("__key__", row.get("key"))
    return f" {key}" if isinstance(key, (str, int)) and str(key) else ""


def _of_row(items: Items, row: dict[str, Any], number: int, name: str) -> list[Pending]:
    try:
        return list(items.pending(row, number, name))
    except DataError as error:
        return [Pending(name, partial(_raise, error), bytes)]


def _raise(error: Exception) -> Sample:
    raise error


def _fitted(parts: Sequence[Part], items: Items, skip_bad: bool) -> Preprocess | None:
    """What pictures go through; None where the first row that is a sample holds none."""
    for part in parts:
        for name, row in _named_rows(part):
            try:
                return items.fitted if items.is_picture(row, name) else None
            except DataError:
                if not skip_bad:
                    raise
    return None
