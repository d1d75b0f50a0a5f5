"""Bytes in a file, read where they are asked for: as they lie there, or inflated from the nearest kept state.

A deflated stream can be read from its beginning alone. One pass through it therefore keeps the decompressor's
state (some 50 kB) every B bytes of what comes out, and any byte costs at most B of work afterwards:

    B = max(1 MiB, size / 1024)

Nothing is mapped: a file that another process cuts meanwhile gives an error and not the end of this process.
"""

from __future__ import annotations

import io
import os
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from calib8.errors import DataError
from calib8.forks import ForkLock

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK: Final = 1 << 20
"""Bytes between two kept states, at least."""

MOST_STATES: Final = 1024

CACHED: Final = 1 << 25
"""Bytes of blocks that stay inflated, so that neighbours cost nothing; one block at least."""

_CHUNK: Final = 1 << 14
_RAW: Final = -zlib.MAX_WBITS


def unreadable(subject: str, reason: object) -> DataError:
    """The error of all that is wrong with a file of arrays."""
    return DataError(subject, f"cannot be read ({reason})", "Save it again with numpy.savez or numpy.save")


class OpenFile:
    """A regular file that stays open as long as this lives.

    Attributes:
        path: as it was given.
        handle: the system's.
        size: bytes when it was opened.
    """

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            OSError: that is not possible.
        """
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.handle)
        self.size = os.fstat(self.handle).st_size

    def read(self, position: int, length: int, subject: str) -> bytes:
        """So many bytes from there on; any thread may.

        Raises:
            DataError: they are not there (any more).
        """
        parts = []
        while length:
            try:
                part = os.pread(self.handle, length, position)
            except OSError as error:
                raise unreadable(subject, error.strerror or error) from error
            if not part:
                raise unreadable(subject, f"the file ends at byte {position}: it was cut while it was read")
            parts.append(part)
            position, length = position + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class FileView(io.RawIOBase):
    """An ``OpenFile`` for those who want a file object: with a place of its own, which nobody else moves."""

    def __init__(self, file: OpenFile) -> None:
        """At the beginning."""
        super().__init__()
        self._file, self._place = file, 0

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As that of any file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError(f"no byte {base + offset}")
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        """The next byte."""
        return self._place

    def readinto(self, buffer: Buffer) -> int:
        """As many bytes as there are and fit."""
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._file.size - self._place))
        view[:length] = self._file.read(self._place, length, str(self._file.path))
        self._place += length
        return length


class StoredBytes(Protocol):
    """What an array is read from.

    Attributes:
        subject: how messages call it.
        size: bytes.
    """

    subject: str
    size: int

    def head(self, length: int) -> bytes:
        """At most so many of the first bytes, before anything is checked."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """So many bytes from there on; the first call checks all of them against what is known of them.

        Raises:
            DataError: they are damaged, or not there.
        """
        ...


class PlainBytes:
    """Part of a file as it lies there."""

    def __init__(self, file: OpenFile, start: int, size: int, subject: str, crc: int | None) -> None:
        """``crc``: CRC-32 of them all, None where nobody knows."""
        self.subject, self.size = subject, size
        self._file, self._start, self._crc, self._lock = file, start, crc, ForkLock()

    def head(self, length: int) -> bytes:
        """At most so many of the first bytes."""
        return self._file.read(self._start, min(length, self.size), self.subject)

    def read(self, position: int, length: int) -> bytes:
        """So many bytes from there on."""
        with self._lock:
            if self._crc is not None:
                found = 0
                for place in range(0, self.size, BLOCK):
                    found = zlib.crc32(self._part(place, min(BLOCK, self.size - place)), found)
                _check_crc(found, self._crc, self.subject)
                self._crc = None
        return self._part(position, length)

    def _part(self, position: int, length: int) -> bytes:
        return self._file.read(self._start + position, length, self.subject)


_State: TypeAlias = "tuple[zlib._Decompress, int]"
"""A decompressor, and the place in the file of the next byte that it wants."""


class DeflatedBytes:
    """What part of a file holds when it is inflated."""

    def __init__(self, file: OpenFile, start: int, end: int, size: int, subject: str, crc: int) -> None:
        """``start`` … ``end``: in the file; ``size``: bytes that come out."""
        self.subject, self.size = subject, size
        self._file, self._start, self._end, self._crc = file, start, end, crc
        self._block = max(BLOCK, -(-size // MOST_STATES))
        self._states: list[_State] = []
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._lock = ForkLock()

    def head(self, length: int) -> bytes:
        """At most so many of the first bytes."""
        return self._inflated(self._first(), min(length, self.size))[0]

    def read(self, position: int, length: int) -> bytes:
        """So many bytes from there on."""
        if not length:
            return b""
        with self._lock:
            if not self._states:
                self._states = list(self._checked())
            first, last = position // self._block, (position + length - 1) // self._block
            parts = [self._inflated_block(index) for index in range(first, last + 1)]
        skipped = position - first * self._block
        if len(parts) == 1:
            return parts[0][skipped : skipped + length]
        parts[0] = parts[0][skipped:]
        parts[-1] = parts[-1][: length - sum(map(len, parts[:-1]))]
        return b"".join(parts)

    def _checked(self) -> Iterator[_State]:
        """One pass through all, a state before every block."""
        state, found = self._first(), 0
        for place in range(0, self.size, self._block):
            yield state[0].copy(), state[1]
            block, state = self._inflated(state, min(self._block, self.size - place))
            found = zlib.crc32(block, found)
        _check_crc(found, self._crc, self.subject)

    def _inflated_block(self, index: int) -> bytes:
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        state, place = self._states[index]
        length = min(self._block, self.size - index * self._block)
        self._cache[index] = block = self._inflated((state.copy(), place), length)[0]
        while len(self._cache) > max(1, CACHED // self._block):
            self._cache.popitem(last=False)
        return block

    def _first(self) -> _State:
        return zlib.decompressobj(_RAW), self._start

    def _inflated(self, state: _State, length: int) -> tuple[bytes, _State]:
        """The next bytes and the state behind them."""
        stream, place = state
        parts = []
        while length:
            chunk = self._file.read(place, min(_CHUNK, self._end - place), self.subject)
            try:
                part = stream.decompress(chunk, length)
            except zlib.error as error:
                raise unreadable(self.subject, error) from error
            place += len(chunk) - len(stream.unconsumed_tail) - len(stream.unused_data)
            if not part and (stream.eof or not chunk):
                raise unreadable(self.subject, f"its data end before byte {self.size}, where they should")
            parts.append(part)
            length -= len(part)
        return b"".join(parts), (stream, place)


def _check_crc(found: int, wanted: int, subject: str) -> None:
    if found != wanted:
        raise unreadable(subject, "its data are damaged: bad CRC-32")
