"""Arrays in files: the rows of NumPy, in little memory, and an error for all that can be wrong with them."""

from __future__ import annotations

import io
import os
import struct
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib8.data import stored_bytes, unpacked_bytes
from calib8.data.opening import open_dataset
from calib8.data.stored_arrays import StoredArray, open_arrays
from calib8.data.stored_bytes import OpenFile
from calib8.errors import DataError
from calib8.tensors import TensorSpec

RNG = np.random.default_rng(8)
ROWS = [TensorSpec("x", np.dtype(np.float32), ("N", 64))]


METHODS = {"bzip2": zipfile.ZIP_BZIP2, "LZMA": zipfile.ZIP_LZMA}


def arrays() -> Iterator[np.ndarray[Any, Any]]:
    """Of all orders and many types."""
    values = RNG.normal(0, 9, (37, 5, 11))
    for dtype in ("<f4", ">f4", "<f2", "<f8", "u1", "<i8", ">u2", "?", "<c8"):
        yield values.astype(dtype)
    yield np.asfortranarray(values)
    yield values[:, 0, 0]
    yield np.zeros((0, 3), np.float32)
    yield values[:, :0]


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize("save", ["npy", "npy 3.0", "npz", "compressed", "bzip2", "LZMA"])
def test_rows_are_those_of_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: str, block: int
) -> None:
    monkeypatch.setattr(stored_bytes, "BLOCK", block)
    monkeypatch.setattr(stored_bytes, "CACHED", 2 * block)
    for number, array in enumerate(arrays()):
        path = tmp_path / f"{number}.{'npy' if 'npy' in save else 'npz'}"
        if "npy" in save:
            with path.open("wb") as file:
                np.lib.format.write_array(file, array, (3, 0) if "3.0" in save else None)
            found = open_arrays(path)["images"]
        elif save in METHODS:
            with zipfile.ZipFile(path, "w", METHODS[save]) as archive:
                for name, value in {"other": array[:1], "x": array}.items():
                    archive.writestr(f"{name}.npy", npy(value))
            found = open_arrays(path)["x"]
        else:
            (np.savez_compressed if save == "compressed" else np.savez)(path, other=array[:1], x=array)
            found = open_arrays(path)["x"]
        assert (found.dtype, found.shape, found.ndim) == (array.dtype, array.shape, array.ndim)
        for index in (*range(len(array)), *RNG.permutation(len(array))):
            row = found[int(index)]
            assert (row.dtype, row.shape) == (array.dtype, array.shape[1:])
            assert np.array_equal(row, array[index])
        with pytest.raises(IndexError):
            found[len(array)]


