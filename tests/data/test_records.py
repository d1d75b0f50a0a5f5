"""Encoded pictures as items: bytes, rows of WebDataset and of Hugging Face, alone and joined by a loader."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import COUNT, INPUT, LABELS, PIXELS, RECIPE, ROWS, VALUES, Numbered, read
from PIL import Image
from torch.utils.data import DataLoader

import calib8
from calib8.data.opening import open_dataset
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec
from small_models import normal, onnx_model


def png(pixels: Any) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()


def npy(array: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


ENCODED = [png(row) for row in ROWS]
SHARD = [
    {"__key__": f"a/{i}", "__url__": "s3://b/train-0.tar", "png": one, "cls": str(LABELS[i]).encode()}
    | {"json": b'{"a": 1}', "txt": b"a text"}
    for i, one in enumerate(ENCODED)
]
HUGGING = [{"image": {"bytes": one, "path": None}, "label": LABELS[i]} for i, one in enumerate(ENCODED)]

FORMS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: ENCODED,
    "bytearray": lambda: list(map(bytearray, ENCODED)),
    "memoryview": lambda: list(map(memoryview, ENCODED)),
    "images of Hugging Face": lambda: [{"bytes": one, "path": "a.png"} for one in ENCODED],
    "Dataset": lambda: Numbered(lambda number: ENCODED[number]),
    "DataLoader": lambda: DataLoader(Numbered(lambda number: ENCODED[number]), batch_size=4),  # type: ignore[var-annotated]
}
LABELLED: dict[str, Callable[[], Any]] = {
    "pairs": lambda: list(zip(ENCODED, LABELS, strict=True)),
    "pairs with text": lambda: [(one["png"], one["cls"]) for one in SHARD],
    "rows of WebDataset": lambda: SHARD,
    "decoded rows of WebDataset": lambda: [
        row | {"png": Image.fromarray(ROWS[i]), "cls": LABELS[i], "json": {"a": 1}, "txt": "a text"}
        for i, row in enumerate(SHARD)
    ],
    "rows of Hugging Face": lambda: HUGGING,
    "pair of an image of Hugging Face": lambda: [(row["image"], row["label"]) for row in HUGGING],
    "function": lambda: lambda: iter(SHARD),
    "generator": lambda: (row for row in SHARD),
    "loader of pairs": lambda: DataLoader(Numbered(lambda i: (ENCODED[i], LABELS[i])), batch_size=4),  # type: ignore[var-annotated]
    "loader of rows": lambda: DataLoader(Numbered(lambda i: SHARD[i]), batch_size=4),  # type: ignore[var-annotated]
    "loader without batches": lambda: DataLoader(Numbered(lambda i: SHARD[i]), batch_size=None),  # type: ignore[var-annotated]
    "batch of Hugging Face": lambda: [
        {"image": [row["image"] for row in HUGGING], "label": LABELS},
    ],
    "batch of columns": lambda: [
        {"image": {"bytes": ENCODED, "path": [None] * COUNT}, "label": torch.tensor(LABELS)}
    ],
}


@pytest.mark.parametrize("form", [*FORMS, *LABELLED])
def test_forms_give_the_pictures(form: str) -> None:
    values, labels = read((FORMS | LABELLED)[form](), preprocess=RECIPE)
    np.testing.assert_array_equal(values, VALUES % 251)
    assert labels == (LABELS if form in LABELLED else [None] * COUNT)


def test_a_folder_and_records_give_the_same_statistics(tmp_path: Path) -> None:
    model = onnx_model("float[N,3,5,6] x", "float[N,2,5,6] y", "y = Conv(x, w)", {"w": normal(2, 3, 1, 1)})
    for number, one in enumerate(ENCODED):
        (tmp_path / f"{number}.png").write_bytes(one)
    data = {"folder": tmp_path, "bytes": ENCODED, "WebDataset": SHARD[::-1], "Hugging Face": HUGGING}
    saved = {}
    for name, given in data.items():
        calib8.collect_statistics(model, given, preprocess=RECIPE).statistics.save(tmp_path / name)
        saved[name] = (tmp_path / name).read_bytes()
    assert len(set(saved.values())) == 1
    other = calib8.collect_statistics(model, ENCODED[:-1], preprocess=RECIPE).statistics
    other.save(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() != saved["folder"]


@pytest.mark.parametrize("form", [form for form in (*FORMS, *LABELLED) if "decoded" not in form])
def test_they_are_the_bytes_of_files(form: str) -> None:
    pending = list(open_dataset((FORMS | LABELLED)[form](), INPUT, RECIPE).pending())
    assert [one.fingerprint() for one in pending] == [hashlib.sha256(one).digest() for one in ENCODED]
    assert [one.held for one in pending] == list(map(len, ENCODED))


def test_one_encoded_picture_is_data() -> None:
    values, _ = read(ENCODED[2], preprocess=RECIPE)
    np.testing.assert_array_equal(values[0], PIXELS[2])


def test_arrays_as_npy() -> None:
    for data in (
        [npy(row) for row in VALUES],
        [{"__key__": str(i), "npy": npy(row), "txt": b"x"} for i, row in enumerate(VALUES)],
        [{"__key__": str(i), "x.npy": npy(row), "other.npy": npy(row)} for i, row in enumerate(VALUES)],
        [{"x": npy(row)} for row in VALUES],
    ):
        np.testing.assert_array_equal(read(data)[0], VALUES)
    pixels, _ = read([{"__key__": str(i), "npy": npy(row)} for i, row in enumerate(ROWS)], preprocess=RECIPE)
    np.testing.assert_array_equal(pixels, PIXELS)


def test_several_inputs_by_name() -> None:
    inputs = [TensorSpec(name, np.dtype(np.float32), (None, 2)) for name in ("a", "b")]
    row = {"__key__": "k", "a.npy": npy(np.ones(2)), "b.npy": npy(np.zeros(2)), "json": b"{}", "cls": b"4\n"}
    (sample,) = open_dataset([row], inputs, None)
    assert sample.name == "k" and sample.label == 4
    assert [sample.inputs[name].tolist() for name in ("a", "b")] == [[[1, 1]], [[0, 0]]]


def test_keys_name_samples() -> None:
    def names(data: Any) -> list[str]:
        return [sample.name for sample in open_dataset(data, INPUT, RECIPE)]

    assert names(SHARD)[:2] == ["train-0.tar/a/0", "train-0.tar/a/1"]
    assert names([{"key": "left", "image": ENCODED[0]}]) == ["left"]
    assert names([{"key": 7, "image": ENCODED[0]}, {"image": ENCODED[1]}]) == ["7", "sample 1"]
    assert names(DataLoader(Numbered(lambda i: SHARD[i]), batch_size=4))[5] == "train-0.tar/a/5"
    assert names([SHARD[0], SHARD[0]]) == ["train-0.tar/a/0", "train-0.tar/a/0 (2)"]


def test_a_plain_suffix_comes_first() -> None:
    rows = [row | {"mask.png": ENCODED[0], "seg.npy": npy(np.ones(3))} for row in SHARD]
    np.testing.assert_array_equal(read(rows, preprocess=RECIPE)[0], VALUES % 251)
    np.testing.assert_array_equal(
        read(rows, preprocess=RECIPE, input_map={"x": "mask.png", "label": "cls"})[0], [PIXELS[0]] * COUNT
    )


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"__key__": "a/1", "png": b"no picture"}, r"^a/1: cannot be decoded .*cannot identify image file\)"),
        ({"__key__": "a/1", "png": ENCODED[0][:40]}, "^a/1: cannot be decoded"),
        ({"__key__": "a/1", "npy": npy(VALUES)[:70]}, r"^a/1: cannot be read as \.npy"),
        ({"__key__": "a/1", "npy": npy(np.array([{}], object))}, r"^a/1: cannot be read as \.npy"),
        ({"__key__": "a/1", "png": ENCODED[0], "cls": b"cat"}, "^a/1: has the class 'cat'"),
        ({"__key__": "a/1", "png": ENCODED[0], "jpg": ENCODED[0]}, "^a/1: holds png, jpg"),
        ({"__key__": "a/1", "txt": b"x"}, "^a/1: has no array for input 'x'"),
        ((ENCODED[0], ENCODED[1]), "^sample 0: are two of one kind"),
    ],
)
def test_what_is_no_record(item: Any, told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        list(open_dataset([item], INPUT, RECIPE))
    assert " at 0x" not in str(caught.value)


def test_bad_pictures_are_skipped() -> None:
    dataset = open_dataset([SHARD[0], SHARD[1] | {"png": b"none"}, SHARD[2]], INPUT, RECIPE, skip_bad=True)
    assert [sample.label for sample in dataset] == [LABELS[0], LABELS[2]]
    assert [one.name for one in dataset.skipped] == ["train-0.tar/a/1"]


def test_pictures_need_a_preprocessing() -> None:
    with pytest.raises(UsageError, match="images need to know how the model was trained"):
        list(open_dataset(SHARD, INPUT, None))


def test_a_path_without_bytes_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(ENCODED[0])
    values, _ = read([{"image": {"bytes": None, "path": str(tmp_path / "0.png")}}], preprocess=RECIPE)
    np.testing.assert_array_equal(values[0], PIXELS[0])
