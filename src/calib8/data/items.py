"""What an iterable yields, as samples: arrays, tensors, pictures, paths, pairs with labels, rows of tables.

    {input name: array}               as the model takes it, with a batch axis or without
    (any of these, label or labels)   what a labelled DataLoader yields
    array or tensor                   for a model with one input: a sample, or a batch of them
    uint8 pixels, Pillow image, path  goes through the preprocessing, as encoded pictures do
    {column: value}                   a row of a table with one picture or array in it
    bytes, rows of WebDataset …       see ``calib8.data.records``

Labels that are no class numbers (boxes, masks) are those of other tasks and left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from PIL import Image

from calib8.data.arrays import COLORS, as_array, conform_all, in_memory
from calib8.data.batch_axis import (
    has_samples_first,
    is_batch,
    sample_of,
    samples_in,
    share_a_batch_axis,
    with_batch,
)
from calib8.data.fingerprints import array_fingerprint, file_fingerprint
from calib8.data.fit import fit_preprocess
from calib8.data.images import undecodable
from calib8.data.labels import LABEL_NAMES, labels_of_rows, number_of, why_no_class
from calib8.data.preprocess import Preprocess, apply_preprocess, preprocess_pixels
from calib8.data.records import (
    Naming,
    class_of,
    columns_of,
    encoded_sample,
    is_class_text,
    is_encoded,
    is_stored_picture,
    key_of,
    mapped_input,
    opened,
    rows_of,
)
from calib8.data.samples import Array, Pending, Sample, file_sample, image_sample
from calib8.errors import DataError, UsageError
from calib8.parameters import Text, parameter
from calib8.tensors import TensorSpec
from calib8.type_texts import a_type

InputMap: TypeAlias = "Mapping[str, str | int]"
Transform: TypeAlias = "Callable[[Any], Any]"
_FORMS: Final = "Give {input name: array}, an array, a picture or a path, alone or as (…, label)"


@dataclass(frozen=True)
class Items:
    """How items become samples.

    Attributes:
        inputs: those of the model.
        preprocess: what pictures go through; None: the user gave none.
        input_map: input name, or ``label`` → column of a row, or place in a tuple; empty: by their names.
        transform: is called with every item and gives one of another form; None: they are as they are.
        left_out: why the first labels that were left out are no class numbers; empty while there are none.

    Raises:
        UsageError: an ``input_map`` that names what is no input, or not all of them.
    """

    inputs: Sequence[TensorSpec]
    preprocess: Preprocess | None
    input_map: InputMap = field(default_factory=dict)
    transform: Transform | None = None
    left_out: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        """Refuses an ``input_map`` that names what is no input, or not all."""
        names = [spec.name for spec in self.inputs]
        if not self.input_map:
            return
        unknown = [key for key in self.input_map if key not in (*names, "label")]
        missing = [name for name in names if name not in self.input_map]
        if unknown or missing:
            problem = f"names '{unknown[0]}'" if unknown else f"leaves out the input '{missing[0]}'"
            cure = f"Name each input of the model ({', '.join(names)}), and label where there are labels"
            raise UsageError(parameter("input_map"), problem, cure)

    @cached_property
    def fitted(self) -> Preprocess:
        """The preprocessing, fitted to the model's only input.

        Raises:
            UsageError: there is none, or it does not fit.
            DataError: the model has several inputs, or one that takes no pictures.
        """
        return fit_preprocess(self.preprocess, self.inputs, "data")

    def pending(self, item: Any, number: int, key: str = "") -> Iterator[Pending]:
        """The samples of an item, arrays copied: the iterable may use its arrays again.

        Args:
            item: what the iterable yielded.
            number: of its first sample, from 0.
            key: what the item is called; empty: what it calls itself.

        Raises:
            DataError: the item is nothing that samples can be made of.
        """
        for row in rows_of(self._transformed(item, key or f"sample {number}")):
            for sample in self._of_one(row, Naming(number, key or key_of(row, self._names))):
                number += 1
                yield sample

    def _of_one(self, item: Any, naming: Naming) -> Iterator[Pending]:
        """The samples of an item that is no more than one row."""
        name = naming.one
        values, labels = self._parted(item, name)
        if isinstance(values, Mapping):
            return self._of_arrays(values, labels, naming)
        if _is_picture_file(values):
            return iter([self._of_picture_file(values, self._labels(labels, 1, name)[0], naming)])
        array = as_array(values, name, self.inputs[0].name)
        if array.dtype.kind not in "biuf":
            problem = f"is of type {type(values).__name__}, of which no array of numbers can be made"
            raise DataError(name, problem, Text(f"{_FORMS}; or make one by {parameter('transform')}"))
        if self.holds_pixels(array):
            return self._of_pixels(array, labels, naming)
        return self._of_arrays({self.inputs[0].name: array}, labels, naming, rows=True)

    def holds_pixels(self, array: Array) -> bool:
        """Whether an array that was not given for an input by name is a picture, or a batch of them."""
        if array.dtype != np.uint8 or array.ndim not in (2, 3, 4) or len(self.inputs) != 1:
            return False
        return self.preprocess is not None or self.inputs[0].dtype != np.uint8

    def is_picture(self, item: Any, key: str = "") -> bool:
        """Whether an item, called ``key``, goes through the preprocessing.

        Raises:
            DataError: as ``pending``.
        """
        name = key or "sample 0"
        row = next(rows_of(self._transformed(item, name)))
        values, _ = self._parted(row, key or key_of(row, self._names) or name)
        if isinstance(values, Mapping):
            return False
        if _is_picture_file(values):
            return True
        return self.holds_pixels(as_array(values, "sample 0", self.inputs[0].name))

    def _transformed(self, item: Any, name: str) -> Any:
        if self.transform is None:
            return item
        try:
            return self.transform(item)
        except Exception as error:  # a function of the user's
            problem = f"{parameter('transform')} raised {type(error).__name__}: {error}"
            raise DataError(name, problem, "Mend the function; it gets what the data yield") from error

    def _parted(self, item: Any, name: str) -> tuple[Any, Any]:
        """What goes into the model, and labels or None."""
        if self.input_map:
            return self._mapped(item, name)
        if isinstance(item, Mapping) and not self._is_alone(item):
            return self._of_row(item, name)
        if not isinstance(item, (tuple, list)):
            return self._alone(item, name), None
        if len(item) not in (1, 2):
            cure = Text(
                f"Say which of them is what, such as {parameter('input_map')}={{'{self._first}': 0}}; "
                f"{parameter('transform')}=numpy.stack makes a batch of samples"
            )
            raise DataError(name, f"is {a_type(item)} of {len(item)}", cure)
        labels = item[1] if len(item) == 2 else None
        if is_class_text(labels):
            return self._parted([item[0]], name)[0], class_of(labels, name)
        if labels is not None and _may_be_two_samples(*item):
            problem = "are two of one kind, which may be two samples, or one and its target"
            cure = Text(
                f"Say which, such as {parameter('transform')}=numpy.stack, or a function that gives item[0]"
            )
            raise DataError(name, problem, cure)
        if isinstance(item[0], Mapping) and not self._is_alone(item[0]):
            return self._of_row(item[0], name)[0], labels
        return self._alone(item[0], name), labels

    @property
    def _first(self) -> str:
        return self.inputs[0].name

    @property
    def _names(self) -> list[str]:
        return [spec.name for spec in self.inputs]

    def _is_alone(self, item: Mapping[str, Any]) -> bool:
        """Whether a mapping is no row but one picture."""
        return is_stored_picture(item) and not set(item) & set(self._names)

    def _alone(self, value: Any, name: str) -> Any:
        """What has no name, for a model with one input."""
        if len(self.inputs) == 1:
            return opened(value, name)
        names = ", ".join(spec.name for spec in self.inputs)
        problem = f"is of type {type(value).__name__}, and the model has {len(self.inputs)} inputs"
        raise DataError(
            name, problem, f"Give {{input name: array}} for {names}, or name them by {parameter('input_map')}"
        )

    def _mapped(self, item: Any, name: str) -> tuple[Any, Any]:
        def at(key: str | int) -> Any:
            try:
                return item[key]
            except Exception as error:  # whatever an item may be
                held = f" ({', '.join(map(str, item))})" if isinstance(item, Mapping) else ""
                kind, asked = f"{type(item).__name__}{held}", parameter("input_map")
                problem = f"is of type {kind} without {key!r}, which {asked} names"
                raise DataError(name, problem, "Name columns or places that every item has") from error

        names = [spec.name for spec in self.inputs]
        found = {key: opened(at(place), name) for key, place in self.input_map.items() if key in names}
        named = "label" in self.input_map and "label" not in names
        labels = class_of(at(self.input_map["label"]), name) if named else None
        if len(names) == 1 and _is_picture_like(found[names[0]], self):
            return found[names[0]], labels
        return found, labels

    def _of_row(self, row: Mapping[str, Any], name: str) -> tuple[Any, Any]:
        """Arrays under the names of the inputs, or the only column that could be meant."""
        names, row = self._names, columns_of(row, self._names, name)
        label = next((row[key] for key in LABEL_NAMES if key in row and key not in names), None)
        rest = {key: value for key, value in row.items() if key in names or key not in LABEL_NAMES}
        if len(names) > 1:
            return rest, label
        if names[0] in row:
            return (row[names[0]] if _is_picture_file(row[names[0]]) else rest), label
        columns = [key for key, value in rest.items() if _could_be_input(value)]
        if len(columns) != 1:
            held = ", ".join(map(str, row)) or "nothing"
            problem = f"holds {held}, and no array for input '{names[0]}'"
            cure = Text(f"Say which is meant, such as {mapped_input(names[0], (columns or ['image'])[0])}")
            raise DataError(name, problem if columns else f"has no array for input '{names[0]}'", cure)
        return row[columns[0]], label

    def _of_arrays(
        self, values: Mapping[str, Any], labels: Any, naming: Naming, rows: bool = False
    ) -> Iterator[Pending]:
        """One sample, or one per row where there is a label for each, or ``rows`` come without a name."""
        name = naming.one
        specs = {spec.name: spec for spec in self.inputs}
        whole = {key: with_batch(value, specs.get(key), name, key) for key, value in values.items()}
        if rows and has_samples_first(whole[self._first], self.inputs[0], name, number_of(labels)):
            yield from self._turned(whole[self._first], labels, naming)
            return
        count = samples_in(whole, self.inputs)
        apart = not share_a_batch_axis(self.inputs)
        each = self._labels(labels, count, name, apart=apart)
        if count < 2 or apart or (each[0] is None and not (rows and is_batch(self.inputs[0], count))):
            yield _ready(self._sample(name, whole, each[0]))
            return
        for row in range(count):
            part = sample_of(whole, self.inputs, row)
            yield _ready(self._sample(naming.row(row), part, each[row]))

    def _turned(self, array: Array, labels: Any, naming: Naming) -> Iterator[Pending]:
        """The rows of an array, each with the axis for samples where the model's only input has it."""
        for row, label in enumerate(self._labels(labels, len(array), naming.one)):
            part = {self._first: np.expand_dims(array[row], self.inputs[0].batch_axis)}
            yield _ready(self._sample(naming.row(row), part, label))

    def _labels(self, labels: Any, rows: int, name: str, *, apart: bool = False) -> list[int | None]:
        found = labels_of_rows(labels, rows, name, apart=apart)
        if labels is not None and found[0] is None and not self.left_out:
            why = why_no_class(labels, name)
            self.left_out.extend([why] if why else [])
        return found

    def _sample(self, name: str, values: Mapping[str, Array], label: int | None) -> Sample:
        checked = conform_all(values, self.inputs, name)
        return Sample(name, {key: array.copy() for key, array in checked.items()}, label)

    def _of_pixels(self, array: Array, labels: Any, naming: Naming) -> Iterator[Pending]:
        """A picture H×W, H×W×C or C×H×W, or a batch of them."""
        pictures = array[None] if self._is_one_picture(array) else array
        each = self._labels(labels, len(pictures), naming.one)
        for row, picture in enumerate(pictures):
            if picture.ndim == 3 and picture.shape[-1] not in COLORS and picture.shape[0] in COLORS:
                picture = np.moveaxis(picture, 0, -1)
            name, label = naming.row(row) if len(pictures) > 1 else naming.one, each[row]
            kept = np.ascontiguousarray(picture).copy()
            load = partial(self._loaded_pixels, kept, label, name)
            yield Pending(name, load, partial(array_fingerprint, {"": kept}), kept.nbytes)

    def _is_one_picture(self, array: Array) -> bool:
        if array.ndim != 3 or array.shape[-1] in COLORS:
            return array.ndim < 4
        gray = self.preprocess is not None and self.preprocess.color == "gray"
        return array.shape[0] in (COLORS[:1] if gray else COLORS)

    def _loaded_pixels(self, pixels: Any, label: int | None, name: str) -> Sample:
        return image_sample(preprocess_pixels(pixels, self.fitted, name), self.inputs[0], name, label)

    def _of_picture_file(self, picture: Any, label: int | None, naming: Naming) -> Pending:
        """A picture that is no array."""
        if _is_path(picture):
            return self._of_file(Path(picture), label)
        if isinstance(picture, Image.Image):
            return self._of_picture(picture, label, naming.one)

        def load() -> Sample:
            return encoded_sample(picture, self.fitted, self.inputs[0], naming.one, label)

        return Pending(naming.one, load, lambda: hashlib.sha256(picture).digest(), len(picture))

    def _of_picture(self, picture: Image.Image, label: int | None, name: str) -> Pending:
        try:
            kept = picture.copy()  # files of pictures may be closed with the next item
        except Exception as error:  # Pillow's decoders let many types escape from broken files
            return Pending(name, partial(_raise, undecodable(name, error)), lambda: b"")

        def load() -> Sample:
            return image_sample(apply_preprocess(kept, self.fitted, name), self.inputs[0], name, label)

        def fingerprint() -> bytes:
            shown = kept.convert("RGBA") if kept.mode in ("P", "PA") else kept
            return array_fingerprint({shown.mode: np.asarray(shown)})

        return Pending(name, load, fingerprint, kept.width * kept.height * len(kept.getbands()))

    def _of_file(self, path: Path, label: int | None) -> Pending:
        name = str(path)

        def load() -> Sample:
            return file_sample(path, self.fitted, self.inputs[0], name, label)

        return Pending(name, load, partial(file_fingerprint, path))


