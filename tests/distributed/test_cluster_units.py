"""Units: which samples they hold, what tells them apart, what a worker reads of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import calib8
from calib8 import Gatherer, Preprocess
from calib8.distributed.listing import units_of
from calib8.distributed.part import Part, merged
from calib8.distributed.units import Unit
from calib8.errors import DataError, UsageError
from small_nets import Net, squeeze_excite

RECIPE = Preprocess(mean=(120.0,), scale=(0.02,), color="gray")


def network(batch: int | str = "N") -> Gatherer:
    net = Net(shape=(batch, 1, 12, 12))
    return Gatherer(net.model(net.conv("x", 1, 8, name="first")), preprocess=RECIPE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    for index in range(10):
        file = tmp_path / f"{index % 2}" / f"{index:02}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (14, 15), dtype=np.uint8)).save(file)
    return tmp_path


def found_by(gatherer: Gatherer, units: tuple[Unit, ...]) -> bytes:
    """The statistics of units that are done one by one, the last one first."""
    parts = list[Part]()
    for unit in units[::-1]:
        count = gatherer.add(Unit.from_json(unit.to_json()).records())
        parts.append(Part.of(count, [], gatherer.take()))
    statistics = merged(parts).statistics
    assert statistics is not None
    return statistics.to_bytes()


@pytest.mark.parametrize("samples", [None, 7])
def test_units_of_a_folder_are_the_samples_of_one_run(folder: Path, samples: int | None) -> None:
    with network() as gatherer:
        listed = units_of(str(folder), gatherer, samples, most=3)
        assert [unit.samples for unit in listed.units] == ([3, 3, 3, 1] if samples is None else [3, 3, 1])
        net = Net(shape=("N", 1, 12, 12))
        model = net.model(net.conv("x", 1, 8, name="first"))
        whole = calib8.collect_statistics(model, folder, preprocess=RECIPE, samples=samples).statistics
        assert listed.samples == whole.samples and listed.preprocess == whole.preprocess
        assert found_by(gatherer, listed.units) == whole.to_bytes()


def test_a_fixed_batch_stays_together(folder: Path) -> None:
    with network(4) as gatherer:
        assert [unit.samples for unit in units_of(str(folder), gatherer, None, most=3).units] == [4, 4, 2]


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_rows_of_arrays(tmp_path: Path, suffix: str) -> None:
    rows = np.random.default_rng(1).normal(0, 1, (9, 4, 8, 8)).astype(np.float32)
    place = tmp_path / f"rows{suffix}"
    np.save(place, rows) if suffix == ".npy" else np.savez(place, x=rows, labels=np.arange(9))
    whole = calib8.collect_statistics(squeeze_excite(), place, samples=7).statistics
    with Gatherer(squeeze_excite()) as gatherer:
        listed = units_of(str(place), gatherer, 7, most=3)
        assert [unit.rows for unit in listed.units] == [(0, 1, 2), (3, 5, 6), (7,)]
        assert listed.preprocess is None
        assert found_by(gatherer, listed.units) == whole.to_bytes()


def test_rows_that_follow_one_another_take_no_more_room_for_more(tmp_path: Path) -> None:
    place = tmp_path / "rows.npy"
    np.save(place, np.zeros((2000, 4, 8, 8), np.float32))
    with Gatherer(squeeze_excite()) as gatherer:
        few, many = (units_of(str(place), gatherer, None, most=most).units for most in (10, 1000))
    assert [unit.rows for unit in many] == [range(1000), range(1000, 2000)]
    assert len(many[0].to_json()) < len(few[0].to_json()) + 5
    assert [Unit.from_json(unit.to_json()) for unit in many] == list(many)
    assert many[1].name == f"{place}[1000 … 1999]" and many[1].samples == 1000


def test_keys_tell_place_content_and_samples_apart(folder: Path) -> None:
    with network() as gatherer:
        listed = units_of(str(folder), gatherer, None, most=3)
        again = units_of(str(folder), gatherer, None, most=3)
        file = folder / "1" / "05.png"
        os.utime(file, ns=(1, 1))
        touched = units_of(str(folder), gatherer, None, most=3)
    assert listed == again and listed.digest == again.digest
    assert len({unit.key for unit in listed.units}) == 4
    changed = [one for one, other in zip(listed.units, touched.units, strict=True) if one.key != other.key]
    assert [one.files for one in changed] == [one.files for one in listed.units if "1/05.png" in one.files]
    assert listed.digest != touched.digest
    unit = listed.units[0]
    assert len({unit.key, replace(unit, stamp="").key, replace(unit, files=unit.files[:2]).key}) == 3


def test_what_changed_or_is_not_there_is_told(folder: Path) -> None:
    with network() as gatherer:
        unit = units_of(str(folder), gatherer, None, most=3).units[0]
    with pytest.raises(DataError, match="is not there on a machine of the cluster"):
        replace(unit, source=str(folder / "elsewhere")).records()
    os.utime(folder / unit.files[1], ns=(1, 1))
    with pytest.raises(DataError, match=r"0/00\.png and 2 more: changed since the run began"):
        unit.records()
    (folder / unit.files[1]).unlink()
    with pytest.raises(DataError, match=r"02\.png: cannot be found"):
        unit.records()


def test_what_is_no_data_is_told_before_any_worker_starts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("no picture")
    with network() as gatherer:
        with pytest.raises(DataError, match="no such file"):
            units_of(str(tmp_path / "nowhere"), gatherer, None)
        with pytest.raises(DataError, match=r"shard\.tar: does not exist"):
            units_of(str(tmp_path / "shard.tar"), gatherer, None)
    with Gatherer(squeeze_excite()) as gatherer:
        with pytest.raises(UsageError, match="images need to know how the model was trained"):
            units_of(str(folder), gatherer, None)
        np.savez(tmp_path / "odd.npz", y=np.zeros((3, 4), np.float32))
        with pytest.raises(DataError, match=r"holds y, but no 'x'"):
            units_of(str(tmp_path / "odd.npz"), gatherer, None)
