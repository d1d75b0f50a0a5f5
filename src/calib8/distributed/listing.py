"""From what the user calls data to units, in the order of the samples.

folder of pictures        some files each
.npz, .npy                some rows each
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from calib8.calibration.gatherer import Gatherer
from calib8.data.arrays import rows_per_batch
from calib8.data.fit import fit_preprocess
from calib8.data.images import image_files
from calib8.data.samples import spaced
from calib8.distributed.units import Unit, stamp_of
from calib8.errors import DataError
from calib8.files import check_address, check_file

SAMPLES_PER_UNIT: Final = 256
"""So many samples are done again where a worker is lost, at most."""

One = TypeVar("One", int, str)


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
    def samples(self) -> int:
        """How many, bad ones too."""
        return sum(unit.samples for unit in self.units)

    @property
    def digest(self) -> str:
        """SHA-256 over the keys of all units: other data, or data that were changed, have another one."""
        return hashlib.sha256("".join(sorted(unit.key for unit in self.units)).encode()).hexdigest()


def units_of(data: str, gatherer: Gatherer, samples: int | None, most: int = 0) -> Listed:
    """The units of a source that this machine sees.

    Args:
        data: a folder of pictures, a picture, an .npz or an .npy.
        gatherer: what will count them.
        samples: at most so many, evenly spaced; None: all.
        most: samples per unit, 0 for what is usual; what the model takes at once stays together.

    Raises:
        DataError: there is nothing, or what is there does not fit the model.
        UsageError: pictures without preprocessing.
    """
    check_address(data, DataError)
    place = Path(data).resolve()
    together = rows_per_batch(gatherer.inputs) or 1
    size = -(-(most or SAMPLES_PER_UNIT) // together) * together
    settings = gatherer.settings
    if place.suffix.lower() in (".npz", ".npy") and not place.is_dir():
        # Opened here for what can be wrong with it; workers open it again.
        opened = replace(settings, data=str(place)).opened(gatherer.inputs)
        stamp, fitted = stamp_of([place]), opened.preprocess
        rows = spaced(opened.count or 0, samples)
        units = [Unit(str(place), stamp, rows=some) for some in _cut(rows, size)]
    else:
        folder, names = _pictures(place)
        fitted = fit_preprocess(settings.preprocess, gatherer.inputs, data)
        files = [names[index] for index in spaced(len(names), samples)]
        units = [
            Unit(str(folder), stamp_of([folder / name for name in some]), files=some)
            for some in _cut(files, size)
        ]
    return Listed(tuple(units), None if fitted is None else fitted.to_json())


def _pictures(place: Path) -> tuple[Path, list[str]]:
    if place.is_dir():
        return place, image_files(place)
    check_file(place, "Give a folder of pictures, an .npz or an .npy", DataError)
    return place.parent, [place.name]


def _cut(values: Sequence[One], size: int) -> Iterator[tuple[One, ...]]:
    for start in range(0, len(values), size):
        yield tuple(values[start : start + size])
