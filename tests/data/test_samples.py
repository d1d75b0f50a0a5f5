"""Image folders and files through ``open_dataset``, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess, preprocess_pixels
from calib8.data.samples import Dataset, Sample, spaced
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec

FLOAT = np.dtype(np.float32)
IMAGE = [TensorSpec("x", FLOAT, ("N", 3, 4, 4))]
PAIR = [TensorSpec("a", FLOAT, ("N", 2)), TensorSpec("b", np.dtype(np.int64), ("N", 3))]
PLAIN = Preprocess(scale=(1 / 255,))
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    for name, pixels in zip(["b/1.png", "a/2.png", "a/1.png", "c/9.png"], PIXELS, strict=False):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(root / name)
    return root


def spec(*shape: int | str | None, dtype: Any = np.float32) -> list[TensorSpec]:
    return [TensorSpec("x", np.dtype(dtype), shape)]


def names(dataset: Dataset) -> list[str]:
    return [sample.name for sample in dataset]


def only(dataset: Dataset) -> Sample:
    (sample,) = dataset
    return sample


def test_folder_in_order_with_class_labels(folder: Path) -> None:
    dataset = open_dataset(folder, IMAGE, PLAIN)
    samples = list(dataset)
    assert [(s.name, s.label) for s in samples] == [
        ("a/1.png", 0),
        ("a/2.png", 0),
        ("b/1.png", 1),
        ("c/9.png", 2),
    ]
    assert dataset.count == 4 and dataset.skipped == []
    assert samples[0].inputs["x"].shape == (1, 3, 4, 4)
    assert samples[0].inputs["x"].dtype == np.float32
    assert np.array_equal(
        samples[0].inputs["x"][0], preprocess_pixels(PIXELS[2], Preprocess(size=(4, 4), scale=(1 / 255,)))
    )
    assert names(dataset) == names(dataset)


def test_folder_with_a_list(folder: Path, tmp_path: Path) -> None:
    listed = tmp_path / "val.txt"
    listed.write_text("a/1.png 5\na/2.png 6\nb/1.png 7\nc/9.png 8\n")
    assert [s.label for s in open_dataset(str(folder), IMAGE, PLAIN, labels=str(listed))] == [5, 6, 7, 8]
    (folder / "labels.txt").write_text("a/1.png 0\n")
    with pytest.raises(DataError, match="lacks 3 of 4 images"):
        open_dataset(folder, IMAGE, PLAIN, labels=folder / "labels.txt")


def test_a_list_that_is_found_and_does_not_fit_stops_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "labels.txt").write_text("cat\ndog\n")  # names of classes, as many a folder has them
    dataset = open_dataset(folder, IMAGE, PLAIN)
    assert [sample.label for sample in dataset] == [None] * 4
    assert "labels.txt, line 1 'cat' is not 'file label'" in dataset.label_note and not dataset.labels_asked
    listed = tmp_path / "val.txt"
    listed.write_text("a/1.png 5\na/2.png 6\nb/1.png 7\nc/9.png 8\n")
    asked = open_dataset(folder, IMAGE, PLAIN, labels=listed)
    assert asked.labels_asked and asked.label_note == ""


def test_one_image_file(folder: Path) -> None:
    sample = only(open_dataset(folder / "b" / "1.png", IMAGE, PLAIN))
    assert sample.name == "1.png" and sample.label is None


def test_subset_of_a_folder_is_evenly_spaced(folder: Path) -> None:
    dataset = open_dataset(folder, IMAGE, PLAIN, samples=2)
    assert names(dataset) == ["a/1.png", "b/1.png"] and dataset.count == 2
    assert len(names(open_dataset(folder, IMAGE, PLAIN, samples=99))) == 4


@pytest.mark.parametrize(
    ("total", "samples", "expected"),
    [
        (10, None, list(range(10))),
        (10, 3, [0, 3, 6]),
        (7, 7, list(range(7))),
        (5, 4, [0, 1, 2, 3]),
        (100, 1, [0]),
    ],
)
def test_spaced(total: int, samples: int | None, expected: list[int]) -> None:
    assert list(spaced(total, samples)) == expected


def test_bad_image_is_named_or_skipped(folder: Path) -> None:
    whole = (folder / "a" / "2.png").read_bytes()
    (folder / "a" / "2.png").write_bytes(whole[:40])
    (folder / "b" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"a/2\.png: cannot be decoded"):
        list(open_dataset(folder, IMAGE, PLAIN))
    dataset = open_dataset(folder, IMAGE, PLAIN, skip_bad=True)
    for _ in range(2):  # skipped is of one iteration, not the sum
        assert [(s.name, s.label) for s in dataset] == [("a/1.png", 0), ("c/9.png", 2)]
        assert [bad.name for bad in dataset.skipped] == ["a/2.png", "b/1.png"]
        assert all("cannot be decoded" in bad.reason for bad in dataset.skipped)


def test_only_bad_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    with pytest.raises(DataError, match="gave no samples, 1 bad ones were skipped"):
        list(open_dataset(tmp_path, IMAGE, PLAIN, skip_bad=True))


def test_size_and_layout_come_from_the_model(folder: Path) -> None:
    dataset = open_dataset(folder, spec("N", 8, 6, 3), PLAIN)
    assert dataset.preprocess == Preprocess(size=(8, 6), scale=(1 / 255,), layout="NHWC")
    assert next(iter(dataset)).inputs["x"].shape == (1, 8, 6, 3)


@pytest.mark.parametrize(("shape", "layout"), [((1, None, None, 3), "NHWC"), ((1, 3, None, None), "NCHW")])
def test_the_axis_of_known_size_holds_the_channels(folder: Path, shape: Any, layout: str) -> None:
    dataset = open_dataset(folder, spec(*shape), Preprocess(size=(8, 6)))
    assert dataset.preprocess is not None and dataset.preprocess.layout == layout


def test_focus_doubles_the_size_of_the_input(folder: Path) -> None:
    p = Preprocess(resize="letterbox", letterbox_color=114, focus=True)
    dataset = open_dataset(folder, spec(1, 12, 4, 4), p)
    assert dataset.preprocess is not None and dataset.preprocess.size == (8, 8)
    assert next(iter(dataset)).inputs["x"].shape == (1, 12, 4, 4)


@pytest.mark.parametrize(
    ("shape", "color", "layout", "expected"),
    [
        ((3, 4, 4), "rgb", "NCHW", (3, 4, 4)),  # no batch axis
        ((4, 4, 3), "rgb", "NHWC", (4, 4, 3)),
        ((1, 4, 4), "gray", "NCHW", (1, 4, 4)),
        (("N", 4, 4), "gray", "NCHW", (1, 4, 4)),  # batch axis, no channel axis
        ((1, 1, 4, 4), "gray", "NCHW", (1, 1, 4, 4)),
    ],
)
def test_other_ranks(folder: Path, shape: Any, color: Any, layout: Any, expected: tuple[int, ...]) -> None:
    p = Preprocess(color=color, layout=layout)
    assert next(iter(open_dataset(folder, spec(*shape), p))).inputs["x"].shape == expected


def test_unknown_rank_takes_batched_images(folder: Path) -> None:
    inputs = [TensorSpec("x", FLOAT, None)]
    assert next(iter(open_dataset(folder, inputs, Preprocess(size=(5, 6))))).inputs["x"].shape == (1, 3, 5, 6)


def test_own_sizes_with_a_dynamic_model(tmp_path: Path) -> None:
    for index, (height, width) in enumerate([(4, 6), (8, 2)]):
        Image.new("RGB", (width, height)).save(tmp_path / f"{index}.png")
    dataset = open_dataset(tmp_path, spec("N", 3, "H", "W"), Preprocess(resize="none"))
    assert [s.inputs["x"].shape for s in dataset] == [(1, 3, 4, 6), (1, 3, 8, 2)]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_images_take_the_float_type_of_the_model(folder: Path, dtype: Any) -> None:
    assert next(iter(open_dataset(folder, spec("N", 3, 4, 4, dtype=dtype), PLAIN))).inputs["x"].dtype == dtype


def test_uint8_model_takes_pixels(folder: Path) -> None:
    dataset = open_dataset(folder, spec("N", 3, 4, 4, dtype=np.uint8), Preprocess(dtype="uint8"))
    assert next(iter(dataset)).inputs["x"].dtype == np.uint8
    with pytest.raises(DataError, match="has float32 1×3×4×4 for the input 'x: uint8"):
        list(open_dataset(folder, spec("N", 3, 4, 4, dtype=np.uint8), PLAIN))


@pytest.mark.parametrize(
    ("inputs", "preprocess", "error", "message"),
    [
        (IMAGE, None, UsageError, "Give preprocess or mean and scale"),
        (PAIR, PLAIN, DataError, r"images fit a model with one input, not 2 \(a, b\)"),
        (spec("N", 3), PLAIN, DataError, "images do not fit the input 'x: float32 N×3'"),
        (spec("C", 4, 4), PLAIN, DataError, "images do not fit the input 'x: float32 C×4×4', which has no"),
        (spec("H", 4, 3), PLAIN, DataError, "images do not fit the input 'x: float32 H×4×3', which has no"),
        (spec("N", 3, "H", "W"), PLAIN, UsageError, "leaves the image size open. Give size"),
        (IMAGE, Preprocess(size=(5, 4)), UsageError, "size 5×4 does not fit the model's input"),
        (
            IMAGE,
            Preprocess(color="gray"),
            UsageError,
            "gives 1 channels, the model's input is 'x: float32 N×3×4×4'",
        ),
        (IMAGE, Preprocess(focus=True), UsageError, "gives 12 channels"),
    ],
)
def test_images_that_do_not_fit_the_model(
    folder: Path, inputs: list[TensorSpec], preprocess: Preprocess | None, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        open_dataset(folder, inputs, preprocess)


def test_images_of_another_size_are_refused_without_resizing(folder: Path) -> None:
    with pytest.raises(
        DataError, match=r"a/1\.png: .*has float32 1×3×4×4 for the input 'x: float32 N×3×9×9'"
    ):
        list(open_dataset(folder, spec("N", 3, 9, 9), Preprocess(resize="none")))


@pytest.mark.parametrize(
    ("name", "message"),
    [("gone", "does not exist"), ("gone.npz", "no such file"), ("notes.txt", "is not an image by its name")],
)
def test_paths_that_lead_nowhere(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=f"{name}: {message}"):
        open_dataset(tmp_path / name, IMAGE, PLAIN)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no image file"):
        open_dataset(tmp_path, IMAGE, PLAIN)


def test_labels_only_go_with_folders(folder: Path, tmp_path: Path) -> None:
    for data in (folder / "b" / "1.png", [{"x": np.zeros((1, 3, 4, 4))}]):
        with pytest.raises(UsageError, match="a list of labels needs an image folder"):
            open_dataset(data, IMAGE, PLAIN, labels=tmp_path / "labels.txt")


def test_number_of_samples_is_checked(folder: Path) -> None:
    with pytest.raises(UsageError, match="samples=0: is too few"):
        open_dataset(folder, IMAGE, PLAIN, samples=0)
