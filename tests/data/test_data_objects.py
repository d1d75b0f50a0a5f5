"""Data as users have them: objects of PyTorch, NumPy, Pillow, ONNX Runtime and their like, each as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import (
    COUNT,
    FLOAT,
    INPUT,
    LABELS,
    PIXELS,
    RECIPE,
    ROWS,
    VALUES,
    Numbered,
    Streaming,
    loader,
    pictures,
    read,
    tensors,
)
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error, DataError, UsageError
from calib8.tensors import TensorSpec
from calibration_reader import CalibrationReader

TWO = [TensorSpec("a", FLOAT, ("N", 2)), TensorSpec("b", FLOAT, ("N", 3))]


class HuggingFace:
    """As a Dataset of the library ``datasets``: rows by number, and by iteration."""

    column_names = ("image", "label", "id")

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"image": Image.fromarray(ROWS[number]), "label": LABELS[number], "id": f"n{number}"}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(COUNT))


ARRAYS: dict[str, Callable[[], Any]] = {
    "array": lambda: VALUES,
    "tensor": tensors,
    "tensor with a gradient": lambda: tensors().requires_grad_(),
    "mapping of a tensor": lambda: {"x": tensors()},
    "list of arrays without batch axis": lambda: list(VALUES),
    "list of arrays with it": lambda: [row[None] for row in VALUES],
    "list of batches": lambda: [VALUES[:4], VALUES[4:]],
    "list of tensors": lambda: list(tensors()),
    "tuple of arrays": lambda: tuple(VALUES),
    "list of mappings": lambda: [{"x": row[None]} for row in VALUES],
    "generator": lambda: (row for row in VALUES),
    "iterator": lambda: iter(list(VALUES)),
    "map": lambda: map(np.asarray, VALUES),
    "function": lambda: lambda: (row for row in VALUES),
    "DataLoader of x": lambda: DataLoader(tensors(), batch_size=4),
    "DataLoader without batches": lambda: DataLoader(tensors(), batch_size=None),
    "Dataset": lambda: Numbered(lambda n: torch.from_numpy(VALUES[n])),
    "TensorDataset of x": lambda: TensorDataset(tensors()),
    "IterableDataset": Streaming,
    "calibration reader": lambda: CalibrationReader(VALUES),
    "rows with one array": lambda: [{"pixel_values": row, "id": "n"} for row in VALUES],
}
LABELLED: dict[str, Callable[[], Any]] = {
    "DataLoader of (x, y)": lambda: loader(4),
    "DataLoader of the last batch alone": lambda: loader(5),
    "DataLoader of one": lambda: loader(1),
    "TensorDataset of (x, y)": lambda: TensorDataset(tensors(), torch.tensor(LABELS)),
    "Dataset of (x, y)": lambda: Numbered(lambda n: (VALUES[n], LABELS[n])),
    "list of pairs": lambda: list(zip(VALUES, LABELS, strict=True)),
    "list of lists": lambda: [[row, label] for row, label in zip(VALUES, LABELS, strict=True)],
    "batch with labels": lambda: [(VALUES, LABELS)],
    "mapping with labels per row": lambda: [({"x": VALUES}, np.array(LABELS))],
    "rows with labels": lambda: [
        {"x": VALUES[:3], "labels": LABELS[:3]},
        {"x": VALUES[3:], "labels": LABELS[3:]},
    ],
}
PICTURES: dict[str, Callable[[], Any]] = {
    "Pillow images": pictures,
    "pixels H×W×C": lambda: ROWS,
    "batches of pixels": lambda: [np.stack(ROWS[:4]), np.stack(ROWS[4:])],
    "pixel tensor N×C×H×W": lambda: torch.from_numpy(PIXELS.copy()),
    "pixel tensors C×H×W": lambda: list(torch.from_numpy(PIXELS.copy())),
    "Dataset of images": lambda: Numbered(lambda n: Image.fromarray(ROWS[n])),
    "generator of images": lambda: iter(pictures()),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_any_kind(name: str) -> None:
    values, labels = read(ARRAYS[name]())
    np.testing.assert_array_equal(values, VALUES)
    assert not any(labels)


@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_any_kind(name: str) -> None:
    values, labels = read(LABELLED[name]())
    np.testing.assert_array_equal(values, VALUES)
    assert labels == LABELS


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_any_kind(name: str) -> None:
    values, _ = read(PICTURES[name](), preprocess=RECIPE)
    np.testing.assert_array_equal(values, PIXELS.astype(np.float32))
    dataset = open_dataset(PICTURES[name](), INPUT, RECIPE)
    assert dataset.preprocess is not None and dataset.preprocess.size == (5, 6)


@pytest.mark.parametrize("name", [name for name in PICTURES if "tensor N" not in name])
def test_pictures_need_a_preprocessing(name: str) -> None:
    with pytest.raises(UsageError, match="images need to know how the model was trained"):
        list(open_dataset(PICTURES[name](), INPUT, None))


def test_rows_of_hugging_face() -> None:
    values, labels = read(HuggingFace(), preprocess=RECIPE)
    np.testing.assert_array_equal(values, PIXELS.astype(np.float32))
    assert labels == LABELS


def test_pictures_under_the_name_of_the_input() -> None:
    rows = [{"x": picture, "label": label} for picture, label in zip(pictures(), LABELS, strict=True)]
    values, labels = read(rows, preprocess=RECIPE)
    np.testing.assert_array_equal(values, PIXELS.astype(np.float32))
    assert labels == LABELS


def test_a_type_that_numpy_does_not_have() -> None:
    values, _ = read([tensors().to(torch.bfloat16)])
    np.testing.assert_array_equal(values, tensors().to(torch.bfloat16).float().numpy())


def test_one_picture() -> None:
    values, _ = read(pictures()[2], preprocess=RECIPE)
    np.testing.assert_array_equal(values, PIXELS[2:3].astype(np.float32))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{number % 2}" / f"{number}.png" for number in range(COUNT)]
    for file, row in zip(found, ROWS, strict=True):
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(row).save(file)
    return found


def test_paths(files: list[Path]) -> None:
    for data in (files, [str(file) for file in files], iter(files)):
        values, _ = read(data, preprocess=RECIPE)
        np.testing.assert_array_equal(values, PIXELS.astype(np.float32))
    _, labels = read(list(zip(map(str, files), LABELS, strict=True)), preprocess=RECIPE)
    assert labels == LABELS
    names = [sample.name for sample in open_dataset([files[0], files[0]], INPUT, RECIPE)]
    assert names == [str(files[0]), f"{files[0]} (2)"]


def test_patterns(files: list[Path]) -> None:
    folder = files[0].parent.parent
    for pattern in (f"{folder}/*/*.png", f"{folder}/**/*.png", folder / "[01]" / "*"):
        dataset = open_dataset(pattern, INPUT, RECIPE)
        assert [sample.name for sample in dataset] == [
            "0/0.png",
            "0/2.png",
            "0/4.png",
            "1/1.png",
            "1/3.png",
            "1/5.png",
        ]
    with pytest.raises(DataError, match="matches no file"):
        open_dataset(f"{folder}/*.jpg", INPUT, RECIPE)
    with pytest.raises(DataError, match="matches 2 files and none of them is an image"):
        open_dataset(f"{folder}/*", INPUT, RECIPE)


def test_bad_files_are_passed_over_if_asked(files: list[Path]) -> None:
    files[1].write_bytes(b"no image")
    with pytest.raises(DataError, match="cannot be decoded"):
        list(open_dataset(files, INPUT, RECIPE))
    dataset = open_dataset(files, INPUT, RECIPE, skip_bad=True)
    assert len(list(dataset)) == COUNT - 1 and dataset.skipped[0].name == str(files[1])


@pytest.mark.parametrize(
    "targets",
    [
        [{"boxes": [1, 2]}] * COUNT,
        {"boxes": np.zeros((COUNT, 4))},
        np.zeros((COUNT, 4, 4), np.int64),
        torch.zeros(COUNT, 5),
        torch.rand(COUNT),
        [],
        np.zeros((0, 4)),
        [np.zeros((n, 4)) for n in range(COUNT)],
    ],
)
def test_targets_of_other_tasks_are_left_out(targets: Any) -> None:
    values, labels = read([(VALUES, targets)])
    np.testing.assert_array_equal(values, VALUES)
    assert not any(labels)


@pytest.mark.parametrize("target", [np.zeros(40, np.int64), 0.7, np.zeros((0, 5)), [], (1, np.zeros(3))])
def test_targets_of_one_sample_are_left_out(target: Any) -> None:
    assert read([(row, target) for row in VALUES])[1] == [None] * COUNT


def test_gray_batches() -> None:
    inputs = [TensorSpec("x", FLOAT, ("N", 1, 9, 9))]
    gray = Preprocess(color="gray", mean=(0.0,), scale=(1.0,))
    digits = torch.from_numpy((np.arange(7 * 81) % 251).astype(np.uint8).reshape(7, 9, 9))
    dataset = open_dataset(DataLoader(digits, batch_size=4), inputs, gray)  # type: ignore[arg-type]
    values = np.concatenate([sample.inputs["x"] for sample in dataset])
    np.testing.assert_array_equal(values[:, 0], digits.numpy())


@pytest.mark.parametrize(
    ("shape", "array", "rows"),
    [
        (("T", 80), np.zeros((7, 80)), [7]),
        (("seq", "batch", 80), np.zeros((50, 1, 80)), [50]),
        (None, np.zeros((3, 5, 6)), [3]),
        (("N", 80), np.zeros((3, 80)), [1, 1, 1]),
        (("batch", "seq"), np.zeros((2, 9)), [1, 1]),
        ((4, 80), np.zeros((4, 80)), [4]),
        ((1, 80), np.zeros((3, 80)), [1, 1, 1]),
    ],
)
def test_only_a_batch_is_split(shape: Any, array: Any, rows: list[int]) -> None:
    dataset = open_dataset([array.astype(np.float32)], [TensorSpec("x", FLOAT, shape)], None)
    assert [len(sample.inputs["x"]) for sample in dataset] == rows


def test_inputs_that_are_no_batches_are_not_split() -> None:
    inputs = [*INPUT, TensorSpec("size", FLOAT, (2,))]
    item = {"x": VALUES[:2], "size": np.ones(2, np.float32)}
    assert [len(sample.inputs["size"]) for sample in open_dataset([item], inputs, None)] == [2]
    with pytest.raises(DataError, match="has 2 labels for 2 rows"):
        list(open_dataset([(item, [0, 1])], inputs, None))


def test_pictures_with_palettes_differ() -> None:
    red, green = (Image.new("P", (6, 5)) for _ in range(2))
    red.putpalette([255, 0, 0] * 256)
    green.putpalette([0, 255, 0] * 256)
    one, two = open_dataset([red, green], INPUT, RECIPE).pending()
    assert one.fingerprint() != two.fingerprint()


def test_a_truncated_picture_can_be_passed_over(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "b.png").write_bytes(whole[: len(whole) // 2])
    for skip_bad in (False, True):
        with Image.open(tmp_path / "a.png") as good, Image.open(tmp_path / "b.png") as bad:
            dataset = open_dataset([good, bad], INPUT, RECIPE, skip_bad=skip_bad)
            if skip_bad:
                assert len(list(dataset)) == 1
                continue
            with pytest.raises(DataError, match="cannot be decoded"):
                list(dataset)


def test_input_map_and_transform() -> None:
    pairs = [({"image": VALUES[n], "class": LABELS[n], "mask": VALUES[n]}) for n in range(COUNT)]
    values, labels = read(pairs, input_map={"x": "image", "label": "class"})
    np.testing.assert_array_equal(values, VALUES)
    assert labels == LABELS
    triples = [(n, VALUES[n], LABELS[n]) for n in range(COUNT)]
    for options in ({"input_map": {"x": 1, "label": 2}}, {"transform": lambda item: item[1:]}):
        values, labels = read(triples, **options)
        np.testing.assert_array_equal(values, VALUES)
        assert labels == LABELS
    rows = [{"picture": Image.fromarray(row), "other": 1} for row in ROWS]
    values, _ = read(rows, preprocess=RECIPE, input_map={"x": "picture"})
    np.testing.assert_array_equal(values, PIXELS.astype(np.float32))


def test_several_inputs() -> None:
    a, b = np.ones((5, 2), np.float32), np.zeros((5, 3), np.float32)
    for data, options in (
        (DataLoader([{"a": x, "b": y} for x, y in zip(a, b, strict=True)], batch_size=2), {}),  # type: ignore[arg-type]
        ([(a, b)], {"input_map": {"a": 0, "b": 1}}),
        ([(a, b)], {"transform": lambda item: {"a": item[0], "b": item[1]}}),
    ):
        dataset = open_dataset(data, TWO, None, **options)
        assert sum(len(sample.inputs["a"]) for sample in dataset) == 5
    with pytest.raises(DataError, match="is of type Tensor, and the model has 2 inputs"):
        list(open_dataset(DataLoader(tensors()), TWO, None))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([VALUES], {"input_map": {"y": 0}}, "names 'y'"),
        ([VALUES], {"input_map": {"label": 0}}, "leaves out the input 'x'"),
        ([{"u": 1}], {"input_map": {"x": "image"}}, r"is of type dict \(u\) without 'image'"),
        ([(1,)], {"input_map": {"x": 3}}, "is of type tuple without 3"),
        ([VALUES], {"transform": lambda item: 1 / 0}, "transform raised ZeroDivisionError"),
        ([VALUES], {"transform": lambda item: None}, "is of type NoneType"),
        (VALUES, {"transform": len}, "transform: is for data that yield items, not for arrays"),
        ("no/folder", {"input_map": {"x": 0}}, "input_map: is for data that yield items, not for files"),
        ([(VALUES, LABELS[:2])], {}, "has 2 labels for 6 rows"),
        ([(VALUES[0], -1)], {}, "has the label -1"),
        ([(VALUES[0], VALUES[1])], {}, "are two of one kind"),
        ([pictures()[:2]], {"preprocess": RECIPE}, "are two of one kind"),
        (DataLoader(tensors(), batch_size=3, collate_fn=list), {}, "transform=numpy.stack makes a batch"),  # type: ignore[arg-type]
        (lambda item: item, {}, "needs arguments"),
        (lambda: {"x": VALUES}, {}, "an object of type dict is not a source of samples"),
        ([(VALUES[0], "cat")], {}, "has the label 'cat'"),
        ([np.array(["a"])], {}, "of which no array of numbers can be made"),
        (DataLoader(torch.zeros(2, 7)), {}, "has float32 1×7 for the input"),  # type: ignore[arg-type]
        (None, {}, "an object of type NoneType is not a source of samples"),
    ],
)
def test_what_is_refused(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Calib8Error, match=message):
        list(open_dataset(data, INPUT, **{"preprocess": None, **options}))
