"""Class labels: ``file label`` lines, a sub-folder per class, an array, what comes with yielded items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.data.arrays import in_memory
from calib8.data.stored_arrays import StoredArray
from calib8.errors import DataError
from calib8.files import check_file
from calib8.number_texts import count
from calib8.parameters import parameter
from calib8.tensors import shape_text

LABELS_FILE: Final = "labels.txt"
"""A list of this name in the image folder is used unless another one is given."""

ONE_HOT: Final = " (one-hot vectors become class numbers by argmax)"
"""What to do with a vector per sample."""

LABEL_NAMES: Final = ("label", "labels")
"""Columns of a row that hold its class number."""


def folder_labels(folder: Path, files: Sequence[str], labels: Path | None) -> list[int | None]:
    """The label of each file, in the order of ``files``; None for each where the folder has no labels.

    A list (the one given, else ``labels.txt`` in the folder) comes first. Otherwise, where all images lie
    in two or more sub-folders, these are the classes: sorted by name as text, numbered from 0; a
    sub-folder without images keeps its number.

    Args:
        folder: the image folder.
        files: paths relative to it, with ``/``.
        labels: a list of ``file label`` lines, or None.

    Raises:
        DataError: the list cannot be read, is malformed, or does not cover exactly these files.
    """
    if labels is None and (folder / LABELS_FILE).is_file():
        labels = folder / LABELS_FILE
    if labels is not None:
        return _listed(read_label_list(labels), files, str(labels))
    classes = _class_numbers(folder)
    if len(classes) < 2 or any("/" not in file for file in files):
        return [None] * len(files)
    return [classes[file.split("/", 1)[0]] for file in files]


@dataclass(frozen=True)
class FoundLabels:
    """Labels of samples, asked for or found beside them.

    Attributes:
        numbers: one per sample, None for each where there are none that can be used.
        asked: the user named them; what does not fit is an error then, and a remark otherwise.
        note: why labels that were found are not used; empty where there are none, or they are.
        names: of the classes, by number; empty where only numbers are known.
    """

    numbers: Sequence[int | None]
    asked: bool = False
    note: str = ""
    names: tuple[str, ...] = ()


def known_labels(labels: Sequence[int | None]) -> tuple[int | None, ...]:
    """As ``Dataset.labels`` holds them: empty where there is none among them."""
    return tuple(labels) if any(label is not None for label in labels) else ()


def no_labels(samples: int) -> FoundLabels:
    """Of so many samples."""
    return FoundLabels([None] * samples)


def labels_of_folder(folder: Path, files: Sequence[str], labels: Path | None) -> FoundLabels:
    """``folder_labels``, where only a list that was given must fit.

    Raises:
        DataError: the list given cannot be read, is malformed, or does not cover exactly these files.
    """
    if labels is not None:
        return FoundLabels(folder_labels(folder, files, labels), True, "")
    try:
        numbers = folder_labels(folder, files, None)
        by_folder = not (folder / LABELS_FILE).is_file() and any(one is not None for one in numbers)
        return FoundLabels(numbers, names=tuple(_class_numbers(folder)) if by_folder else ())
    except DataError as error:
        return FoundLabels([None] * len(files), False, f"{error.subject} {error.problem}")


def labels_of_names(files: Sequence[str], labels: Path | None, beside: tuple[str, str] | None) -> FoundLabels:
    """As ``labels_of_folder``, of a folder that is no local one: told by the paths of its images.

    Args:
        files: paths of the images below the folder, with ``/``.
        labels: a local list of ``file label`` lines, or None.
        beside: name and text of the ``labels.txt`` in the folder, where there is one.

    Raises:
        DataError: the list given cannot be read, is malformed, or does not cover exactly these files.
    """
    if labels is not None:
        return FoundLabels(_listed(read_label_list(labels), files, str(labels)), True)
    if beside is not None:
        try:
            return FoundLabels(_listed(_labels_of_lines(beside[1], beside[0]), files, beside[0]))
        except DataError as error:
            return FoundLabels([None] * len(files), note=f"{error.subject} {error.problem}")
    classes = sorted({file.split("/", 1)[0] for file in files})
    if len(classes) < 2 or any("/" not in file for file in files):
        return no_labels(len(files))
    numbers = {name: number for number, name in enumerate(classes)}
    return FoundLabels([numbers[file.split("/", 1)[0]] for file in files], names=tuple(classes))


def labels_beside(arrays: Mapping[str, npt.NDArray[np.generic] | StoredArray], samples: int) -> FoundLabels:
    """The array ``labels`` beside other arrays, where it can be read and holds one class number per sample.

    Args:
        arrays: all of them; one called ``labels`` need not be there.
        samples: how many they hold.

    Raises:
        DataError: it holds labels of more or fewer samples.
    """
    if "labels" not in arrays:
        return no_labels(samples)
    try:
        values = arrays["labels"]
        found = _labels_of_array(values, samples)
    except DataError as error:
        return FoundLabels([None] * samples, note=f"{error.subject} {error.problem}")
    if values.shape and values.shape[0] != samples:
        problem = f"has {count(values.shape[0], 'label')} for {count(samples, 'sample')}"
        raise DataError("the array 'labels'", problem, "Give one class number per sample, or leave it out")
    return found


def array_of_labels(value: object) -> npt.NDArray[np.generic]:
    """``numpy.asarray`` of labels; what is no array becomes one of objects, which are no class numbers."""
    try:
        return np.asarray(in_memory(value))
    except Exception:  # foreign array types raise what they like
        return np.empty((), object)


def _labels_of_array(values: npt.NDArray[np.generic] | StoredArray, samples: int) -> FoundLabels:
    none = [None] * samples
    one_each = values.shape[:1] == (samples,) and set(values.shape[1:]) <= {1}
    if values.dtype.kind not in "iu" or not one_each:
        shape = shape_text(values.shape) or "scalar"
        problem = f"the array 'labels' ({values.dtype} {shape}) is not one class number per sample"
        problem += ONE_HOT if len(values.shape) == 2 else ""
        return FoundLabels(none, note=problem)
    numbers = [int(np.asarray(values[index]).item()) for index in range(samples)]
    if min(numbers) < 0:
        return FoundLabels(none, note=f"the array 'labels' holds the number {min(numbers)}")
    return FoundLabels(numbers)


def read_label_list(path: Path) -> dict[str, int]:
    """File name → label from lines of ``file label``; the label is the last word, an integer >= 0.

    Raises:
        DataError: unreadable, a line of another form, or a file listed twice.
    """
    if path.is_dir() or path.suffix.lower() == ".json":
        cure = f"Leave it out here; evaluate and tune judge by such labels, with {parameter('task')}"
        raise DataError(str(path), "holds labels of objects or pixels, and class numbers are read here", cure)
    check_file(path, "Give a text file of 'file label' lines", DataError)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            str(path), f"cannot be read ({error})", "Give a text file of 'file label' lines"
        ) from error
    return _labels_of_lines(text, str(path))


def _labels_of_lines(text: str, source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, label = _split(line, f"{source}, line {number}")
        if name in found:
            raise DataError(
                f"{source}, line {number}", f"lists '{name}' a second time", "Keep one line per file"
            )
        found[name] = label
    return found


def integer_label(value: object, name: str) -> int:
    """A class label as int.

    Raises:
        DataError: the value is not an integer >= 0.
    """
    array = np.asarray(value)
    number = int(array.item()) if array.dtype.kind in "iu" and array.size == 1 else -1
    if number < 0:
        raise DataError(name, f"has the label {value!r}", "Give one class number, 0 or more, per sample")
    return number


def labels_of_rows(labels: object, rows: int, name: str, *, apart: bool = False) -> list[int | None]:
    """A class number per row; None for each where they are targets of another kind, such as boxes.

    Args:
        labels: an array, a tensor, a list or a number, as data yield it; None: there are none.
        rows: of the sample.
        name: that of the sample, subject of error messages.
        apart: the rows of the sample do not come apart, so that there can be one label at most.

    Raises:
        DataError: integers or texts that are no class numbers, or not one per row.
    """
    none: list[int | None] = [None] * rows
    try:
        values = np.asarray(in_memory(labels))
    except Exception:  # ragged ones
        return none
    if values.dtype.kind not in "iuU" or not values.size or set(values.shape[1:]) - {1}:
        return none
    if rows == 1 and values.size > 1:  # attributes, or one number per class
        return none
    if values.size != rows or (apart and rows > 1):
        problem = f"has {_counted(values)} for {rows} rows"
        raise DataError(name, problem, "Give one label per row, or samples one by one, batch axis 1")
    return [integer_label(one, name) for one in values.reshape(-1).tolist()]


def number_of(labels: object) -> int | None:
    """How many class numbers data yield beside an array, without a look at what they are; None: no list."""
    try:
        values = np.asarray(in_memory(labels))
    except Exception:  # ragged ones
        return None
    return values.size if values.dtype.kind in "iuU" and values.ndim == 1 else None


def why_no_class(labels: object, name: str) -> str:
    """Why what looks like labels of classes gives none; empty for targets of other tasks, such as boxes.

    Args:
        labels: what ``labels_of_rows`` found no class numbers in.
        name: that of the sample.
    """
    try:
        values = np.asarray(in_memory(labels))
    except Exception:  # ragged ones
        return ""
    if values.dtype.kind not in "biuf" or not values.size:
        return ""
    if _is_one_hot(values):
        return f"those of {name} are one-hot vectors, not class numbers"
    if values.dtype.kind in "bf" and (values.ndim < 2 or set(values.shape[1:]) == {1}):
        such = f"{values.reshape(-1)[0].item():.6g}"
        return f"those of {name} are {values.dtype} numbers such as {such}, not class numbers"
    if values.dtype.kind in "iu" and values.ndim == 1:
        return f"{name} has {_counted(values)}, not one class number"
    return ""


def _is_one_hot(values: npt.NDArray[np.generic]) -> bool:
    """Vectors with a single 1 each, all else 0."""
    if values.ndim not in (1, 2) or values.shape[-1] < 2:
        return False
    ones = values == 1
    return bool((ones | (values == 0)).all() and (ones.sum(axis=-1) == 1).all())


def _counted(values: npt.NDArray[np.generic]) -> str:
    if values.size == 1:
        return "one label"
    return f"{values.size} labels" if values.ndim == 1 else f"labels {shape_text(values.shape)}"


def _split(line: str, subject: str) -> tuple[str, int]:
    words = line.rsplit(maxsplit=1)
    if len(words) != 2:
        raise DataError(subject, f"'{line.strip()}' is not 'file label'", "Write a file and its class number")
    try:
        label = int(words[1])
    except ValueError:
        label = -1
    if label < 0:
        raise DataError(subject, f"'{words[1]}' is not a class number", "Write integers from 0 as labels")
    return words[0].strip(), label


def _listed(listed: dict[str, int], files: Sequence[str], source: str) -> list[int | None]:
    absent = sorted(set(listed) - set(files))
    if absent:
        problem = f"lists {len(absent)} files that are not images of the folder, such as '{absent[0]}'"
        raise DataError(source, problem, "Write paths relative to the image folder")
    lacking = [file for file in files if file not in listed]
    if lacking:
        problem = f"lacks {len(lacking)} of {len(files)} images, such as '{lacking[0]}'"
        raise DataError(source, problem, "Add the missing lines or remove the images")
    return [listed[file] for file in files]


def _class_numbers(folder: Path) -> dict[str, int]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return {name: number for number, name in enumerate(names)}
