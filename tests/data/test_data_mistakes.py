"""What goes wrong with data objects is said in one line: which item, what is wrong with it, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import COUNT, INPUT, LABELS, PIXELS, RECIPE, VALUES, Numbered, read, tensors
from PIL import Image
from torch.utils.data import DataLoader

from calib8.data.opening import open_dataset
from calib8.errors import Calib8Error, DataError
from calib8.tensors import TensorSpec
from calibration_reader import CalibrationReader

TOKENS = [TensorSpec("ids", np.dtype(np.int64), ("N", "L"))]
ROWS = [TensorSpec("x", np.dtype(np.float32), ("N", 4))]


def message(data: Any, **options: Any) -> str:
    with pytest.raises(Calib8Error) as caught:
        list(open_dataset(data, options.pop("inputs", INPUT), **{"preprocess": RECIPE, **options}))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    gone = f"{tmp_path}/gone.png"
    missing = f"{gone}: does not exist. A text is read as the path of a picture: check it"
    for data in ([gone], [Path(gone)], {gone}, (one for one in [gone]), [(gone, 1)], [{"path": gone}]):
        assert message(data).startswith(missing)
    assert message(list(VALUES), transform=lambda item: "abc").startswith("abc: does not exist. A text is")
    assert f"{tmp_path}: is a folder, not a picture. Give a folder by itself" in message([tmp_path])
    picture = tmp_path / "a.png"
    Image.fromarray(PIXELS[0].transpose(1, 2, 0)).save(picture)
    dataset = open_dataset([picture, gone], INPUT, RECIPE, skip_bad=True)
    assert len(list(dataset)) == 1 and dataset.skipped[0].reason == "does not exist"


@pytest.mark.parametrize("preprocess", [None, RECIPE])
def test_what_was_read_already(preprocess: Any) -> None:
    generator, reader = (row for row in VALUES), CalibrationReader(VALUES)
    list(generator)
    while reader.get_next() is not None:
        pass
    for data, kind in ((generator, "generator"), (reader, "CalibrationReader"), (iter([]), "list_iterator")):
        problem = f"an object of type {kind} gave no samples: it was read to its end before, or never had any"
        assert f"data: {problem}. Give a new one, or a function that" in message(data, preprocess=preprocess)
    assert "it was read" not in message([]) and "it was read" not in message(list)


class TooShort(Numbered):
    """It has fewer items than it says."""

    def __getitem__(self, number: int) -> Any:
        return list(VALUES[:4])[number]


class Failing:
    """A stream of two items and an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __iter__(self) -> Iterator[Any]:
        yield from VALUES[:2]
        raise self.error

    def get_next(self) -> Any:
        raise self.error


@pytest.mark.parametrize("preprocess", [None, RECIPE])
def test_what_data_raise(preprocess: Any) -> None:
    short, failing = TooShort(lambda n: n), Failing(ZeroDivisionError("division by zero"))
    for data, item, kind, raised in (
        (
            short,
            4,
            "TooShort",
            "IndexError: list index out of range. Mend them; by their __len__ they have 6",
        ),
        (iter(failing), 2, "generator", "ZeroDivisionError: division by zero. Mend them"),
        (lambda: iter(failing), 2, "function", "ZeroDivisionError: division by zero"),
        (lambda: 1 // 0, 0, "function", "ZeroDivisionError"),
        (failing, 0, "Failing", "ZeroDivisionError: division by zero"),
        (DataLoader(short, batch_size=1), 4, "DataLoader", "IndexError: list index out of range"),
    ):
        with pytest.raises(DataError) as caught:
            list(open_dataset(data, INPUT, preprocess))
        assert str(caught.value).startswith(f"item {item}: the data (of type {kind}) raised {raised}")
        assert isinstance(caught.value.__cause__, ZeroDivisionError | IndexError)


def test_spaced_items_have_their_own_numbers() -> None:
    assert message(TooShort(lambda n: n), samples=3).startswith("item 4: ")


def test_errors_of_this_package_come_as_they_are() -> None:
    error = DataError("a", "is b", "Do c")
    with pytest.raises(DataError) as caught:
        list(open_dataset(iter(Failing(error)), INPUT, None))
    assert caught.value is error


def test_tensors_without_an_array() -> None:
    sparse, meta = tensors().to_sparse(), torch.empty(COUNT, 3, 5, 6, device="meta")
    for made, first in ((sparse, sparse[0]), (meta, meta[0])):
        cure = "Give tensor.to_dense()" if made is sparse else "A tensor of the device meta has no values"
        for data in (made, [first], {"x": made}, (made, np.arange(COUNT))):
            assert "the value of 'x' is not an array" in message(data) and cure in message(data)


def test_types_are_named_without_an_article() -> None:
    assert "data: an object of type int is not a source of samples" in message(3)
    assert "data: an object of type object is not a source of samples" in message(object())
    assert "sample 0: is of type object, of which no array of numbers can be made" in message([object()])


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        ((VALUES, np.array(LABELS)), False),
        ((tensors(), torch.tensor(LABELS)), False),
        (({"x": VALUES}, np.array(LABELS)), False),
        ((PIXELS.transpose(0, 2, 3, 1), np.array(LABELS)), True),
        ((torch.from_numpy(PIXELS.copy()), torch.tensor(LABELS)), True),
    ],
)
def test_a_tuple_of_arrays_and_labels(data: Any, pixels: bool) -> None:
    values, labels = read(data, preprocess=RECIPE if pixels else None)
    np.testing.assert_array_equal(values, PIXELS.astype(np.float32) if pixels else VALUES)
    assert labels == LABELS
    assert read(data, preprocess=RECIPE if pixels else None, samples=3)[1] == LABELS[::2]


def test_tuples_that_may_be_meant_otherwise() -> None:
    problem = (
        "data: are a tuple of 6 rows and 5 labels. Give one label per row; a list where both are samples"
    )
    assert message((VALUES, np.arange(5))) == f"{problem}."
    ids = np.arange(12).reshape(3, 4)
    assert "may be two samples, or one and its labels" in message((ids, np.arange(3)), inputs=TOKENS)
    assert "Give {'ids': …, 'labels': …} where" in message((ids, np.arange(3)), inputs=TOKENS)
    dataset = open_dataset((ids, np.arange(4)), TOKENS, None)
    assert [sample.inputs["ids"].shape for sample in dataset] == [(1, 4)] * 4
    values = np.zeros((4, 4), np.float32)
    labelled = list(open_dataset((values, np.arange(4)), ROWS, None))
    assert [sample.label for sample in labelled] == [0, 1, 2, 3]
    two = list(open_dataset((values[0], values[1]), ROWS, None))
    assert [sample.label for sample in two] == [None, None]
