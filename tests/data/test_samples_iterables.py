"""Iterables and functions through ``open_dataset``, and what it refuses."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset, Sample
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec

FLOAT = np.dtype(np.float32)
IMAGE = [TensorSpec("x", FLOAT, ("N", 3, 4, 4))]


def spec(*shape: int | str | None, dtype: Any = np.float32) -> list[TensorSpec]:
    return [TensorSpec("x", np.dtype(dtype), shape)]


def only(dataset: Dataset) -> Sample:
    (sample,) = dataset
    return sample


def item(value: float, rows: int = 1) -> dict[str, Any]:
    return {"x": np.full((rows, 3, 4, 4), value, np.float32)}


def first_values(dataset: Dataset) -> list[float]:
    return [float(s.inputs["x"].flat[0]) for s in dataset]


def test_lists_functions_and_labels() -> None:
    def stream() -> Iterator[Any]:
        for value in range(4):
            yield item(value), np.int64(value + 10)

    for data in ([(item(v), v + 10) for v in range(4)], stream, [[item(v), v + 10] for v in range(4)]):
        dataset = open_dataset(data, IMAGE, None)
        assert first_values(dataset) == first_values(dataset) == [0, 1, 2, 3]
        assert [(s.name, s.label) for s in dataset][3] == ("sample 3", 13)
    assert open_dataset([item(0), item(1)], IMAGE, None).count == 2
    assert open_dataset(stream, IMAGE, None).count is None


def test_subset_of_an_iterable_is_its_first() -> None:
    dataset = open_dataset([item(v) for v in range(9)], IMAGE, None, samples=2)
    assert first_values(dataset) == [0, 1] and dataset.count == 2


def test_endless_function_with_samples() -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield item(1)

    assert len(first_values(open_dataset(endless, IMAGE, None, samples=3))) == 3


def test_reused_arrays_are_copied() -> None:
    def reusing() -> Iterator[Any]:
        buffer = item(0)
        for value in range(3):
            buffer["x"][:] = value
            yield buffer

    samples = list(open_dataset(reusing, IMAGE, None))
    assert [float(s.inputs["x"].flat[0]) for s in samples] == [0, 1, 2]


@pytest.mark.parametrize("given", [np.float64, np.float16, np.int64, np.uint8])
def test_numbers_become_the_float_type(given: Any) -> None:
    sample = only(open_dataset([{"x": np.ones((1, 3, 4, 4), given)}], IMAGE, None))
    assert sample.inputs["x"].dtype == np.float32 and (sample.inputs["x"] == 1).all()


def test_integers_only_widen() -> None:
    inputs = [TensorSpec("b", np.dtype(np.int32), (1, 2))]
    assert only(open_dataset([{"b": np.ones((1, 2), np.int16)}], inputs, None)).inputs["b"].dtype == np.int32
    for dtype in (np.int64, np.float32):
        with pytest.raises(DataError, match=f"has {np.dtype(dtype)} 1×2"):
            list(open_dataset([{"b": np.ones((1, 2), dtype)}], inputs, None))


def test_function_that_returns_the_same_iterator_is_found_out() -> None:
    items = iter([item(1)])
    dataset = open_dataset(lambda: items, IMAGE, None)
    assert len(list(dataset)) == 1
    with pytest.raises(DataError, match="gave no samples"):
        list(dataset)


@pytest.mark.parametrize("data", [3, None])
def test_what_is_no_source(data: Any) -> None:
    with pytest.raises(UsageError, match="is not a source of samples"):
        open_dataset(data, IMAGE, None)
    with pytest.raises(UsageError, match="is not a source of samples"):
        list(open_dataset(lambda: data, IMAGE, None))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"y": np.zeros((1, 3, 4, 4)), "z": np.zeros(3)}, "holds y, z, and no array for input 'x'"),
        ({"y": "text"}, "has no array for input 'x'"),
        ({**item(0), "y": np.zeros(1)}, "has an array 'y'"),
        ({"x": [[1], [1, 2]]}, "the value of 'x' is not an array"),
        ({"x": np.zeros((4, 4))}, "has float64 4×4"),
        ({"x": np.zeros((0, 3, 4, 4))}, "has float64 0×3×4×4"),
        (np.zeros((1, 3, 4, 5)), "has float64 1×3×4×5"),
        (object(), "is of type object, of which no array of numbers can be made"),
        ((item(0), 1, 2), "is a tuple of 3"),
        ((item(0), "1.5"), "has the label '1.5'"),
        ((item(0, rows=2), 1), "has one label for 2 rows"),
    ],
)
def test_bad_items_are_named(bad: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(open_dataset([item(0), bad], IMAGE, None))
    assert message in str(caught.value) and caught.value.subject == "sample 1"


def test_several_rows_without_a_label() -> None:
    assert only(open_dataset([item(0, rows=5)], IMAGE, None)).inputs["x"].shape == (5, 3, 4, 4)


@pytest.mark.parametrize(("rows", "fits"), [(1, True), (2, True), (4, True), (3, False), (8, False)])
def test_rows_divide_a_fixed_batch(rows: int, fits: bool) -> None:
    dataset = open_dataset([item(0, rows)], spec(4, 3, 4, 4), None)
    if fits:
        assert only(dataset).inputs["x"].shape[0] == rows
    else:
        with pytest.raises(DataError, match=f"has float32 {rows}×3×4×4"):
            list(dataset)


def test_an_axis_that_is_no_batch_must_be_complete() -> None:
    inputs = [TensorSpec("input", FLOAT, ("N", 8)), TensorSpec("state", FLOAT, (2, "N", 3))]
    with pytest.raises(DataError, match="has float64 1×1×3 for the input 'state"):
        list(open_dataset([{"input": np.zeros((1, 8)), "state": np.zeros((1, 1, 3))}], inputs, None))
