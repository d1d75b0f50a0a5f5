"""Opening what a user gives as data: image folders, .npz, .npy, arrays, Python objects that yield items."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from calib8.data.arrays import as_array, conform_all, is_tensor, pixels_last, rows_per_batch
from calib8.data.batch_axis import untold
from calib8.data.fingerprints import array_fingerprint
from calib8.data.fit import fit_preprocess
from calib8.data.folder_files import dataset_of_files
from calib8.data.framing import Framing
from calib8.data.images import IMAGES
from calib8.data.items import InputMap, Items, Transform
from calib8.data.labelled_pair import with_labels
from calib8.data.labels import (
    FoundLabels,
    array_of_labels,
    known_labels,
    labels_beside,
    labels_of_folder,
    no_labels,
)
from calib8.data.places import place_of
from calib8.data.preprocess import Preprocess, preprocess_pixels
from calib8.data.presets import known_preprocess
from calib8.data.records import is_encoded
from calib8.data.samples import (
    Array,
    Dataset,
    DataSource,
    Pending,
    Sample,
    check_samples,
    image_sample,
    spaced,
)
from calib8.data.sound import dataset_of_sound, is_sound, refuse_unframed
from calib8.data.stored_arrays import StoredArray, open_arrays
from calib8.data.stored_pictures import dataset_of_pictures
from calib8.data.stored_records import dataset_of_records
from calib8.data.streams import dataset_of
from calib8.errors import DataError, UsageError
from calib8.files import checked_path
from calib8.parameters import Text, parameter
from calib8.tensors import UNTOLD, TensorSpec, shape_text

Rows: TypeAlias = "Array | StoredArray"


def open_dataset(
    data: DataSource,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | str | None,
    *,
    labels: str | os.PathLike[str] | None = None,
    samples: int | None = None,
    skip_bad: bool = False,
    input_map: InputMap | None = None,
    transform: Transform | None = None,
    framing: Framing | None = None,
) -> Dataset:
    """Opens images or arrays as samples for the inputs of a model.

    Args:
        data: one of
            an image folder (recursive, in ascending order of the relative paths), one image file, or a
            pattern such as ``images/*.jpg`` (``**`` for folders of any depth);
            tar shards, Parquet files or remote pictures (``calib8.data.places``): a path, an address such as
            ``s3://bucket/train-{000..099}.tar``, a pattern, or a folder of them;
            WAV files: a folder of them, one, or a pattern; ``framing`` says how they become frames;
            an .npz of arrays named like the model's inputs, axis 0 = samples, with optional ``labels``;
            an .npz of ``images`` (uint8 N×H×W×C pixels, or floats ready for the only input) with optional
            ``labels``; an .npy, an array, a tensor or a mapping of them, read like these;
            a tuple of arrays and one integer per row of them, the labels;
            what yields items (``calib8.data.items``): a list, a DataLoader, a Dataset with numbered samples,
            ONNX Runtime's CalibrationDataReader, a generator, or a function without arguments that returns
            one of them.
        inputs: the inputs of the model.
        preprocess: how images become arrays, or the name of a preset; only for images and uint8 pixels.
        labels: a list of ``file label`` lines for an image folder, see ``folder_labels``. Labels that are
            found without it and do not fit are left out, and ``Dataset.label_note`` says why.
        samples: at most so many: evenly spaced over a folder, arrays or numbered samples, the first of
            anything else that yields items.
        skip_bad: image files that cannot be read are noted in ``Dataset.skipped`` instead of raised.
        input_map: of items: input name, or ``label`` → column, or place in a tuple.
        transform: is called with every item and returns one that can be read.
        framing: how sound becomes frames; for WAV files alone, which need it.

    Raises:
        UsageError: options that do not fit the data, images without preprocessing.
        DataError: nothing there, or ``labels``, names, shapes or dtypes that do not fit. What only reading a
            sample can tell is raised by iterating.
    """
    preprocess = known_preprocess(preprocess)
    check_samples(samples)
    data = with_labels(data, inputs)
    if is_tensor(data):
        data = pixels_last(as_array(data, "data", inputs[0].name if inputs else ""))
    listed = None if labels is None else checked_path(labels, "labels")
    path, place = None, None
    if isinstance(data, (str, os.PathLike)):
        path, place = Path(data), place_of(os.fspath(data))
    if place is not None and place.kind != "picture" and labels is None:
        items = Items(inputs, preprocess, dict(input_map or {}), transform)
        return dataset_of_records(place, items, samples, skip_bad)
    if framing is not None:
        if path is None or place is not None or not is_sound(path):
            problem = f"is for WAV files, and {'these data are' if path is None else f'{path} holds'} none"
            raise UsageError(parameter("rate", framing.rate), problem, "Leave it out")
        return dataset_of_sound(path, inputs, framing, listed, samples, skip_bad)
    yields = path is None and not isinstance(data, (np.ndarray, Mapping))
    if not yields and (input_map or transform is not None):
        unused = parameter("input_map") if input_map else parameter("transform")
        problem = f"is for data that yield items, not for {'files' if path else 'arrays'}"
        raise UsageError(unused, problem, "Leave it out, or give a DataLoader, a Dataset or a list")
    if place is not None and place.kind == "picture":
        return dataset_of_pictures(place, inputs, preprocess, listed, samples, skip_bad)
    if labels is not None and (path is None or place is not None or not path.is_dir()):
        cure = "Put an array 'labels' into the .npz, or yield (inputs, label) pairs"
        raise UsageError(str(labels), "a list of labels needs an image folder", cure)
    if path is not None and (path.is_dir() or path.suffix.lower() not in (".npz", ".npy")):
        return _from_images(path, inputs, preprocess, listed, samples, skip_bad)
    if path is not None:
        return rows_of_arrays(open_arrays(path), path.name, inputs, preprocess, samples)
    if isinstance(data, np.ndarray):
        return rows_of_arrays({"images": data}, "array", inputs, preprocess, samples)
    if isinstance(data, Mapping):
        arrays = {str(name): _in_memory(str(name), value) for name, value in data.items()}
        return replace(rows_of_arrays(arrays, "arrays", inputs, preprocess, samples), labels_asked=True)
    items = Items(inputs, preprocess, dict(input_map or {}), transform)
    return dataset_of(
        [data] if isinstance(data, Image.Image) or is_encoded(data) else data, items, samples, skip_bad
    )


def _from_images(
    path: Path,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    labels: Path | None,
    samples: int | None,
    skip_bad: bool,
) -> Dataset:
    cure = "Give an image folder, an image, a pattern such as 'images/*.jpg', an .npz or an .npy"
    try:
        folder, files = IMAGES.listed(path, cure)
    except DataError:
        refuse_unframed(path)
        raise
    found = labels_of_folder(folder, files, labels) if path.is_dir() else no_labels(len(files))
    fitted, chosen = fit_preprocess(preprocess, inputs, str(path)), spaced(len(files), samples)
    names, numbers = [files[index] for index in chosen], [found.numbers[index] for index in chosen]
    return replace(
        dataset_of_files(folder, names, numbers, fitted, inputs, skip_bad),
        source=str(path), labels_asked=found.asked, label_note=found.note,
        label_cure=Text(f"Mend them, or name others with {parameter('labels')}"), class_names=found.names,
        total=len(files),
    )  # fmt: skip


def rows_of_arrays(
    arrays: Mapping[str, Rows],
    source: str,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    samples: int | None = None,
    labelled: Mapping[int, int | None] | None = None,
) -> Dataset:
    """Rows of arrays, each a sample.

    Args:
        arrays: named like the inputs, or ``images``, with optional ``labels``.
        source: for messages.
        inputs: those of the model.
        preprocess: what pixels go through.
        samples: at most so many, evenly spaced.
        labelled: the rows that are wanted, with their labels; None: all, with those of ``labels``.

    Raises:
        UsageError, DataError: see ``open_dataset``.
    """
    pixels = arrays.get("images")
    fitted: Preprocess | None = None
    if pixels is not None and _are_pixels(pixels, arrays, inputs, preprocess):
        fitted = fit_preprocess(preprocess, inputs, source)
        _refuse_one_image(pixels, source)
        chosen: Mapping[str, Rows] = {"images": pixels}
    else:
        chosen = _named(arrays, source, inputs)
    total = _counted(chosen, source)
    found = labels_beside(arrays, total) if labelled is None else FoundLabels(())
    chosen_rows = spaced(total, samples) if labelled is None else tuple(labelled)
    labels = [found.numbers[row] for row in chosen_rows] if labelled is None else list(labelled.values())
    wholes = {name: array.shape for name, array in chosen.items()}

    def load(index: int, label: int | None) -> Sample:
        name = f"{source}[{index}]"
        if fitted is not None:
            image: npt.NDArray[Any] = np.asarray(chosen["images"][index])
            return image_sample(preprocess_pixels(image, fitted, name), inputs[0], name, label)
        rows = {spec.name: _row(chosen[spec.name], index, spec) for spec in inputs}
        return Sample(name, conform_all(rows, inputs, name, wholes), label)

    def fingerprint(index: int) -> bytes:
        return array_fingerprint({name: array[index] for name, array in chosen.items()})

    def pending() -> Iterator[Pending]:
        for index, label in zip(chosen_rows, labels, strict=True):
            yield Pending(f"{source}[{index}]", partial(load, index, label), partial(fingerprint, index))

    return Dataset(
        source, pending, len(chosen_rows), rows_per_batch(inputs), fitted, False, [], label_note=found.note,
        label_cure="Mend the array 'labels', or leave it out", labels=known_labels(labels), total=total,
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
    # An array with one axis more than the input holds whole inputs; otherwise axis 0 counts samples.
    more = 0 if spec.shape is None else array.ndim - len(spec.shape)
    row = np.asarray(array[index])
    if not more and spec.batch_axis == UNTOLD and len(array) > 1:
        raise untold(spec, array.shape, f"the array '{spec.name}'")
    return row if more == 1 else np.expand_dims(row, 0 if more else max(spec.batch_axis, 0))