def _may_be_two_samples(first: Any, second: Any) -> bool:
    """Two pictures, or two arrays of one shape that are no single numbers."""
    if is_encoded(first) and is_encoded(second):
        return True
    if isinstance(first, Image.Image) and isinstance(second, Image.Image):
        return first.size == second.size and first.mode == second.mode
    if any(_is_picture_file(one) or isinstance(one, Mapping) for one in (first, second)):
        return False
    try:
        shapes = [np.shape(in_memory(one)) for one in (first, second)]
    except Exception:  # ragged, or foreign types
        return False
    return shapes[0] == shapes[1] and len(shapes[0]) > 0


def _raise(error: DataError) -> Sample:
    raise error


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_picture_file(value: Any) -> bool:
    """A picture that is no array: Pillow's, encoded, or where one lies."""
    return _is_path(value) or isinstance(value, (Image.Image, bytes))


def _is_picture_like(value: Any, items: Items) -> bool:
    if _is_picture_file(value):
        return True
    array = np.asarray(in_memory(value))
    return items.holds_pixels(array) or array.ndim != len(items.inputs[0].shape or array.shape)


def _could_be_input(value: Any) -> bool:
    """Pictures, and arrays that are no single numbers."""
    if isinstance(value, (Image.Image, bytes, os.PathLike)):
        return True
    if isinstance(value, (str, Mapping)):
        return False
    try:
        array = np.asarray(in_memory(value))
    except Exception:  # foreign types raise what they like
        return False
    return array.ndim > 0 and array.dtype.kind in "biuf"


def _ready(sample: Sample) -> Pending:
    size = sum(array.nbytes for array in sample.inputs.values())
    return Pending(sample.name, lambda: sample, partial(array_fingerprint, sample.inputs), size)
