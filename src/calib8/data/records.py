"""Records that yield samples: encoded pictures and arrays, and rows that hold them.

    b"\\xff\\xd8…"                                   an encoded picture, whatever Pillow reads
    b"\\x93NUMPY…"                                   an array as .npy
    {"bytes": b"…", "path": "0.png"}                an image of Hugging Face that is not decoded
    {"__key__": "000/17", "jpg": b"…", "cls": b"3"} a row of WebDataset: columns are suffixes of files
    {"jpg": [b"…", b"…"], "cls": [3, 5]}            several rows, as a DataLoader joins them

A row of WebDataset has other columns too, such as ``json`` and ``txt``: those are left out.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.data.images import IMAGE_SUFFIXES, read_image
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.data.samples import Sample, image_sample
from calib8.errors import DataError
from calib8.parameters import either
from calib8.tensors import TensorSpec

NPY: Final = b"\x93NUMPY"
"""What an array as .npy begins with."""

KEYS: Final = ("__key__", "key")
"""Columns that name a row."""

CLASS_COLUMNS: Final = ("cls", "cls.txt")
"""Columns of WebDataset that hold a class number, as a number or as text."""


def mapped_input(name: str, column: str) -> str:
    """What a user writes so that an input takes a column."""
    return either(f"input_map={{'{name}': '{column}'}}", f"--input-map {name}={column}")


@dataclass(frozen=True)
class Naming:
    """What the samples of an item are called.

    Attributes:
        number: of the first of them, from 0.
        key: what the item itself is called; empty where it has no name.
    """

    number: int
    key: str = ""

    @property
    def one(self) -> str:
        """The item, or its only sample."""
        return self.key or f"sample {self.number}"

    def row(self, row: int) -> str:
        """One of several samples."""
        return f"{self.key}[{row}]" if self.key else f"sample {self.number + row}"


def is_encoded(value: Any) -> bool:
    """Whether a value is the bytes of a file, such as a picture or a .npy."""
    if isinstance(value, memoryview):  # one of numbers is an array
        return value.ndim == 1 and value.format in ("B", "c")
    return isinstance(value, (bytes, bytearray))


def is_stored_picture(value: Any) -> bool:
    """Whether a value is an image of Hugging Face that is not decoded: its bytes, or where they lie."""
    if not isinstance(value, Mapping) or not set(value) <= {"bytes", "path"}:
        return False
    return is_encoded(value.get("bytes")) or isinstance(value.get("path"), str)


def holds_encoded(value: Any) -> bool:
    """Whether ``opened`` gives something else than the value."""
    return is_encoded(value) or is_stored_picture(value)


def opened(value: Any, name: str) -> Any:
    """The bytes of a picture, an array, or the path of a picture; what is none of them as it is.

    Args:
        value: a column of a row, or an item.
        name: of the sample, subject of error messages.

    Raises:
        DataError: bytes that begin like .npy and are no array of numbers.
    """
    if is_stored_picture(value):
        held = value.get("bytes")
        return Path(value["path"]) if held is None else opened(held, name)
    if not is_encoded(value):
        return value
    content = bytes(value)
    return _array_of(content, name) if content.startswith(NPY) else content


def key_of(row: Any, inputs: Collection[str]) -> str:
    """What a row is called, the shard that it is from before it; empty where it has no name.

    Args:
        row: any item.
        inputs: names of the model's inputs, which are no names of rows.
    """
    if not isinstance(row, Mapping):
        return ""
    keys = (row[key] for key in KEYS if key in row and key not in inputs and _names_the_row(key, row[key]))
    key = next(filter(None, map(_text, keys)), "")
    url = row.get("__url__")
    shard = url.partition("?")[0].rstrip("/").rpartition("/")[2] if key and isinstance(url, str) else ""
    return f"{shard}/{key}" if shard else key


def columns_of(row: Mapping[str, Any], inputs: Collection[str], name: str) -> dict[str, Any]:
    """The columns of a row that inputs and labels are found among, opened; ``label`` where it has a class.

    Args:
        row: of any kind.
        inputs: names of the model's inputs.
        name: of the sample, subject of error messages.

    Raises:
        DataError: a class that is no number, a broken array.
    """
    shard = "__key__" in row and "__key__" not in inputs
    found: dict[str, Any] = {}
    for column, value in row.items():
        if column in inputs:
            found[column] = opened(value, name)
        elif column in CLASS_COLUMNS and (shard or _is_class(value)):
            found.setdefault("label", class_of(value, name))
        elif _names_the_row(column, value):
            continue
        elif not shard or _is_file_column(column, value):
            found[_input_of(column, inputs) if shard else column] = opened(value, name)
    return _meant(found, inputs) if shard else found


def is_class_text(value: Any) -> bool:
    """Whether a value is the text of a class number, as WebDataset stores it."""
    return is_encoded(value) and len(value) < 20 and bytes(value).strip().isdigit()


def class_of(value: Any, name: str) -> Any:
    """A class: text becomes a number, anything else is as it was.

    Raises:
        DataError: text that is no number.
    """
    if not isinstance(value, str) and not is_encoded(value):
        return value
    text = _text(value).strip()
    if text.isdecimal() and text.isascii():
        return int(text)
    shown = text if len(text) < 40 else f"{text[:40]}…"
    raise DataError(name, f"has the class {shown!r}", "Write a class number, 0 or more, as its text")


def rows_of(item: Any) -> Iterator[Any]:
    """The rows of an item that joins several as a DataLoader does; another item is a row itself."""
    if isinstance(item, Mapping):
        joined = [_length(value) for value in item.values() if _joins(value)]
        if joined and not is_stored_picture(item):
            yield from ({key: _row(value, row) for key, value in item.items()} for row in range(joined[0]))
            return
    elif isinstance(item, list) and item and all(map(holds_encoded, item)) and not is_class_text(item[-1]):
        yield from item
        return
    elif isinstance(item, (list, tuple)) and len(item) == 2 and _joins(item[0]):
        yield from ((_row(item[0], row), _row(item[1], row)) for row in range(_length(item[0])))
        return
    yield item


def encoded_sample(
    content: bytes, fitted: Preprocess, spec: TensorSpec, name: str, label: int | None
) -> Sample:
    """An encoded picture, preprocessed, as a sample of an input.

    Raises:
        DataError: it cannot be decoded, or what becomes of it does not fit the input.
    """
    image = read_image(io.BytesIO(content), name)
    return image_sample(apply_preprocess(image, fitted, name), spec, name, label)


def _array_of(content: bytes, name: str) -> npt.NDArray[np.generic]:
    try:
        array: npt.NDArray[np.generic] = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # broken headers raise what they like
        raise DataError(
            name, f"cannot be read as .npy ({error})", "Store arrays of numbers, whole"
        ) from error
    return array


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if is_encoded(value) else str(value)


def _names_the_row(column: Any, value: Any) -> bool:
    if column in KEYS:
        return isinstance(value, (str, bytes, int))
    return isinstance(column, str) and column.startswith("__")


def _is_class(value: Any) -> bool:
    """Whether a column ``cls`` of any row is one: not where it is an array."""
    return isinstance(value, (int, np.integer)) or is_class_text(value)


def _is_file_column(column: Any, value: Any) -> bool:
    """Whether a column of WebDataset may be a picture or an array: by its suffix, or as it is decoded."""
    if is_encoded(value):
        return _suffix(column) in IMAGE_SUFFIXES or _suffix(column) == ".npy"
    return not isinstance(value, (str, Mapping)) or is_stored_picture(value)


def _suffix(column: Any) -> str:
    return "." + str(column).lower().rpartition(".")[2]


def _input_of(column: str, inputs: Collection[str]) -> str:
    """``x.npy`` → ``x``, where that is an input."""
    stem, dot, _ = column.rpartition(".")
    return stem if dot and stem in inputs else column


def _meant(found: dict[str, Any], inputs: Collection[str]) -> dict[str, Any]:
    """Of columns of WebDataset those of inputs, else ``jpg`` rather than ``mask.png``; and labels."""
    named = {column: value for column, value in found.items() if column in inputs}
    plain = {column: value for column, value in found.items() if "." not in column and column != "label"}
    chosen = named or plain or found
    return {column: value for column, value in found.items() if column in chosen or column == "label"}


def _joins(value: Any) -> bool:
    """Whether a column holds encoded pictures or arrays of several rows."""
    if isinstance(value, Mapping):
        return set(value) == {"bytes", "path"} and isinstance(value["bytes"], (list, tuple))
    return isinstance(value, (list, tuple)) and bool(value) and all(map(holds_encoded, value))


def _length(value: Any) -> int:
    return len(value["bytes"] if isinstance(value, Mapping) else value)


def _row(value: Any, row: int) -> Any:
    """One row of a column; a text or a number belongs to all of them."""
    if isinstance(value, Mapping):
        return {key: _row(each, row) for key, each in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) <= row:
        return value
    return value[row]
