"""Members of an archive compressed by bzip2 or LZMA: unpacked whole when the first row is read."""

from __future__ import annotations

import zipfile
from typing import Final

from calib8.data.stored_bytes import FileView, OpenFile, unreadable
from calib8.forks import ForkLock

MOST: Final = 1 << 30
"""Bytes that are unpacked into memory at most."""


class UnpackedBytes:
    """What a member holds; see ``StoredBytes``."""

    def __init__(self, file: OpenFile, member: zipfile.ZipInfo, subject: str) -> None:
        """Raises DataError: it is larger than ``MOST``."""
        if member.file_size > MOST:
            problem = f"{member.file_size:,} bytes that are not deflated are more than {MOST:,}"
            raise unreadable(subject, problem)
        self.subject, self.size = subject, member.file_size
        self._file, self._member = file, member
        self._whole: bytes | None = None
        self._lock = ForkLock()

    def head(self, length: int) -> bytes:
        """At most so many of the first bytes."""
        return self._unpacked(min(length, self.size))

    def read(self, position: int, length: int) -> bytes:
        """So many bytes from there on."""
        with self._lock:
            if self._whole is None:
                self._whole = self._unpacked(self.size)
            whole = self._whole
        return whole[position : position + length]

    def _unpacked(self, length: int) -> bytes:
        """The first bytes; all of them are checked against their CRC-32."""
        try:
            with zipfile.ZipFile(FileView(self._file)) as archive, archive.open(self._member) as stream:
                found = stream.read(length)
        except Exception as error:  # a damaged archive: zipfile raises a dozen unrelated types
            raise unreadable(self.subject, error) from error
        if len(found) != length:
            raise unreadable(self.subject, f"its data end before byte {length}, where they should")
        return found
