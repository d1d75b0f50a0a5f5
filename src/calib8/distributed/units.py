"""Units: what a worker does as one piece, and the key by which its result is known.

    unit    some files of a folder, some rows of an array file, a shard, rows of a Parquet file
    key     SHA-256 over where they lie, how large they are, when they were changed, and which they are

A unit says where its samples lie and holds none of them: the worker that gets it reads them itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.data.labelled_pieces import ArrayRows, FolderFiles
from calib8.data.samples import DataSource
from calib8.data.stored_arrays import StoredArray, open_arrays
from calib8.data.stored_parts import StoredParts, rows_of, told_range
from calib8.errors import DataError


@dataclass(frozen=True)
class Unit:
    """Some samples of a source; plain values, so that it goes through any queue.

    Attributes:
        source: the folder, or the array file.
        stamp: digest of sizes and times of change.
        files: paths of pictures relative to the folder.
        rows: of the array file; a range where they follow one another, which takes no more room for more.
        stored: what lies in shards, Parquet files or elsewhere (``StoredParts.to_json``); then no more.
        labels: of the samples, where they are known and wanted; empty: they come with them, or there are
            none.
    """

    source: str
    stamp: str
    files: tuple[str, ...] = ()
    rows: range | tuple[int, ...] = ()
    stored: str = ""
    labels: tuple[int | None, ...] = ()

    @property
    def samples(self) -> int | None:
        """How many samples it has, bad ones too; None where only reading tells."""
        if not self.stored:
            return len(self.files) + len(self.rows)
        held = StoredParts.from_json(self.stored)
        known = [None if part.rows is None else len(part.rows) for part in held.parts]
        return None if None in known else len(held.pictures) + sum(filter(None, known))

    @property
    def key(self) -> str:
        """What its result is known by, 64 hexadecimal digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def name(self) -> str:
        """For messages."""
        if self.stored:
            return self.source
        if self.files:
            more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
            return f"{self.source}: {self.files[0]}{more}"
        return f"{self.source}[{self.rows[0]} … {self.rows[-1]}]"

    def to_json(self) -> str:
        """As text; without labels it is that of the statistics of these samples."""
        held = asdict(self)
        if not self.labels:
            del held["labels"]
        return json.dumps(held, sort_keys=True, default=told_range)

    @classmethod
    def from_json(cls, text: str) -> Unit:
        """What ``to_json`` gave."""
        fields: dict[str, Any] = json.loads(text)
        several = {name: tuple(fields.get(name, ())) for name in ("files", "labels")}
        return cls(**fields | several | {"rows": rows_of(fields["rows"])})

    def records(self) -> DataSource:
        """The samples, as ``Gatherer.add`` takes them.

        Raises:
            DataError: the source is not there, or changed since the unit was made.
        """
        if self.stored:
            return replace(StoredParts.from_json(self.stored), labels=self.labels)
        place = Path(self.source)
        if not place.exists():
            cure = "Put the data where every machine of the cluster sees them under one path"
            raise DataError(self.source, "is not there on a machine of the cluster", cure)
        if self.files:
            self._check(stamp_of([place / name for name in self.files]))
            if self.labels:
                return FolderFiles(place, self.files, self.labels)
            return [place / name for name in self.files]
        self._check(stamp_of([place]))
        if self.labels:
            return ArrayRows(place, self.rows, self.labels)
        arrays = open_arrays(place)
        return {name: _rows(arrays[name], self.rows) for name in arrays if name != "labels"}

    def _check(self, stamp: str) -> None:
        if stamp != self.stamp:
            cure = "Leave the data as they are while they are read; then start again"
            raise DataError(self.name, "changed since the run began, or differs between machines", cure)


def stamp_of(files: Sequence[Path]) -> str:
    """Digest of the sizes of files and of when they were changed.

    Raises:
        DataError: one of them is not there.
    """
    digest = hashlib.sha256()
    for file in files:
        try:
            found = file.stat()
        except OSError as error:
            reason = error.strerror or str(error)
            raise DataError(str(file), f"cannot be found ({reason})", "Leave the data as they are") from error
        digest.update(f"{found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _rows(array: StoredArray, rows: Sequence[int]) -> npt.NDArray[np.generic]:
    return np.stack([array[row] for row in rows])