def test_any_thread_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_bytes, "BLOCK", 1000)
    values = RNG.integers(0, 20, (500, 64)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", x=values)
    found, wrong = open_arrays(tmp_path / "x.npz")["x"], list[int]()

    def read(seed: int) -> None:
        for index in np.random.default_rng(seed).permutation(len(values)):
            if not np.array_equal(found[int(index)], values[index]):
                wrong.append(int(index))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("failures", [1, 3])
def test_headers_are_read_again_where_python_fails_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """As Python before 3.11.8 does while other threads evaluate something, too."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "x.npz", x=values)
    read, calls = np.lib.format.read_array_header_1_0, []

    def fails_first(file: io.BytesIO) -> Any:
        header = read(file)
        calls.append(header)
        if len(calls) <= failures:
            raise SystemError("AST constructor recursion depth mismatch (before=39, after=35)")
        return header

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", fails_first)
    assert np.array_equal(open_arrays(tmp_path / "x.npz")["x"][2], values[2])
    assert len(calls) == failures + 1


def test_a_header_that_python_never_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))

    def fails(_: io.BytesIO) -> None:
        raise SystemError("AST constructor recursion depth mismatch (before=39, after=35)")

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", fails)
    with pytest.raises(DataError, match="depth mismatch"):
        open_arrays(tmp_path / "x.npy")["images"].shape  # noqa: B018


def test_members_that_nobody_asks_for_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((100, 64), np.float32)
    np.savez(tmp_path / "x.npz", before=np.zeros(1 << 20), x=values, behind=np.zeros(1 << 20))
    read, bytes_read = OpenFile.read, [0]

    def counted(self: OpenFile, position: int, length: int, subject: str) -> bytes:
        bytes_read[0] += length
        return read(self, position, length, subject)

    monkeypatch.setattr(OpenFile, "read", counted)
    samples = list(open_dataset(tmp_path / "x.npz", ROWS, None))
    assert len(samples) == 100
    # Once to check the CRC, once for the rows, and what a header may have.
    assert bytes_read[0] < 2 * values.nbytes + 20_000


def test_memory_does_not_grow_with_what_comes_out(tmp_path: Path) -> None:
    """A quarter of a gigabyte in each of two members, from half a megabyte of file."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("ignored", "x"):
            with archive.open(f"{name}.npy", "w") as member:
                header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 64)}
                np.lib.format.write_array_header_1_0(member, header)
                for part in range(256):
                    member.write(np.full((1 << 12, 64), part, "<f4").tobytes())
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    dataset = open_dataset(path, ROWS, None, samples=7)
    found = [sample.inputs["x"][0, 0] for sample in dataset]
    items = sorted(dataset.pending(), key=lambda item: item.fingerprint())
    again = {item.name: item.load().inputs["x"][0, 0] for item in items}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [float((index << 20) // 7 >> 12) for index in range(7)]
    assert [again[item.name] for item in dataset.pending()] == found
    assert peak < 64 << 20, f"{peak} bytes"


def archive_of(path: Path, content: bytes, name: str = "x.npy", **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr(name, content)
    return path


def npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npy_of_shape(*shape: int) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return content.getvalue() + bytes(64)


def encrypted(path: Path) -> None:
    archive_of(path, npy(np.zeros((2, 64), np.float32)))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    path.write_bytes(data)


def damaged(compression: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        values = RNG.integers(0, 9, (50, 64)).astype(np.float32)
        archive_of(path, npy(values), compression=compression)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)

    return write


def moved(path: Path) -> None:
    """The list says that the member begins elsewhere."""
    archive_of(path, npy(np.zeros((2, 64), np.float32)))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 42 : place + 46] = struct.pack("<I", 7)
    path.write_bytes(data)


def compressed_by(method: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        archive_of(path, npy(np.zeros((2, 64), np.float32)))
        data = bytearray(path.read_bytes())
        place = data.index(b"PK\x01\x02")
        data[8] = data[place + 10] = method
        path.write_bytes(data)

    return write


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no npy": (lambda path: archive_of(path, b"hello"), "array 'x': cannot be read"),
    "nothing": (lambda path: archive_of(path, b""), "array 'x': cannot be read"),
    "cut header": (lambda path: archive_of(path, npy(np.zeros(9))[:40]), "array 'x': cannot be read"),
    "cut values": (lambda path: archive_of(path, npy(np.zeros(9))[:-1]), "promises 200 bytes, there are 199"),
    "cut, deflated": (
        lambda path: archive_of(path, npy(np.zeros(9))[:-1], compression=zipfile.ZIP_DEFLATED),
        "promises 200 bytes, there are 199",
    ),
    "too large": (lambda path: archive_of(path, npy_of_shape(2**64 - 1)), "no array has the shape"),
    "too large and empty": (lambda path: archive_of(path, npy_of_shape(0, 2**63)), "no array has the shape"),
    "negative": (lambda path: archive_of(path, npy_of_shape(-1, 4)), "no array has the shape"),
    "a promise": (lambda path: archive_of(path, npy_of_shape(1 << 40, 64)), "promises .* bytes, there are"),
    "records": (lambda path: archive_of(path, npy(np.zeros(3, "f4,i4"))), "it holds values of type"),
    "code": (
        lambda path: archive_of(path, npy(np.zeros(9)).replace(b"{'descr'", b"{[][1:9]")),
        "cannot be read",
    ),
    "encrypted": (encrypted, "it is encrypted"),
    "unknown method": (compressed_by(93), "compressed by method 93, which is unknown"),
    "damaged": (damaged(zipfile.ZIP_STORED), "bad CRC-32"),
    "truth as a length": (lambda path: archive_of(path, npy_of_shape(2, True)), r"has the shape \(2, True\)"),
    "cut, bzip2": (
        lambda path: archive_of(path, npy(np.zeros(9))[:-1], compression=zipfile.ZIP_BZIP2),
        "promises 200 bytes, there are 199",
    ),
    "damaged, bzip2": (damaged(zipfile.ZIP_BZIP2), "array 'x': cannot be read"),
    "damaged, LZMA": (damaged(zipfile.ZIP_LZMA), "array 'x': cannot be read"),
    "damaged, deflated": (damaged(zipfile.ZIP_DEFLATED), "array 'x': cannot be read"),
    "no member": (moved, "no member begins at byte 7"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_members_are_refused_by_name(tmp_path: Path, fault: str) -> None:
    write, message = FAULTS[fault]
    path = tmp_path / "b.npz"
    write(path)
    with pytest.raises(DataError, match=message) as refused:
        list(open_dataset(path, ROWS, None))
    assert str(path) in str(refused.value) and refused.value.cure.startswith("Save it again")


def test_what_is_unpacked_whole_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    archive_of(path, npy(np.zeros((3, 64), np.float32)), compression=zipfile.ZIP_LZMA)
    assert len(list(open_dataset(path, ROWS, None))) == 3
    monkeypatch.setattr(unpacked_bytes, "MOST", 800)
    with pytest.raises(DataError, match="896 bytes that are not deflated are more than 800"):
        open_dataset(path, ROWS, None)


def test_a_broken_member_that_nobody_asks_for_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.ones((3, 64), np.float32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "hello")
    assert len(list(open_dataset(path, ROWS, None))) == 3


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_that_is_cut_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(stored_bytes, "BLOCK", 1000)
    monkeypatch.setattr(stored_bytes, "CACHED", 1000)
    path = tmp_path / f"x.{suffix}"
    values = RNG.normal(0, 1, (1000, 64))
    if suffix == "npz":
        np.savez_compressed(path, x=values)
    else:
        np.save(path, values)
    found = open_arrays(path)["x" if suffix == "npz" else "images"]
    assert found[0].shape == (64,)
    os.truncate(path, 5000)
    with pytest.raises(DataError, match=rf"x\.{suffix}.*was cut while it was read"):
        for index in RNG.permutation(len(found)):
            found[int(index)]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.png", "x"])
def test_pipes_are_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="is a pipe, no file"):
        open_dataset(tmp_path / name, ROWS, None)


def test_open_files_are_closed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 64), np.float32))
    array = open_arrays(tmp_path / "x.npy")["images"]
    assert isinstance(array, StoredArray)
    before = len(list(Path("/proc/self/fd").iterdir()))
    del array
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 1
