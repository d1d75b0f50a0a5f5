"""Arrays in .npz, .npy and memory through ``open_dataset``, and what it refuses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec

FLOAT = np.dtype(np.float32)
IMAGE = [TensorSpec("x", FLOAT, ("N", 3, 4, 4))]
PAIR = [TensorSpec("a", FLOAT, ("N", 2)), TensorSpec("b", np.dtype(np.int64), ("N", 3))]
PLAIN = Preprocess(scale=(1 / 255,))
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), dtype=np.uint8)


def spec(*shape: int | str | None, dtype: Any = np.float32) -> list[TensorSpec]:
    return [TensorSpec("x", np.dtype(dtype), shape)]


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_npz_of_pixels_goes_through_the_preprocessing(tmp_path: Path) -> None:
    path = saved(tmp_path / "c.npz", images=PIXELS, labels=np.arange(7), train_index=np.arange(3))
    dataset = open_dataset(path, IMAGE, PLAIN)
    samples = list(dataset)
    assert [s.label for s in samples] == list(range(7)) and dataset.count == 7
    assert [s.name for s in samples][:2] == ["c.npz[0]", "c.npz[1]"]
    expected = (PIXELS[3].astype(np.float32) * np.float32(1 / 255)).transpose(2, 0, 1)
    assert np.array_equal(samples[3].inputs["x"], expected[None])
    assert [s.label for s in open_dataset(path, IMAGE, PLAIN, samples=3)] == [0, 2, 4]


def test_npz_of_gray_pixels_is_resized(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.npz", images=np.full((2, 6, 6), 9, np.uint8))
    sample = next(iter(open_dataset(path, spec("N", 1, 4, 4), Preprocess(color="gray"))))
    assert sample.inputs["x"].shape == (1, 1, 4, 4) and (sample.inputs["x"] == 9).all()


def test_float_images_go_in_as_they_are(tmp_path: Path) -> None:
    images = np.random.default_rng(1).normal(size=(3, 3, 4, 4))
    dataset = open_dataset(saved(tmp_path / "f.npz", images=images), IMAGE, PLAIN)
    assert dataset.preprocess is None
    assert np.array_equal(next(iter(dataset)).inputs["x"], images[:1].astype(np.float32))


def test_npz_by_input_names(tmp_path: Path) -> None:
    a, b = np.random.default_rng(1).normal(size=(5, 2)), np.arange(15).reshape(5, 3)
    dataset = open_dataset(saved(tmp_path / "m.npz", a=a, b=b, labels=[4, 3, 2, 1, 0]), PAIR, None)
    samples = list(dataset)
    assert [s.label for s in samples] == [4, 3, 2, 1, 0]
    assert samples[2].inputs["a"].dtype == np.float32
    assert np.array_equal(samples[2].inputs["a"], a[2:3].astype(np.float32))
    assert np.array_equal(samples[2].inputs["b"], b[2:3])


def test_rows_that_are_whole_inputs(tmp_path: Path) -> None:
    # a recurrent model: state has no leading batch axis, the rate no axis at all
    inputs = [
        TensorSpec("input", FLOAT, ("N", 8)),
        TensorSpec("state", FLOAT, (2, "N", 3)),
        TensorSpec("sr", np.dtype(np.int64), ()),
    ]
    path = saved(
        tmp_path / "r.npz", input=np.zeros((4, 8)), state=np.ones((4, 2, 1, 3)), sr=np.full(4, 16000)
    )
    sample = next(iter(open_dataset(path, inputs, None)))
    assert {name: array.shape for name, array in sample.inputs.items()} == {
        "input": (1, 8),
        "state": (2, 1, 3),
        "sr": (),
    }
    assert sample.inputs["sr"] == 16000


def test_npy_and_arrays_in_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(3, 3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "v.npy", values)
    for data in (tmp_path / "v.npy", values, {"x": values}, {"x": values.tolist()}):
        assert np.array_equal(
            np.concatenate([s.inputs["x"] for s in open_dataset(data, IMAGE, None)]), values
        )
    np.save(tmp_path / "p.npy", PIXELS)
    for data in (tmp_path / "p.npy", PIXELS):
        assert open_dataset(data, IMAGE, PLAIN).count == 7


def test_input_named_images(tmp_path: Path) -> None:
    path = saved(tmp_path / "i.npz", images=PIXELS)
    inputs = [TensorSpec("images", FLOAT, (1, 3, 4, 4))]
    assert open_dataset(path, inputs, PLAIN).preprocess is not None
    with pytest.raises(DataError, match=r"i\.npz\[0\]: has uint8 1×4×4×3 for the input 'images"):
        list(open_dataset(path, inputs, None))


def test_pixels_without_preprocessing_are_refused_unless_the_model_takes_them() -> None:
    with pytest.raises(UsageError, match="Give preprocess"):
        open_dataset(PIXELS, IMAGE, None)
    sample = next(iter(open_dataset(PIXELS, spec("N", 4, 4, 3, dtype=np.uint8), None)))
    assert np.array_equal(sample.inputs["x"], PIXELS[:1])


@pytest.mark.parametrize(
    ("arrays", "inputs", "message"),
    [
        ({"a": np.zeros((5, 2))}, PAIR, "holds a, but no 'b'"),
        ({"a": np.zeros((5, 2)), "b": np.zeros((4, 3), int)}, PAIR, r"\(a 5, b 4\)"),
        ({"x": np.zeros((0, 3, 4, 4))}, IMAGE, r"\(x 0\)"),
        ({"y": np.zeros((2, 3, 4, 4))}, IMAGE, "holds y, but no 'x'"),
    ],
)
def test_npz_that_does_not_fit(tmp_path: Path, arrays: Any, inputs: list[TensorSpec], message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_dataset(saved(tmp_path / "n.npz", **arrays), inputs, None)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 4, 5)), "has float64 1×3×4×5 for the input 'x: float32 N×3×4×4'"),
        (np.zeros((2, 3, 4)), "has float64 1×3×4"),
        (np.zeros((2, 3, 4, 4), complex), "has complex128"),
        (np.zeros((2, 3, 4, 4), bool), "has bool"),
    ],
)
def test_rows_that_do_not_fit(array: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"arrays\[0\]: {message}"):
        list(open_dataset({"x": array}, IMAGE, None))


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        ([1.0, 2.0], r"the array 'labels' \(float64 2\) is not one class number per sample"),
        ([[0, 1, 0], [1, 0, 0]], r"\(int64 2×3\) is not .* \(one-hot vectors become .* by argmax\)"),
        ([3, -1], "holds the number -1"),
        (7, r"\(int64 scalar\)"),
        (["cat", None], r"array 'labels' cannot be read \(it holds values of type object"),
    ],
)
def test_labels_in_an_npz_that_are_no_class_numbers_are_left_out(
    tmp_path: Path, labels: Any, note: str
) -> None:
    path = saved(tmp_path / "l.npz", x=np.zeros((2, 3, 4, 4)), labels=labels)
    dataset = open_dataset(path, IMAGE, None)
    assert [sample.label for sample in dataset] == [None, None]
    assert re.search(note, dataset.label_note)


@pytest.mark.parametrize("labels", [[1], [1, 2, 3], [], ["a", "b", "c"], np.zeros((3, 4))])
def test_labels_of_more_or_fewer_samples_are_refused(tmp_path: Path, labels: Any) -> None:
    arrays = {"x": np.zeros((2, 3, 4, 4)), "labels": labels}
    for data in (saved(tmp_path / "l.npz", **arrays), arrays):
        with pytest.raises(DataError, match=rf"'labels': has {len(labels)} labels? for 2 samples\. Give one"):
            open_dataset(data, IMAGE, None)


@pytest.mark.parametrize("labels", [7, ["cat", None], [[1], [2, 3]]])
def test_labels_in_memory_that_are_no_class_numbers_are_left_out(labels: Any) -> None:
    dataset = open_dataset({"x": np.zeros((2, 3, 4, 4)), "labels": labels}, IMAGE, None)
    assert [sample.label for sample in dataset] == [None, None]
    assert "is not one class number per sample" in dataset.label_note


def test_labels_in_an_npz_may_be_a_column(tmp_path: Path) -> None:
    path = saved(tmp_path / "l.npz", x=np.zeros((2, 3, 4, 4)), labels=[[3], [0]])
    dataset = open_dataset(path, IMAGE, None)
    assert [sample.label for sample in dataset] == [3, 0] and dataset.label_note == ""


@pytest.mark.parametrize("name", ["c.npz", "c.npy"])
def test_corrupt_arrays(tmp_path: Path, name: str) -> None:
    whole = saved(tmp_path / "whole.npz", x=np.zeros(1000)).read_bytes()
    (tmp_path / name).write_bytes(whole[:500])
    with pytest.raises(DataError, match=f"{name}: cannot be read"):
        open_dataset(tmp_path / name, IMAGE, None)


def test_npy_under_the_name_of_an_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"n\.npz: cannot be read \(it holds a single array"):
        open_dataset((tmp_path / "a.npy").rename(tmp_path / "n.npz"), IMAGE, None)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "o.npz", x=np.array([{}, []], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        open_dataset(path, IMAGE, None)
