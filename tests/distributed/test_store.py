"""The store of parts: folders and object stores, what a run may take from it, what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calib8.distributed.run_record import RECORD, RunRecord
from calib8.distributed.store import SUFFIX, Store
from calib8.errors import OutputError, TableError, UsageError
from needed import needed

KEY, OTHER = "0" * 64, "f" * 64
RECORD_OF_RUN = RunRecord.of("hash", ["a", "b"], '{"size": 3}', "data", "1.20")


@pytest.fixture
def memory() -> Iterator[Any]:
    """An object store in memory."""
    needed("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    yield MemoryFileSystem
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(params=["folder", "memory", "renaming"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store.at(tmp_path / "parts")
    if request.param == "renaming":
        needed("fsspec")
        return Store(f"local://{tmp_path}/parts")
    request.getfixturevalue("memory")
    return Store.at("memory://bucket/run/")


def test_parts_by_key(store: Store) -> None:
    assert store.keys() == set() and store.read(KEY + SUFFIX) is None
    store.write(KEY + SUFFIX, b"one")
    store.write(OTHER + SUFFIX, b"two")
    store.write(KEY + SUFFIX, b"three")
    store.write(RECORD, b"{}")
    assert store.keys() == {KEY, OTHER}
    assert (store.read(KEY + SUFFIX), store.read(OTHER + SUFFIX)) == (b"three", b"two")


def test_only_whole_parts_count(tmp_path: Path) -> None:
    for name in (f".{KEY}{SUFFIX}.abcdefgh", "part", f"{KEY}{SUFFIX}.tmp", f"short{SUFFIX}", KEY):
        (tmp_path / name).write_bytes(b"")
    assert Store.at(tmp_path).keys() == set()


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.at(tmp_path)
    store.write(KEY + SUFFIX, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(OutputError, match="No space left"):
            store.write(KEY + SUFFIX, b"new")
    assert store.read(KEY + SUFFIX) == b"old"
    assert [file.name for file in tmp_path.iterdir()] == [KEY + SUFFIX]


def test_an_empty_store_becomes_that_of_the_run(store: Store) -> None:
    RECORD_OF_RUN.agree(store)
    RECORD_OF_RUN.agree(store)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_hash": "x"}, "holds parts of another model"),
        ({"tensors": "x"}, "holds parts with another keep_float"),
        ({"preprocess": '{"size": 4}'}, r"holds parts with another preprocessing \(size 3, not 4\)"),
        ({"data": "x"}, "holds parts of other data, or they were changed since"),
        ({"input_map": '{"x": "a"}'}, "holds parts with another input_map"),
        ({"transform": "x"}, "holds parts with another transform"),
        ({"runtime": "1.21"}, r"holds parts made with ONNX Runtime 1\.20, not 1\.21"),
    ],
)
def test_parts_of_another_run_are_refused(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    store = Store.at(tmp_path)
    RECORD_OF_RUN.agree(store)
    cure = r"Give the same arguments as before, or another checkpoint to start anew\.$"
    with pytest.raises(TableError, match=rf"^{tmp_path}: {problem}\. {cure}"):
        replace(RECORD_OF_RUN, **changes).agree(store)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": "calib8-parts", "version": 9}', b"\xff"])
def test_a_record_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RECORD).write_bytes(content)
    with pytest.raises(TableError, match="holds no parts of a run"):
        RECORD_OF_RUN.agree(Store.at(tmp_path))


def test_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is of type int, not a path"):
        Store.at(3)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file: cannot be written \(File exists\)"):
        Store.at(tmp_path / "file").write(RECORD, b"")
    needed("fsspec")
    with pytest.raises(UsageError, match="is no place that fsspec knows"):
        Store.at("nowhere://bucket/run").keys()


def test_secrets_are_not_told() -> None:
    store = Store.at("s3://key:secret@bucket/run?token=secret")
    assert store.name == "s3://bucket/run"


class Failing:
    """A file system whose every call raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def cat_file(self, path: str) -> bytes:
        raise self.error


class NoCredentialsError(Exception):
    """As botocore calls it."""


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (PermissionError("Forbidden"), OutputError),
        (NoCredentialsError("Unable to locate credentials"), OutputError),
        (OSError(5, "Input/output error"), ConnectionError),
        (RuntimeError("connection was reset"), ConnectionError),
        (TimeoutError("slow"), TimeoutError),
    ],
)
def test_what_may_get_better_is_told_from_what_will_not(
    error: Exception, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "_files", lambda self: (Failing(error), "bucket/run"))
    with pytest.raises(raised):
        Store.at("s3://bucket/run").read(RECORD)


def test_a_transform_that_nothing_tells_from_another_one() -> None:
    lock = threading.Lock()
    with pytest.raises(UsageError, match=r"^transform: holds a lock, so that nothing tells it from another"):
        RunRecord.of("hash", ["a"], None, None, "1.20", transform=lambda item: (item, lock))


def test_an_empty_place_is_refused() -> None:
    """It would be the folder that the program runs in: an unset variable of a shell."""
    for place in ("", " "):
        with pytest.raises(UsageError, match=r"is empty\. Give a folder"):
            Store.at(place)


@pytest.mark.parametrize("place", ["s3://", "gs:///"])
def test_an_address_without_a_place_is_refused(place: str) -> None:
    """It would be a folder called ``s3:`` here."""
    with pytest.raises(UsageError, match=rf"'{place}' names no place in the store\. Give an address such as"):
        Store.at(place)
