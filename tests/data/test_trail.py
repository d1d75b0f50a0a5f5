"""How far a run got: the rest of the data comes, and other data are not gone on with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset
from calib8.data.trail import START, Mark, Trail
from calib8.errors import DataError
from calib8.tensors import TensorSpec

INPUT = (TensorSpec("x", np.dtype(np.float32), ("N", 3, 4, 4)),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven images, the third and the last of them bad."""
    rng = np.random.default_rng(0)
    for index in range(7):
        path = tmp_path / f"{index}.png"
        if index in (2, 6):
            path.write_bytes(b"no image")
        else:
            Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
    return tmp_path


def opened(folder: Path) -> Dataset:
    return open_dataset(folder, INPUT, Preprocess(), skip_bad=True)


def run(trail: Trail, most: int, size: int = 1) -> tuple[list[str], Mark]:
    """Names of the samples of at most so many batches, and where the trail then is."""
    names: list[str] = []
    for number, piece in enumerate(batches(trail.dataset, size, 2)):
        if number == most:
            return names, trail.mark
        names += piece.names
        trail.advance(piece.names)
    trail.finish()
    return names, trail.mark


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("stop", range(6))
def test_two_runs_read_what_one_reads(folder: Path, stop: int, size: int) -> None:
    whole, end = run(Trail(opened(folder)), 9)
    first, mark = run(Trail(opened(folder)), stop, size)
    second, found = run(Trail(opened(folder), mark), 9)
    assert first + second == whole == ["0.png", "1.png", "3.png", "4.png", "5.png"]
    assert found == end
    assert [bad.name for bad in end.skipped] == ["2.png", "6.png"]
    assert (end.done, end.last) == (7, "6.png")


def test_a_run_that_was_complete_has_nothing_left_and_is_no_error(folder: Path) -> None:
    _, end = run(Trail(opened(folder)), 9)
    again = Trail(opened(folder), end)
    assert again.dataset.taken == 5
    assert run(again, 9) == ([], end)


def test_the_same_content_elsewhere_is_the_same_data(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, mark = run(Trail(opened(folder)), 3)
    other = tmp_path_factory.mktemp("copy")
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    assert run(Trail(opened(other), mark), 9)[0] == ["4.png", "5.png"]


def test_other_content_under_the_same_name_is_refused(folder: Path) -> None:
    _, mark = run(Trail(opened(folder)), 3)
    Image.new("RGB", (4, 4), "red").save(folder / "1.png")
    with pytest.raises(DataError, match=r"its first 4 samples, up to '3\.png', are not those that were used"):
        Trail(opened(folder), mark)


@pytest.mark.parametrize("name", ["0.png", "3.png"])
def test_a_sample_more_or_less_before_the_mark_is_refused(folder: Path, name: str) -> None:
    _, mark = run(Trail(opened(folder)), 3)
    (folder / name).rename(folder / "9.png")
    with pytest.raises(DataError, match="are not those that were used"):
        Trail(opened(folder), mark)


def test_arrays_and_iterables_have_fingerprints_of_their_values() -> None:
    values = np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)
    changed = values.copy()
    changed[1, 0, 0, 0] += 1
    for source, other in (
        ({"x": values}, {"x": changed}),
        ([{"x": v[None]} for v in values], [{"x": v[None]} for v in changed]),
    ):
        dataset = open_dataset(source, INPUT, None)
        _, mark = run(Trail(dataset), 3)
        assert len(run(Trail(dataset, mark), 9)[0]) == 2
        with pytest.raises(DataError, match="not those that were used"):
            Trail(open_dataset(other, INPUT, None), mark)


def test_less_data_than_were_used_are_refused() -> None:
    values = np.zeros((4, 3, 4, 4), np.float32)
    _, mark = run(Trail(open_dataset({"x": values}, INPUT, None)), 9)
    with pytest.raises(DataError, match="its first 4 samples"):
        Trail(open_dataset({"x": values[:3]}, INPUT, None), mark)


def test_nothing_is_the_start() -> None:
    assert Mark(0, "", "0" * 64, ()) == START
