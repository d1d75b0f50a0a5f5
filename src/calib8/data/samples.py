"""Samples of any source — image folders, .npz, .npy, iterables — through one re-iterable ``Dataset``."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.data.arrays import as_array, conform, conform_all, rows_per_batch
from calib8.data.fingerprints import array_fingerprint, file_fingerprint
from calib8.data.fit import fit_preprocess
from calib8.data.images import IMAGE_SUFFIXES, image_files, read_image
from calib8.data.labels import array_of_labels, integer_label, labels_beside, labels_of_folder, no_labels
from calib8.data.preprocess import Preprocess, apply_preprocess, preprocess_pixels
from calib8.data.presets import known_preprocess
from calib8.data.stored_arrays import StoredArray, open_arrays
from calib8.errors import DataError, UsageError
from calib8.files import check_file, checked_path
from calib8.parameters import Text, parameter
from calib8.tensors import TensorSpec, shape_text

Array: TypeAlias = npt.NDArray[np.generic]
Rows: TypeAlias = "Array | StoredArray"
Item: TypeAlias = "Mapping[str, Any] | tuple[Mapping[str, Any], Any]"
Items: TypeAlias = "Iterable[Item] | Callable[[], Iterable[Item]]"
DataSource: TypeAlias = "str | os.PathLike[str] | npt.NDArray[Any] | Mapping[str, Any] | Items"


@dataclass(frozen=True)
class Sample:
    """One sample.

    Attributes:
        name: file name relative to its folder, ``file[row]``, or ``sample n``.
        inputs: one array per input of the model, of its dtype; axis 0 is the batch, of length 1 for images.
        label: class number >= 0, or None.
    """

    name: str
    inputs: Mapping[str, Array]
    label: int | None


@dataclass(frozen=True)
class Pending:
    """A sample that is not decoded yet; ``load`` and ``fingerprint`` may run in any thread.

    Attributes:
        name: that of the sample.
        load: decodes it.
        fingerprint: SHA-256 of what it is decoded from; empty where that cannot be read.
    """

    name: str
    load: Callable[[], Sample]
    fingerprint: Callable[[], bytes]


Schedule: TypeAlias = "Callable[[Iterator[Pending]], Generator[Pending, None, None]]"


@dataclass(frozen=True)
class Skipped:
    """A bad image that was passed over."""

    name: str
    reason: str


@dataclass
class Dataset:
    """A source of samples that gives the same ones, in the same order, on every iteration.

    Attributes:
        source: what it was opened from, for messages.
        pending: a new iterator over the samples to come.
        count: number of samples before bad images are skipped; None where only iterating tells.
        rows_per_batch: rows (entries of axis 0) the model takes at once; None: any number; 1 also where
            the samples cannot be stacked.
        preprocess: what images go through, size and layout filled in; None where arrays go in as they are.
        skip_bad: bad images are passed over instead of raised.
        skipped: those of the latest iteration, in order.
        taken: good samples that were used up before and do not come any more, see ``Trail``.
        labels_asked: the user named the labels; they were not just found beside the samples.
        label_note: why labels that were found are not used; empty where there are none, or they are.
        label_cure: what to do about labels that do not fit.
    """

    source: str
    pending: Callable[[], Iterator[Pending]]
    count: int | None
    rows_per_batch: int | None
    preprocess: Preprocess | None
    skip_bad: bool
    skipped: list[Skipped]
    taken: int = 0
    labels_asked: bool = False
    label_note: str = ""
    label_cure: str = "Mend them, or give inputs alone"

    def __iter__(self) -> Iterator[Sample]:
        """The samples, decoded one by one.

        Raises:
            DataError: a sample is bad (and not to be skipped), or there is none at all.
        """
        return self.loaded(_one_by_one)

    def loaded(self, schedule: Schedule) -> Generator[Sample, None, None]:
        """The samples, where ``schedule`` may start loading ahead but keeps the order.

        Raises:
            DataError: as for iterating.
        """
        self.skipped.clear()
        given = self.taken
        with closing(schedule(self.pending())) as items:
            for item in items:
                try:
                    sample = item.load()
                except DataError as error:
                    if not self.skip_bad:
                        raise
                    self.skipped.append(Skipped(item.name, error.problem))
                    continue
                given += 1
                yield sample
        if not given:
            bad = f", {len(self.skipped)} bad ones were skipped" if self.skipped else ""
            raise DataError(
                self.source, f"gave no samples{bad}", "Give at least one; a function must start anew"
            )


def open_dataset(
    data: DataSource,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | str | None,
    *,
    labels: str | os.PathLike[str] | None = None,
    samples: int | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """Opens images or arrays as samples for the inputs of a model.

    Args:
        data: one of
            an image folder (recursive, in ascending order of the relative paths) or one image file;
            an .npz of arrays named like the model's inputs, axis 0 = samples, with optional ``labels``;
            an .npz of ``images`` (uint8 N×H×W×C pixels, or floats ready for the only input) with optional
            ``labels``; an .npy, an array or a mapping of arrays, read like these;
            an iterable, or a function without arguments that returns one, of {input name: array} or
            ({input name: array}, label), where the arrays have the model's shape, batch axis included.
        inputs: the inputs of the model.
        preprocess: how images become arrays, or the name of a preset; only for images and uint8 pixels.
        labels: a list of ``file label`` lines for an image folder, see ``folder_labels``. Labels that are
            found without it and do not fit are left out, and ``Dataset.label_note`` says why.
        samples: at most so many: evenly spaced over a folder or arrays, the first of an iterable.
        skip_bad: image files that cannot be read are noted in ``Dataset.skipped`` instead of raised.

    Raises:
        UsageError: options that do not fit the data, a one-shot iterator, images without preprocessing.
        DataError: nothing there, or ``labels``, names, shapes or dtypes that do not fit. What only reading a
            sample can tell is raised by iterating.
    """
    preprocess = known_preprocess(preprocess)
    check_samples(samples)
    path = Path(data) if isinstance(data, (str, os.PathLike)) else None
    listed = None if labels is None else checked_path(labels, "labels")
    if labels is not None and (path is None or not path.is_dir()):
        cure = "Put an array 'labels' into the .npz, or yield (inputs, label) pairs"
        raise UsageError(str(labels), "a list of labels needs an image folder", cure)
    if path is not None and (path.is_dir() or path.suffix.lower() not in (".npz", ".npy")):
        return _from_images(path, inputs, preprocess, listed, samples, skip_bad)
    if path is not None:
        return _from_arrays(open_arrays(path), path.name, inputs, preprocess, samples)
    if isinstance(data, np.ndarray):
        return _from_arrays({"images": data}, "array", inputs, preprocess, samples)
    if isinstance(data, Mapping):
        arrays = {str(name): _in_memory(str(name), value) for name, value in data.items()}
        return _from_arrays(arrays, "arrays", inputs, preprocess, samples)
    return _from_iterable(data, inputs, samples)


def check_samples(samples: int | None) -> None:
    """Refuses a number of samples below 1.

    Raises:
        UsageError: it is.
    """
    if samples is not None and samples < 1:
        raise UsageError(parameter("samples", samples), "is too few", "Give at least 1")


def _from_images(
    path: Path,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    labels: Path | None,
    samples: int | None,
    skip_bad: bool,
) -> Dataset:
    folder, files = _listed_images(path)
    found = labels_of_folder(folder, files, labels) if path.is_dir() else no_labels(1)
    fitted = fit_preprocess(preprocess, inputs, str(path))
    load = partial(_load_image, folder, fitted, inputs[0])

    def pending() -> Iterator[Pending]:
        for index in spaced(len(files), samples):
            yield Pending(
                files[index],
                partial(load, files[index], found.numbers[index]),
                partial(file_fingerprint, folder / files[index]),
            )

    count = len(spaced(len(files), samples))
    return Dataset(
        str(path), pending, count, rows_per_batch(inputs), fitted, skip_bad, [],
        labels_asked=found.asked, label_note=found.note,
        label_cure=Text(f"Mend them, or name others with {parameter('labels')}"),
    )  # fmt: skip


def _listed_images(path: Path) -> tuple[Path, list[str]]:
    if path.is_dir():
        return path, image_files(path)
    cure = "Give an image folder, an image, an .npz or an .npy"
    if not path.exists():
        raise DataError(str(path), "does not exist", cure)
    check_file(path, cure, DataError)
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise DataError(str(path), "is not an image by its name", cure)
    return path.parent, [path.name]


def _load_image(folder: Path, p: Preprocess, spec: TensorSpec, file: str, label: int | None) -> Sample:
    values = apply_preprocess(read_image(folder / file, file), p, file)
    return _image_sample(values, spec, file, label)


def _image_sample(values: Array, spec: TensorSpec, name: str, label: int | None) -> Sample:
    batched = values if spec.shape is not None and len(spec.shape) == 3 else values[None]
    return Sample(name, {spec.name: conform(batched, spec, name, partial=True)}, label)


def _from_arrays(
    arrays: Mapping[str, Rows],
    source: str,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    samples: int | None,
) -> Dataset:
    pixels = arrays.get("images")
    fitted: Preprocess | None = None
    if pixels is not None and _are_pixels(pixels, arrays, inputs, preprocess):
        fitted = fit_preprocess(preprocess, inputs, source)
        _refuse_one_image(pixels, source)
        chosen: Mapping[str, Rows] = {"images": pixels}
    else:
        chosen = _named(arrays, source, inputs)
    total = _counted(chosen, source)
    found = labels_beside(arrays, total)
    wholes = {name: array.shape for name, array in chosen.items()}

    def load(index: int) -> Sample:
        name, label = f"{source}[{index}]", found.numbers[index]
        if fitted is not None:
            image: npt.NDArray[Any] = np.asarray(chosen["images"][index])
            return _image_sample(preprocess_pixels(image, fitted, name), inputs[0], name, label)
        rows = {spec.name: _row(chosen[spec.name], index, spec) for spec in inputs}
        return Sample(name, conform_all(rows, inputs, name, wholes), label)

    def fingerprint(index: int) -> bytes:
        return array_fingerprint({name: array[index] for name, array in chosen.items()})

    def pending() -> Iterator[Pending]:
        for index in spaced(total, samples):
            yield Pending(f"{source}[{index}]", partial(load, index), partial(fingerprint, index))

    count = len(spaced(total, samples))
    return Dataset(
        source, pending, count, rows_per_batch(inputs), fitted, False, [],
        label_note=found.note, label_cure="Mend the array 'labels', or leave it out",
    )  # fmt: skip


def _are_pixels(
    images: Rows, arrays: Mapping[str, Rows], inputs: Sequence[TensorSpec], preprocess: Preprocess | None
) -> bool:
    """Whether ``images`` are pixels to preprocess rather than an array that is ready for an input."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        return False
    named = all(spec.name in arrays for spec in inputs)
    if named and [spec.name for spec in inputs] != ["images"]:
        return False
    return preprocess is not None or not (named or inputs[0].dtype == np.uint8)


