"""Batches: order, bounds of the look-ahead, shapes that change, errors and closing."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.batches import Batch, batches
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset, Pending, Sample
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec

FLOAT = np.dtype(np.float32)
ROWS = [TensorSpec("x", FLOAT, ("N", 2))]


def items(count: int, rows: int = 1) -> list[dict[str, Any]]:
    return [{"x": np.full((rows, 2), index, np.float32)} for index in range(count)]


def sizes(dataset: Dataset, size: int, threads: int = 2) -> list[int]:
    return [len(next(iter(batch.inputs.values()))) for batch in batches(dataset, size, threads)]


def data_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("calib8-data")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    for index in range(11):
        shape = (int(rng.integers(8, 200)), int(rng.integers(8, 200)), 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / f"{index:02}.png")
    return tmp_path


def test_batches_hold_the_samples_in_order() -> None:
    dataset = open_dataset([(item, index) for index, item in enumerate(items(7))], ROWS, None)
    got = list(batches(dataset, 3, 2))
    assert [batch.names for batch in got] == [
        ("sample 0", "sample 1", "sample 2"),
        ("sample 3", "sample 4", "sample 5"),
        ("sample 6",),
    ]
    assert [batch.labels for batch in got] == [(0, 1, 2), (3, 4, 5), (6,)]
    assert got[1].inputs["x"].tolist() == [[3, 3], [4, 4], [5, 5]]
    assert [batch.inputs["x"].flags["C_CONTIGUOUS"] for batch in got] == [True] * 3


def equal(a: Batch, b: Batch) -> bool:
    same = a.names == b.names and a.labels == b.labels and a.inputs.keys() == b.inputs.keys()
    return same and all(np.array_equal(a.inputs[name], b.inputs[name]) for name in a.inputs)


def test_every_number_of_threads_gives_the_same(folder: Path) -> None:
    inputs = [TensorSpec("x", FLOAT, ("N", 3, 16, 16))]
    dataset = open_dataset(folder, inputs, Preprocess(filter="opencv-bilinear"))
    runs = [list(batches(dataset, 4, threads)) for threads in (1, 2, 5, 16)]
    assert [name for batch in runs[0] for name in batch.names] == [f"{index:02}.png" for index in range(11)]
    for run in runs[1:]:
        assert len(run) == len(runs[0]) == 3
        assert all(equal(a, b) for a, b in zip(run, runs[0], strict=True))
    one_by_one = np.concatenate([sample.inputs["x"] for sample in dataset])
    assert np.array_equal(np.concatenate([batch.inputs["x"] for batch in runs[0]]), one_by_one)


def test_order_holds_when_later_samples_are_ready_first() -> None:
    loaded = [threading.Event() for _ in range(20)]

    def load(index: int) -> Sample:
        if index % 2 == 0:
            assert loaded[index + 1].wait(600), "the next one is loaded meanwhile"
        loaded[index].set()
        return Sample(str(index), {"x": np.full((1, 2), index, np.float32)}, index)

    dataset = fake_dataset(20, load)
    labels = [label for batch in batches(dataset, 4, 4) for label in batch.labels]
    assert labels == list(range(20))


def fake_dataset(count: int, load: Any) -> Dataset:
    def pending() -> Iterator[Pending]:
        for index in range(count):
            yield Pending(str(index), partial(load, index), bytes)

    return Dataset("fake", pending, count, None, None, False, [])


@pytest.mark.parametrize(("size", "threads"), [(1, 1), (4, 2), (3, 5)])
def test_look_ahead_is_bounded(size: int, threads: int) -> None:
    loaded: list[int] = []
    asked_for: list[int] = []

    def load(index: int) -> Sample:
        loaded.append(index)
        return Sample(str(index), {"x": np.zeros((1, 2), np.float32)}, None)

    def pending() -> Iterator[Pending]:
        for index in range(60):
            asked_for.append(index)
            yield Pending(str(index), partial(load, index), bytes)

    for number, _ in enumerate(
        batches(Dataset("fake", pending, 60, None, None, False, []), size, threads), 1
    ):
        used = number * size
        assert len(loaded) <= len(asked_for) <= used + size + threads
        assert len(asked_for) > used or used == 60  # it does run ahead
    assert sorted(loaded) == list(range(60))


def test_samples_are_loaded_in_several_threads_at_once() -> None:
    together = threading.Barrier(3, timeout=600)

    def load(index: int) -> Sample:
        together.wait()  # breaks unless three loads run at the same time
        return Sample(str(index), {"x": np.zeros((1, 2), np.float32)}, None)

    assert len(list(batches(fake_dataset(6, load), 2, 3))) == 3


def test_shapes_that_change_start_a_new_batch() -> None:
    inputs = [TensorSpec("x", FLOAT, ("N", 3, "H", "W"))]
    shapes = [(4, 4), (4, 4), (4, 6), (4, 4), (4, 4), (4, 4)]
    dataset = open_dataset([{"x": np.zeros((1, 3, *shape))} for shape in shapes], inputs, None)
    got = [batch.inputs["x"].shape for batch in batches(dataset, 2, 2)]
    assert got == [(2, 3, 4, 4), (1, 3, 4, 6), (2, 3, 4, 4), (1, 3, 4, 4)]


def test_size_counts_rows_and_samples_are_never_split() -> None:
    assert sizes(open_dataset(items(5, rows=2), ROWS, None), 5) == [4, 4, 2]
    assert sizes(open_dataset(items(2, rows=8), ROWS, None), 5) == [8, 8]


def test_a_fixed_batch_axis_rules() -> None:
    assert sizes(open_dataset(items(3), [TensorSpec("x", FLOAT, (1, 2))], None), 16) == [1, 1, 1]
    assert sizes(open_dataset(items(10), [TensorSpec("x", FLOAT, (4, 2))], None), 16) == [4, 4, 2]


def test_inputs_without_a_common_batch_axis_are_not_stacked() -> None:
    inputs = [
        TensorSpec("x", FLOAT, ("N", 2)),
        TensorSpec("state", FLOAT, (2, "N", 3)),
        TensorSpec("sr", np.dtype(np.int64), ()),
    ]
    one = {"x": np.zeros((1, 2)), "state": np.zeros((2, 1, 3)), "sr": np.int64(16000)}
    got = list(batches(open_dataset([one] * 3, inputs, None), 8, 2))
    assert [batch.inputs["state"].shape for batch in got] == [(2, 1, 3)] * 3
    assert got[0].inputs["sr"].shape == ()


def test_images_without_batch_axis_are_not_stacked(folder: Path) -> None:
    dataset = open_dataset(folder, [TensorSpec("x", FLOAT, (3, 8, 8))], Preprocess())
    assert {batch.inputs["x"].shape for batch in batches(dataset, 4, 2)} == {(3, 8, 8)}


def test_several_inputs_are_stacked_together() -> None:
    inputs = [TensorSpec("a", FLOAT, ("N", 2)), TensorSpec("b", FLOAT, ("N", 1))]
    data = [{"a": np.full((1, 2), i), "b": np.full((1, 1), -i)} for i in range(3)]
    (batch,) = batches(open_dataset(data, inputs, None), 8, 2)
    assert batch.inputs["a"][:, 0].tolist() == [0, 1, 2]
    assert batch.inputs["b"][:, 0].tolist() == [0, -1, -2]


def test_bad_image_is_raised_in_its_turn(folder: Path) -> None:
    (folder / "05.png").write_bytes(b"broken")
    dataset = open_dataset(folder, [TensorSpec("x", FLOAT, ("N", 3, 8, 8))], Preprocess())
    running = batches(dataset, 2, 4)
    assert [next(running).names for _ in range(2)] == [("00.png", "01.png"), ("02.png", "03.png")]
    with pytest.raises(DataError, match=r"05\.png: cannot be decoded"):
        next(running)
    assert not data_threads()


@pytest.mark.parametrize("threads", [1, 4])
def test_bad_images_are_skipped_in_order(folder: Path, threads: int) -> None:
    for name in ("09.png", "00.png", "04.png"):
        (folder / name).write_bytes(b"broken")
    dataset = open_dataset(folder, [TensorSpec("x", FLOAT, ("N", 3, 8, 8))], Preprocess(), skip_bad=True)
    assert sizes(dataset, 3, threads) == [3, 3, 2]
    assert [bad.name for bad in dataset.skipped] == ["00.png", "04.png", "09.png"]


def test_errors_of_the_source_come_after_the_samples_before_them() -> None:
    def source() -> Iterator[Any]:
        yield from items(4)
        raise RuntimeError("disk gone")

    running = batches(open_dataset(source, ROWS, None), 2, 2)
    assert [len(next(running).names) for _ in range(2)] == [2, 2]
    with pytest.raises(DataError, match=r"item 4: .* raised RuntimeError: disk gone") as caught:
        next(running)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_empty_source_is_an_error() -> None:
    with pytest.raises(DataError, match="gave no samples"):
        list(batches(open_dataset(list, ROWS, None), 2, 2))


def test_closing_ends_the_threads(folder: Path) -> None:
    dataset = open_dataset(folder, [TensorSpec("x", FLOAT, ("N", 3, 8, 8))], Preprocess())
    running = batches(dataset, 2, 3)
    next(running)
    assert data_threads()
    running.close()
    assert not data_threads()


def test_closing_closes_the_users_generator() -> None:
    closed: list[bool] = []

    def source() -> Iterator[Any]:
        try:
            yield from items(50)
        finally:
            closed.append(True)

    running = batches(open_dataset(source, ROWS, None), 2, 2)
    next(running)
    running.close()
    del running
    assert closed == [True]


@pytest.mark.parametrize(("size", "threads"), [(0, 1), (1, 0)])
def test_size_and_threads_are_checked_at_once(size: int, threads: int) -> None:
    with pytest.raises(UsageError, match="0 is too few"):
        batches(open_dataset(items(1), ROWS, None), size, threads)
