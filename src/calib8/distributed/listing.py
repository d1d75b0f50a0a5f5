"""From what the user calls data to units, in the order of the samples.

folder of pictures        some files each
.npz, .npy                some rows each
tar shards                one each
Parquet files             one each, or some rows where these are few files
pictures elsewhere        some each
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeVar

from calib8.calibration.gatherer import Gatherer
from calib8.data.arrays import rows_per_batch
from calib8.data.fit import fit_preprocess
from calib8.data.images import IMAGES
from calib8.data.items import Items
from calib8.data.parquet_rows import row_count
from calib8.data.places import Place, place_of
from calib8.data.presets import known_preprocess
from calib8.data.samples import spaced
from calib8.data.stored_files import StoredFile
from calib8.data.stored_parts import StoredParts
from calib8.data.stored_records import Part, parts_of
from calib8.distributed.units import Unit, stamp_of
from calib8.errors import DataError
from calib8.files import check_file

SAMPLES_PER_UNIT: Final = 256
"""So many samples are done again where a worker is lost, at most."""

FEW_FILES: Final = 64
UNITS_PER_READ: Final = 4
"""So many times as many rows of a Parquet file are one piece: its groups of rows are read whole."""

One = TypeVar("One", int, str, StoredFile)


@dataclass(frozen=True)
class Listed:
    """What is to be done.

    Attributes:
        units: pieces of it; their order counts for nothing.
        preprocess: how its images become inputs (``Preprocess.to_json``); None: arrays go in as they are.
    """

    units: tuple[Unit, ...]
    preprocess: str | None

    @property
    def samples(self) -> int | None:
        """How many, bad ones too; None where only reading tells."""
        known = [unit.samples for unit in self.units]
        return None if None in known else sum(filter(None, known))

    def labelled(self, labels: Sequence[int | None], source: str) -> Listed:
        """The same with labels.

        Args:
            labels: of all samples, in their order; empty: they come with them, or there are none.
            source: for messages.

        Raises:
            DataError: there are not as many of them as samples.
        """
        if not labels:
            return self
        if self.samples != len(labels):
            problem = f"has other samples than a moment ago ({self.samples}, {len(labels)})"
            raise DataError(
                source, problem, "Leave the data as they are while they are read; then start again"
            )
        ends = accumulate(unit.samples or 0 for unit in self.units)
        units = [
            replace(unit, labels=tuple(labels[end - (unit.samples or 0) : end]))
            for unit, end in zip(self.units, ends, strict=True)
        ]
        return replace(self, units=tuple(units))

    @property
    def digest(self) -> str:
        """SHA-256 over the keys of all units: other data, or data that were changed, have another one."""
        return hashlib.sha256("".join(sorted(unit.key for unit in self.units)).encode()).hexdigest()


def units_of(data: str, gatherer: Gatherer, samples: int | None, most: int = 0) -> Listed:
    """The units of a source that this machine sees.

    Args:
        data: a folder of pictures, a picture, an .npz or an .npy; tar shards, Parquet files or pictures
            behind an address, a pattern or braces, see ``calib8.data.places``.
        gatherer: what will count them.
        samples: at most so many, evenly spaced; None: all.
        most: samples per unit, 0 for what is usual; what the model takes at once stays together.

    Raises:
        DataError: there is nothing, or what is there does not fit the model.
        UsageError: pictures without preprocessing.
    """
    together = rows_per_batch(gatherer.inputs) or 1
    size = -(-(most or SAMPLES_PER_UNIT) // together) * together
    settings = gatherer.settings
    if (stored := place_of(data)) is not None:
        return _stored(data, stored, gatherer, samples, size)
    place = Path(data).resolve()
    if place.suffix.lower() in (".npz", ".npy") and not place.is_dir():
        # Opened here for what can be wrong with it; workers open it again.
        opened = replace(settings, data=str(place)).opened(gatherer.inputs)
        stamp, fitted = stamp_of([place]), opened.preprocess
        rows = spaced(opened.count or 0, samples)
        units = [Unit(str(place), stamp, rows=some) for some in _cut_rows(rows, size)]
    else:
        folder, names = _pictures(place)
        fitted = fit_preprocess(settings.preprocess, gatherer.inputs, data)
        files = [names[index] for index in spaced(len(names), samples)]
        units = [
            Unit(str(folder), stamp_of([folder / name for name in some]), files=some)
            for some in _cut(files, size)
        ]
    return Listed(tuple(units), None if fitted is None else fitted.to_json())


def _stored(data: str, place: Place, gatherer: Gatherer, samples: int | None, size: int) -> Listed:
    """Units of what lies in shards, in Parquet files, or elsewhere."""
    settings = gatherer.settings
    # Opened here for what can be wrong with it; workers open their parts.
    opened = replace(settings, data=data, samples=samples).opened(gatherer.inputs)
    fitted = None if opened.preprocess is None else opened.preprocess.to_json()
    if place.kind == "picture":
        files = [place.files[index] for index in spaced(len(place.files), samples)]
        held = [StoredParts(place.shown, pictures=some) for some in _cut(files, size)]
        names = [f"{place.shown}: {one.pictures[0].name} …" for one in held]
    else:
        preprocess = known_preprocess(settings.preprocess)
        items = Items(gatherer.inputs, preprocess, dict(settings.input_map or {}), settings.transform)
        parts = list(_small(parts_of(place, items, samples), size))
        held, names = [StoredParts(place.shown, (part,)) for part in parts], list(map(_part_name, parts))
    pairs = zip(held, names, strict=True)
    return Listed(tuple(Unit(name, "", stored=one.to_json()) for one, name in pairs), fitted)


def _small(parts: Sequence[Part], size: int) -> Iterator[Part]:
    """The same parts, those of a few Parquet files cut so that there is work for several machines."""
    for part in parts:
        if part.file.kind != "parquet" or len(parts) > FEW_FILES:
            yield part
            continue
        rows = range(row_count(part.file)) if part.rows is None else part.rows
        for some in _cut_rows(rows, size * UNITS_PER_READ):
            yield replace(part, rows=some)


def _part_name(part: Part) -> str:
    rows = "" if not part.rows else f"[{part.rows[0]} … {part.rows[-1]}]"
    return f"{part.file.name}{rows}"


def _pictures(place: Path) -> tuple[Path, list[str]]:
    if place.is_dir():
        return place, IMAGES.below(place)
    check_file(place, "Give a folder of pictures, an .npz or an .npy", DataError)
    return place.parent, [place.name]


def _cut(values: Sequence[One], size: int) -> Iterator[tuple[One, ...]]:
    for start in range(0, len(values), size):
        yield tuple(values[start : start + size])


def _cut_rows(rows: Sequence[int], size: int) -> Iterator[range | tuple[int, ...]]:
    """The same; rows that follow one another stay a range."""
    if isinstance(rows, range):
        yield from (rows[start : start + size] for start in range(0, len(rows), size))
    else:
        yield from _cut(rows, size)
