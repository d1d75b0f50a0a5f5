"""Data in an object store: what a folder of the same pictures gives, and a store that says no.

A server of the tests' own stands for the store (moto), on a free port of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calib8
from calib8.data.opening import open_dataset
from calib8.errors import DataError, UsageError
from needed import needed
from object_store import SECRET, object_store, put
from stored_data import CLASSES, COUNT, INPUT, KEYS, RECIPE, folder, model, parquet, shards


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """The client of a store with an empty bucket ``pictures``; the environment names it."""
    with object_store("pictures") as client:
        yield client


def test_a_store_gives_the_statistics_of_the_folder(store: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.stats"
    local = folder(tmp_path / "folder")
    calib8.collect_statistics(model(), local, preprocess=RECIPE).statistics.save(out)
    expected = out.read_bytes()
    put(store, shards(tmp_path / "tar"), "tar")
    put(store, parquet(tmp_path / "parquet"), "parquet")
    put(store, local, "folder")
    for data in (
        "s3://pictures/tar",
        "s3://pictures/tar/train-{000..002}.tar",
        "s3://pictures/tar/*.tar",
        "s3://pictures/parquet/",
        "s3://pictures/folder",
        "s3:/pictures/folder",
        "s3://pictures/folder/*/*.png",
        "s3://pictures/folder/{cat,dog}/00?.png",
    ):
        calib8.collect_statistics(model(), data, preprocess=RECIPE).statistics.save(out)
        assert out.read_bytes() == expected, data


def test_a_remote_folder_has_names_and_labels_as_a_local_one(store: Any, tmp_path: Path) -> None:
    address = put(store, folder(tmp_path / "folder"), "labelled")
    dataset = open_dataset(address, INPUT, RECIPE)
    assert [one.name for one in dataset] == [f"{key}.png" for key in KEYS]
    assert [one.label for one in dataset] == CLASSES and dataset.class_names == ("cat", "dog")
    local = open_dataset(tmp_path / "folder", INPUT, RECIPE, samples=4)
    assert [one.name for one in open_dataset(address, INPUT, RECIPE, samples=4)] == [
        one.name for one in local
    ]
    lines = "".join(f"{key}.png {9 - number}\n" for number, key in enumerate(KEYS))
    (tmp_path / "list.txt").write_text(lines)
    listed = open_dataset(address, INPUT, RECIPE, labels=tmp_path / "list.txt")
    assert [one.label for one in listed] == list(range(9, -1, -1)) and listed.labels_asked
    store.put_object(Bucket="pictures", Key="labelled/labels.txt", Body=lines.encode())
    assert [one.label for one in open_dataset(address, INPUT, RECIPE)] == list(range(9, -1, -1))
    store.put_object(Bucket="pictures", Key="labelled/labels.txt", Body=b"cat dog\n")
    assert "'dog' is not a class number" in open_dataset(address, INPUT, RECIPE).label_note


def test_what_comes_later_is_seen(store: Any, tmp_path: Path) -> None:
    address = put(store, shards(tmp_path / "tar"), "later")
    assert len(list(open_dataset(address, INPUT, RECIPE))) == COUNT
    store.delete_object(Bucket="pictures", Key="later/train-002.tar")
    assert len(list(open_dataset(address, INPUT, RECIPE))) == 7


def test_nothing_is_there(store: Any) -> None:
    store.put_object(Bucket="pictures", Key="texts/a.txt", Body=b"a")
    for address, told in {
        "s3://no-such-bucket/a.tar": "does not exist",
        "s3://no-such-bucket/a-{0..1}.tar": "does not exist",
        "s3://pictures/none.tar": "does not exist",
        "s3://pictures/none-{0..3}.tar": "none-0.tar: does not exist",
        "s3://pictures/none*.tar": "matches no file",
        "s3://pictures/texts": "holds no tar shard, Parquet file or picture",
        "s3://pictures/texts/a.txt": "'a.txt' is no tar shard, Parquet file or picture",
    }.items():
        with pytest.raises(DataError, match=told) as caught:
            open_dataset(address, INPUT, RECIPE)
        assert "\n" not in str(caught.value) and SECRET not in str(caught.value)


def test_a_store_that_cannot_be_reached(store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import s3fs

    address = put(store, shards(tmp_path / "tar"), "gone")
    dataset = open_dataset(address, INPUT, RECIPE, skip_bad=True)

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(s3fs.S3FileSystem, "_open", refuse)
    with pytest.raises(DataError, match=r"train-000\.tar: access was refused \(Access Denied\)"):
        list(dataset)


def test_pictures_that_cannot_be_fetched_are_no_bad_ones(
    store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import s3fs

    dataset = open_dataset(put(store, folder(tmp_path / "f"), "lost"), INPUT, RECIPE, skip_bad=True)

    def refuse(*_: Any, **__: Any) -> Any:
        raise ConnectionError(f"no way to https://me:{SECRET}@host")

    monkeypatch.setattr(s3fs.S3FileSystem, "_open", refuse)
    with pytest.raises(DataError, match="cannot be read") as caught:
        list(dataset)
    assert SECRET not in str(caught.value) and "***@host" in str(caught.value)


def test_refused_credentials(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import botocore.exceptions
    import s3fs

    async def refuse(*_: Any, **__: Any) -> Any:
        raise botocore.exceptions.NoCredentialsError()

    monkeypatch.setattr(s3fs.S3FileSystem, "_info", refuse)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(DataError, match=r"^s3://pictures/a\.tar: access was refused \(Unable to locate cred"):
        open_dataset("s3://pictures/a.tar", INPUT, RECIPE)


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    needed("fsspec")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"needs the package gcsfs\. Install it: pip install 'gcsfs'"):
        open_dataset("gs://bucket/a.tar", INPUT, RECIPE)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"needs the package fsspec\. Install it: .*calib8\[remote\]"):
        open_dataset("s3://bucket/a.tar", INPUT, RECIPE)


def test_secrets_are_never_told() -> None:
    needed("fsspec")
    address = "nosuch://me:pass@host/a-{0..1}.tar?token=abc"
    with pytest.raises(DataError) as caught:
        open_dataset(address, INPUT, RECIPE)
    assert str(caught.value).startswith("nosuch://***@host/a-0.tar?token=***: ")


def test_parquet_needs_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    data = parquet(tmp_path / "p")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"needs the package pyarrow\. Install it: .*calib8\[parquet\]"):
        open_dataset(data, INPUT, RECIPE)
