"""Tar shards as WebDataset writes them, read as a stream: members that share a key are a row.

    000/17.jpg, 000/17.cls, 000/17.json   →   {"__key__": "000/17", "jpg": b"…", "cls": b"3", "json": b"…"}

The key of a member is its path up to the first dot of its file name. A shard counts as read only if the
marker at its end was met with nothing but zeros behind it, or the file ends right behind a whole member:
``tarfile`` takes a broken header in the middle of a stream for the end.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, Final, cast

from calib8.data.stored_files import StoredFile
from calib8.errors import DataError

LARGEST_ROW: Final = 1 << 30
"""Bytes of all members of a row; more is a mistake."""

_ENDINGS: Final = ("EOFHeaderError", "EmptyHeaderError")
"""How ``tarfile`` calls the marker at the end, and the plain end of the file."""

_BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


class _Member(tarfile.TarInfo):
    """A header that lets its archive know why there is no further one."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Any:
        try:
            return super().fromtarfile(tarfile)
        except Exception as reason:
            tarfile.ending = reason
            raise


def tar_rows(file: StoredFile) -> Iterator[dict[str, Any]]:
    """The rows of a shard in their order, ``__key__`` and suffix → bytes; one row is in memory at a time.

    Raises:
        UsageError: a package is missing.
        DataError: the shard cannot be opened or is broken; it has links, members without a key of their own,
            or rows that are too large.
    """
    row: dict[str, Any] = {}
    seen: set[int] = set()
    with file.open() as raw, ExitStack() as stack:
        try:
            content = _unpacked(raw, stack)
            for key, suffix, value in _members(content, file, stack):
                if row and row["__key__"] != key:
                    yield row
                    row = {}
                if not row:
                    _note(key, seen, file)
                    row = {"__key__": key}
                _add(row, suffix, value, file)
            _read_to_the_end(content)
        except _BROKEN as error:
            raise _broken(file, row.get("__key__", ""), error) from error
    if row:
        yield row


def _unpacked(raw: BinaryIO, stack: ExitStack) -> BinaryIO:
    """The bytes of the archive; gzip is read here, because ``tarfile`` does not look at its checksum."""
    held = io.BufferedReader(cast(Any, _Unclosed(raw)), 1 << 16)
    if held.peek(2)[:2] != b"\x1f\x8b":
        return held
    return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=held)))


class _Unclosed(io.RawIOBase):
    """A file that its owner closes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def _members(content: BinaryIO, file: StoredFile, stack: ExitStack) -> Iterator[tuple[str, str, bytes]]:
    """Key, suffix and bytes of each member that has them.

    Raises:
        DataError: the archive ends where it should not.
    """
    archive: Any = tarfile.open(fileobj=content, mode="r|*", tarinfo=_Member)  # noqa: SIM115 - by the stack
    stack.enter_context(archive)
    key = ""
    for member in archive:
        archive.members = []  # which would grow with the shard
        found = _key_and_suffix(member.name)
        if found is None or member.isdir():
            continue
        key, suffix = found
        if not member.isreg():
            problem = f"'{member.name}' is a link or a device, no file"
            raise DataError(file.name, problem, "Write the shard with the files themselves")
        if member.size > LARGEST_ROW:
            raise _too_large(file, key)
        held = archive.extractfile(member)
        value = held.read() if held is not None else b""
        if len(value) != member.size:
            raise tarfile.ReadError("unexpected end of data")
        yield key, suffix, value
    ending = getattr(archive, "ending", None)
    if type(ending).__name__ not in _ENDINGS:
        raise _broken(file, key, ending)
    while behind := archive.fileobj.read(1 << 16):
        if behind.strip(b"\0"):
            problem = f"goes on behind the end that it marks, which is behind '{key}'"
            cure = "Write the shard again; shards that were joined are given one by one"
            raise DataError(file.name, problem, cure)


def _key_and_suffix(name: str) -> tuple[str, str] | None:
    """``./000/17.seg.png`` → ``000/17`` and ``seg.png``; None for dot files and names without a suffix."""
    folder, slash, last = name.removeprefix("./").rpartition("/")
    stem, _, suffix = last.partition(".")
    hidden = any(part.startswith(".") for part in folder.split("/"))
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and suffix and not hidden else None


def _note(key: str, seen: set[int], file: StoredFile) -> None:
    """Refuses a key that came before: its members do not follow each other.

    Numbers stand for the keys, so that a million of them take some ten megabytes.
    """
    if (number := hash(key)) in seen:
        problem = "comes a second time, behind another key"
        cure = "Write the members of a sample behind each other, such as in the order of their names"
        raise DataError(f"{file.name}/{key}", problem, cure)
    seen.add(number)


def _add(row: dict[str, Any], suffix: str, value: bytes, file: StoredFile) -> None:
    key = row["__key__"]
    if suffix in row:
        raise DataError(
            f"{file.name}/{key}", f"has two members .{suffix}", "Give each sample a key of its own"
        )
    row[suffix] = value
    if sum(len(each) for each in row.values()) > LARGEST_ROW:
        raise _too_large(file, key)


def _read_to_the_end(content: BinaryIO) -> None:
    """Reads what is behind the marker: a checksum may follow."""
    while content.read(1 << 16):
        pass


def _too_large(file: StoredFile, key: str) -> DataError:
    problem = f"holds more than {LARGEST_ROW >> 20:,} MiB"
    return DataError(f"{file.name}/{key}", problem, "Leave large members out of shards of samples")


def _broken(file: StoredFile, key: str, error: object) -> DataError:
    where = f"behind '{key}'" if key else "at its beginning"
    reason = " ".join(str(error).split()) or type(error).__name__
    cure = "Write or copy the shard again; it may be cut off"
    return DataError(file.name, f"is broken {where} ({reason})", cure)
