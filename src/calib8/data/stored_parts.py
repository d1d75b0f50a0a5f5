"""Some of what lies in tar shards, Parquet files or as pictures elsewhere, as data of its own.

Plain values: a cluster sends them to the machines that read them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from calib8.data.items import Items
from calib8.data.places import Place
from calib8.data.presets import known_preprocess
from calib8.data.samples import Dataset, OpenableData
from calib8.data.stored_files import StoredFile
from calib8.data.stored_pictures import dataset_of_pictures
from calib8.data.stored_records import Part, dataset_of_parts
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    from calib8.data.reading import Reading


@dataclass(frozen=True)
class StoredParts(OpenableData):
    """Parts of files, or pictures.

    Attributes:
        shown: what the user wrote, without secrets.
        parts: of tar shards or Parquet files.
        pictures: files, each a sample; where there are parts, none.
        labels: one per picture, where they are known; rows of parts have their own.
    """

    shown: str
    parts: tuple[Part, ...] = ()
    pictures: tuple[StoredFile, ...] = ()
    labels: tuple[int | None, ...] = ()

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """All samples, in their order.

        Raises:
            UsageError: pictures without preprocessing, a package is missing.
            DataError: a file cannot be read, its first row is no sample.
        """
        preprocess = known_preprocess(reading.preprocess)
        if self.pictures:
            place = Place(self.shown, "picture", self.pictures)
            return dataset_of_pictures(place, inputs, preprocess, None, None, reading.skip_bad, self.labels)
        items = Items(inputs, preprocess, dict(reading.input_map or {}), reading.transform)
        return dataset_of_parts(self.parts, self.shown, items, reading.skip_bad)

    def to_json(self) -> str:
        """As text, without labels; it may hold the secrets of addresses."""
        held = asdict(self)
        del held["labels"]
        return json.dumps(held, sort_keys=True, default=told_range)

    @classmethod
    def from_json(cls, text: str) -> StoredParts:
        """What ``to_json`` gave."""
        told: dict[str, Any] = json.loads(text)
        return cls(
            told["shown"],
            tuple(_part(one) for one in told["parts"]),
            tuple(StoredFile(**one) for one in told["pictures"]),
        )


def told_range(rows: range) -> dict[str, list[int]]:
    """Rows that follow one another, for ``json.dumps(default=…)``: three numbers, however many they are."""
    return {"range": [rows.start, rows.stop, rows.step]}


def rows_of(told: Any) -> range | tuple[int, ...]:
    """Row numbers as they were written, one by one or as ``told_range``."""
    return range(*told["range"]) if isinstance(told, dict) else tuple(told)


def _part(told: dict[str, Any]) -> Part:
    rows = None if told["rows"] is None else rows_of(told["rows"])
    return Part(StoredFile(**told["file"]), told["first"], rows, tuple(told["columns"]))
