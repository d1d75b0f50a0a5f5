"""The bytes of a tmfile, looked at only inside the file: what every offset and every count goes through.

Tables, lists, texts and weights may lie anywhere behind the header, in any order. What they are read from is
noted, and at the end no two of them may lie across each other: whoever reads the same bytes as a table and as
weights has followed a broken offset. ``Budget`` of what may be read keeps small files from asking for much.
"""

from __future__ import annotations

import struct
from typing import Final

from calib8.tmfile.magic import HEADER_BYTES
from calib8.tmfile.tables import COUNT, EXTENT

MOST_ENTRIES: Final = 1 << 16
"""Tensors, nodes or buffers of a file: Tengine counts them in 16 bits."""

COPIES: Final = 4
"""Bytes that are read, per byte of the file: several tables may name the same list or weights."""

SMALLEST_BUDGET: Final = 4096

WORD_BYTES: Final = 4


class DamageError(ValueError):
    """The file contradicts itself; the text says where."""


class Bytes:
    """A file, and which parts of it were read as what.

    Attributes:
        data: the whole file.
    """

    def __init__(self, data: bytes) -> None:
        """For the bytes of a file."""
        self.data = data
        self._left = COPIES * len(data) + SMALLEST_BUDGET
        self._parts: set[tuple[int, int, str]] = set()

    def part(self, start: int, size: int, what: str) -> int:
        """Notes that so many bytes are read as something; where they start.

        Raises:
            DamageError: they do not lie in the file, or more is read of it than it holds.
        """
        if start < HEADER_BYTES or start + size > len(self.data):
            raise DamageError(f"a {what} of {size} bytes lies at byte {start} of {len(self.data)}")
        self._left -= size
        if self._left < 0:
            raise DamageError("its offsets name the same bytes over and over")
        if size:
            self._parts.add((start, start + size, what))
        return start

    def table(self, layout: struct.Struct, start: int, what: str) -> tuple[int, ...]:
        """The words of a table.

        Raises:
            DamageError: it does not lie in the file.
        """
        return layout.unpack_from(self.data, self.part(start, layout.size, what))

    def words(self, start: int, what: str, kind: str = "I", each: int = 1) -> tuple[int, ...]:
        """A list of words; empty where it is left out (0).

        Args:
            start: offset of the list.
            what: its name, for messages.
            kind: of a word, for ``struct``.
            each: words of an element.

        Raises:
            DamageError: it does not lie in the file.
        """
        if not start:
            return ()
        if start < HEADER_BYTES or start + WORD_BYTES > len(self.data):
            raise DamageError(f"a {what} lies at byte {start} of {len(self.data)}")
        (count,) = COUNT.unpack_from(self.data, start)
        self.part(start, WORD_BYTES * (1 + count * each), f"{what} of {count}")
        return struct.unpack_from(f"<{count * each}{kind}", self.data, start + WORD_BYTES)

    def entries(self, start: int, what: str) -> tuple[int, ...]:
        """Offsets of tensors, nodes or buffers.

        Raises:
            DamageError: the list does not lie in the file, or it is too long.
        """
        found = self.words(start, f"list of {what}")
        if len(found) > MOST_ENTRIES:
            raise DamageError(f"it lists {len(found)} {what}; the most are {MOST_ENTRIES}")
        return found

    def text(self, start: int) -> str:
        """A text up to its first zero byte; empty where it is left out (0). Bytes that are no UTF-8 are told
        by their numbers.

        Raises:
            DamageError: it does not lie in the file.
        """
        if not start:
            return ""
        size, place = self.table(EXTENT, start, "text")
        if not size:
            return ""
        self.part(place, size, "name")
        return self.data[place : place + size].split(b"\0", 1)[0].decode("utf-8", "backslashreplace")

    def check_overlaps(self) -> None:
        """Refuses a file in which two things lie across each other; the same thing may be named twice.

        Raises:
            DamageError: the first two that do.
        """
        end, before = 0, ""
        for start, stop, what in sorted(self._parts):
            if start < end:
                raise DamageError(
                    f"a {what} at byte {start} lies across a {before}, which ends at byte {end}"
                )
            end, before = stop, what
