"""Shards, Parquet files and an object store on a cluster: the statistics of the folder in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_cluster import cluster_of

import calib8
from calib8.distributed import OnRay, collect, listing
from calib8.errors import DataError
from object_store import object_store, put
from stored_data import RECIPE, folder, model, parquet, shards

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its daemons to the operating system
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own use of itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """An object store, and a cluster whose workers know it."""
    with object_store("pictures") as client, cluster_of(2):
        yield client


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SAMPLES_PER_UNIT", 5)
    monkeypatch.setattr(listing, "UNITS_PER_READ", 1)


@pytest.mark.slow
def test_what_lies_in_a_store(store: Any, tmp_path: Path) -> None:
    local = folder(tmp_path / "folder")
    expected = calib8.collect_statistics(model(), local, preprocess=RECIPE).statistics.to_bytes()
    parts = "s3://pictures/run"
    put(store, shards(tmp_path / "tar"), "tar")
    put(store, parquet(tmp_path / "parquet"), "parquet")
    put(store, local, "folder")
    kept = collect(model(), "s3://pictures/tar", preprocess=RECIPE, workers=1, checkpoint=parts)
    assert kept.to_bytes() == expected
    held = store.list_objects_v2(Bucket="pictures", Prefix="run/")["Contents"]
    assert len([one for one in held if one["Key"].endswith(".part")]) == 3
    for data in ("s3://pictures/parquet", "s3://pictures/folder", str(tmp_path / "tar")):
        assert collect(model(), data, preprocess=RECIPE, workers=1).to_bytes() == expected, data


@pytest.mark.slow
def test_some_samples_of_shards_as_data(store: Any, tmp_path: Path) -> None:
    place = shards(tmp_path / "tar")
    asked: dict[str, Any] = {"preprocess": RECIPE, "samples": 7, "method": "entropy-ncnn"}
    there = calib8.calibrate(model(), OnRay(str(place), workers=1), **asked)
    assert there.table.to_json() == calib8.calibrate(model(), str(place), **asked).table.to_json()


@pytest.mark.slow
def test_a_shard_that_is_cut_off_is_named(store: Any, tmp_path: Path) -> None:
    place = shards(tmp_path / "tar")
    last = sorted(place.glob("*.tar"))[-1]
    last.write_bytes(last.read_bytes()[:-2000])
    with pytest.raises(DataError, match=last.name):
        collect(model(), str(place), preprocess=RECIPE, workers=1)
