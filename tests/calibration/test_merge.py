"""Statistics of parts are those of all: any order, any grouping, the same bytes; misfits are named."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib8.calibration.merge import merge_statistics
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError, TableError, UsageError


def part(seed: int, model: str = "m", names: tuple[str, ...] = ("a", "b")) -> Statistics:
    rng = np.random.default_rng(seed + 9)
    tensors = {
        name: TensorStatistics.from_values((rng.standard_normal((3, 50)) * 10.0**seed).astype(np.float32), 3)
        for name in names
    }
    return Statistics(model, tensors)


def test_every_order_and_grouping_gives_the_same_bytes() -> None:
    parts = [part(seed) for seed in range(-2, 2)]
    expected = merge_statistics(parts).to_bytes()
    for order in itertools.permutations(parts):
        assert merge_statistics(order).to_bytes() == expected
    halves = [merge_statistics(parts[:1]), merge_statistics(parts[1:])]
    assert merge_statistics(halves[::-1]).to_bytes() == expected


def test_files_and_statistics_may_be_mixed(tmp_path: Path) -> None:
    part(0).save(tmp_path / "0")
    merged = merge_statistics([part(1), tmp_path / "0"])
    assert merged.to_bytes() == merge_statistics([part(0), part(1)]).to_bytes()
    assert merged.samples == 6


def test_the_part_that_does_not_fit_is_named(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first.npz", "second.npz", "third.npz")]
    for file, found in zip(files, (part(0), part(1), part(2, model="other")), strict=True):
        found.save(file)
    with pytest.raises(TableError, match=r"third\.npz: was made for another model than .*first\.npz"):
        merge_statistics(files)
    part(2, names=("a",)).save(files[2])
    with pytest.raises(TableError, match=r"third\.npz: holds other tensors .*'b' is not in .*third\.npz"):
        merge_statistics(files)
    with pytest.raises(TableError, match=r"statistics 2: holds other tensors .*'c' is not in statistics 1"):
        merge_statistics([part(0), part(1, names=("a", "b", "c"))])
    files[2].write_bytes(files[1].read_bytes()[:-40])
    with pytest.raises(TableError, match=r"third\.npz: cannot be read"):
        merge_statistics(files)


def test_parts_that_were_preprocessed_in_two_ways(tmp_path: Path) -> None:
    first, second = (replace(part(seed), preprocess=f"way {seed}") for seed in (1, 2))
    with pytest.raises(TableError, match=r"statistics 2: was preprocessed otherwise than statistics 1 \(way"):
        merge_statistics([first, second])
    with pytest.raises(CalibrationError, match="preprocessed in two ways"):
        first.merge(second)
    arrays = part(3)
    orders = itertools.permutations([first, replace(second, preprocess="way 1"), arrays])
    merged = {merge_statistics(order).to_bytes() for order in orders}
    assert len(merged) == 1, "arrays go with any preprocessing, and in any order"
    (content,) = merged
    assert Statistics.from_bytes(content).preprocess == "way 1"
    with pytest.raises(TableError, match="statistics 3: was preprocessed otherwise"):
        merge_statistics([arrays, first, second])


def test_no_part_and_the_same_file_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no statistics were given"):
        merge_statistics([])
    with pytest.raises(UsageError, match="'all' is one path"):
        merge_statistics("all")
    part(0).save(tmp_path / "s")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(UsageError, match="link: is given twice"):
        merge_statistics([tmp_path / "s", tmp_path / "link"])
