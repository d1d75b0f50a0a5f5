"""Every kind of source through ``open_dataset``, and what it refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.preprocess import Preprocess, preprocess_pixels
from calib8.data.samples import Dataset, Sample, open_dataset, spaced
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


# --- images ---------------------------------------------------------------------------------------


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
        open_dataset(folder, IMAGE, PLAIN)


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
        (IMAGE, None, UsageError, "Give --preprocess or --mean and --scale"),
        (PAIR, PLAIN, DataError, r"images fit a model with one input, not 2 \(a, b\)"),
        (spec("N", 3), PLAIN, DataError, "images do not fit the input 'x: float32 N×3'"),
        (spec("C", 4, 4), PLAIN, DataError, "images do not fit the input 'x: float32 C×4×4', which has no"),
        (spec("H", 4, 3), PLAIN, DataError, "images do not fit the input 'x: float32 H×4×3', which has no"),
        (spec("N", 3, "H", "W"), PLAIN, UsageError, "leaves the image size open. Give --size"),
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
    [("gone", "does not exist"), ("gone.npz", "cannot be read"), ("notes.txt", "is no image by its name")],
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
    with pytest.raises(UsageError, match="samples: 0 is too few"):
        open_dataset(folder, IMAGE, PLAIN, samples=0)


# --- arrays ---------------------------------------------------------------------------------------


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
    with pytest.raises(UsageError, match="Give --preprocess"):
        open_dataset(PIXELS, IMAGE, None)
    sample = next(iter(open_dataset(PIXELS, spec("N", 4, 4, 3, dtype=np.uint8), None)))
    assert np.array_equal(sample.inputs["x"], PIXELS[:1])


@pytest.mark.parametrize(
    ("arrays", "inputs", "message"),
    [
        ({"a": np.zeros((5, 2))}, PAIR, "holds a, but no 'b'"),
        ({"a": np.zeros((5, 2)), "b": np.zeros((4, 3), int)}, PAIR, r"\(a 5, b 4\)"),
        ({"x": np.zeros((0, 3, 4, 4))}, IMAGE, r"\(x 0\)"),
        ({"x": np.zeros((2, 3, 4, 4)), "labels": [1]}, IMAGE, r"\(x 2, labels 1\)"),
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


def test_labels_in_an_npz_must_be_integers(tmp_path: Path) -> None:
    path = saved(tmp_path / "l.npz", x=np.zeros((1, 3, 4, 4)), labels=[1.0])
    with pytest.raises(DataError, match=r"l\.npz\[0\]: has the label"):
        list(open_dataset(path, IMAGE, None))


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


# --- iterables ------------------------------------------------------------------------------------


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


def test_one_shot_iterators_are_refused() -> None:
    generator = (item(v) for v in range(2))
    for data in (generator, iter([item(1)])):
        with pytest.raises(UsageError, match="Pass a list or a function that returns a new iterator"):
            open_dataset(data, IMAGE, None)


def test_function_that_returns_the_same_iterator_is_found_out() -> None:
    items = iter([item(1)])
    dataset = open_dataset(lambda: items, IMAGE, None)
    assert len(list(dataset)) == 1
    with pytest.raises(DataError, match="gave no samples"):
        list(dataset)


@pytest.mark.parametrize("data", [3, None])
def test_what_is_no_source(data: Any) -> None:
    with pytest.raises(UsageError, match="is no source of samples"):
        open_dataset(data, IMAGE, None)
    with pytest.raises(UsageError, match="is no source of samples"):
        list(open_dataset(lambda: data, IMAGE, None))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"y": np.zeros((1, 3, 4, 4))}, "has no array for input 'x'"),
        ({**item(0), "y": np.zeros(1)}, "has an array 'y'"),
        ({"x": [[1], [1, 2]]}, "the value of 'x' is no array"),
        ({"x": np.zeros((3, 4, 4))}, "has float64 3×4×4"),
        ({"x": np.zeros((0, 3, 4, 4))}, "has float64 0×3×4×4"),
        (np.zeros((1, 3, 4, 4)), "is a ndarray, not a dict of arrays"),
        ((item(0), 1.5), "has the label 1.5"),
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