def _refuse_one_image(pixels: Rows, source: str) -> None:
    """H×W×C pixels without an axis for samples would be read as H gray images W×C."""
    if pixels.ndim == 3 and pixels.shape[-1] in (3, 4) and min(pixels.shape[:2]) > pixels.shape[-1]:
        shape = shape_text(pixels.shape)
        raise DataError(source, f"is one image by its shape {shape}, not a list of them", "Give array[None]")


def _named(arrays: Mapping[str, Rows], source: str, inputs: Sequence[TensorSpec]) -> Mapping[str, Rows]:
    names = [spec.name for spec in inputs]
    if len(names) == 1 and names[0] not in arrays and "images" in arrays:
        return {names[0]: arrays["images"]}
    missing = [name for name in names if name not in arrays]
    if missing:
        problem = f"holds {', '.join(arrays) or 'no arrays'}, but no '{missing[0]}'"
        raise DataError(source, problem, f"Name the arrays like the model's inputs ({', '.join(names)})")
    return {name: arrays[name] for name in names}


def _in_memory(name: str, value: object) -> Array:
    return array_of_labels(value) if name == "labels" else as_array(value, "arrays", name)


def _counted(arrays: Mapping[str, Rows], source: str) -> int:
    """Length of axis 0, the same in all arrays."""
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(
            source, f"differing or empty numbers of samples ({listed})", "Make axis 0 the samples everywhere"
        )
    return next(iter(lengths.values()))


def _row(array: Rows, index: int, spec: TensorSpec) -> Array:
    # An array with one axis more than the input holds whole inputs; otherwise axis 0 is the batch.
    whole = spec.shape is not None and array.ndim == len(spec.shape) + 1
    row = np.asarray(array[index])
    return row if whole else row[None]


def _from_iterable(data: object, inputs: Sequence[TensorSpec], samples: int | None) -> Dataset:
    if isinstance(data, Iterator):
        problem = f"a {type(data).__name__} can be read only once"
        raise UsageError("data", problem, "Pass a list or a function that returns a new iterator")
    if not isinstance(data, Iterable) and not callable(data):
        raise _no_source(data)

    def pending() -> Iterator[Pending]:
        items = data if isinstance(data, Iterable) or not callable(data) else data()
        if not isinstance(items, Iterable):
            raise _no_source(items)
        for index, item in enumerate(islice(items, samples)):
            # Converted and copied before the next item is asked for: the iterable may reuse its arrays.
            sample = _item_sample(item, inputs, f"sample {index}")
            yield Pending(sample.name, partial(_itself, sample), partial(array_fingerprint, sample.inputs))

    count = len(spaced(len(data), samples)) if isinstance(data, Sequence) else None
    return Dataset("data", pending, count, rows_per_batch(inputs), None, False, [])


def _no_source(data: object) -> UsageError:
    problem = f"a {type(data).__name__} is not a source of samples"
    return UsageError("data", problem, "Pass a path, or an iterable of {input name: array}")


def _item_sample(item: Any, inputs: Sequence[TensorSpec], name: str) -> Sample:
    values, label = item if isinstance(item, (tuple, list)) and len(item) == 2 else (item, None)
    if not isinstance(values, Mapping):
        cure = "Give {input name: array} or ({input name: array}, label)"
        raise DataError(name, f"is a {type(item).__name__}, not a dict of arrays", cure)
    arrays = {key: array.copy() for key, array in conform_all(values, inputs, name).items()}
    if label is None:
        return Sample(name, arrays, None)
    rows = max((len(array) for array in arrays.values()), default=1) if rows_per_batch(inputs) != 1 else 1
    if rows > 1:
        raise DataError(
            name, f"has one label for {rows} rows", "Give labelled samples one by one, batch axis 1"
        )
    return Sample(name, arrays, integer_label(label, name))


def spaced(total: int, samples: int | None) -> Sequence[int]:
    """At most ``samples`` of the indices 0 … total − 1, evenly spaced: ``i·total // samples``, ascending."""
    if samples is None or samples >= total:
        return range(total)
    return [index * total // samples for index in range(samples)]


def _one_by_one(pending: Iterator[Pending]) -> Generator[Pending, None, None]:
    yield from pending


def _itself(sample: Sample) -> Sample:
    return sample
