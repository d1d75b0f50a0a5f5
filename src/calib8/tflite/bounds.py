"""Tables of a flatbuffer that are followed only inside the file, and lists that cost what they may.

The generated accessors read through a ``flatbuffers.table.Table``. Put in its place, ``Bounded`` asks of
every table whether it and its list of fields lie in the file. ``Budget`` counts what lists and texts become:
many of them may name the same bytes, and a small file could else ask for any amount of memory.
"""

from __future__ import annotations

from typing import Any, Final

from flatbuffers import number_types
from flatbuffers.table import Table

MOST_ENTRIES: Final = 1 << 16
"""Tensors, operators or buffers of a file: a hundred times what large networks have."""

COPIES: Final = 4
"""Bytes taken from lists and texts, per byte of the file."""

SMALLEST_TABLE: Final = 4
"""Bytes of a table or a list of fields at least."""

SMALLEST_BUDGET: Final = 4096
"""Bytes that the smallest file may take from lists and texts."""


class Budget:
    """What may still be taken from lists and texts of a file.

    Attributes:
        left: bytes.
    """

    def __init__(self, file_bytes: int) -> None:
        """For a file of so many bytes."""
        self.left = COPIES * file_bytes + SMALLEST_BUDGET

    def spend(self, size: int) -> None:
        """Takes so many bytes.

        Raises:
            ValueError: lists and texts name more bytes than the file has, several times over.
        """
        self.left -= size
        if self.left < 0:
            raise ValueError("its lists name the same bytes over and over")


class Bounded(Table):  # type: ignore[misc]
    """A table of which all lies in the file."""

    __slots__ = ("budget", "inline_bytes")

    def __init__(self, table: Table, budget: Budget) -> None:
        """Checks the table.

        Raises:
            ValueError, struct.error, TypeError: it leaves the file.
        """
        super().__init__(table.Bytes, table.Pos)
        size = len(self.Bytes)
        fields = self.Pos - self.Get(number_types.SOffsetTFlags, self.Pos)
        if not 0 <= fields <= size - SMALLEST_TABLE:
            raise ValueError(f"the fields of a table are listed at byte {fields} of {size}")
        listed = self.Get(number_types.VOffsetTFlags, fields)
        self.inline_bytes = self.Get(number_types.VOffsetTFlags, fields + 2)
        self.budget = budget
        for what, start, length in (
            ("list of fields", fields, listed),
            ("table", self.Pos, self.inline_bytes),
        ):
            if length < SMALLEST_TABLE or start + length > size:
                raise ValueError(f"a {what} has {length} bytes at byte {start} of {size}")

    def Offset(self, vtableOffset: int) -> int:  # noqa: N802, N803 - the names of the package
        """Place of a field in the table, 0 for one that is left out.

        Raises:
            ValueError: it lies beside the table.
        """
        place = int(super().Offset(vtableOffset))
        if place and not SMALLEST_TABLE <= place < self.inline_bytes:
            raise ValueError(f"a field lies at byte {place} of a table of {self.inline_bytes}")
        return place

    def String(self, off: int) -> bytes:  # noqa: N802 - the name of the package
        """A text.

        Raises:
            ValueError: it ends beyond the file.
        """
        start = off + self.Get(number_types.UOffsetTFlags, off)
        size = self.Get(number_types.UOffsetTFlags, start)
        if start + number_types.UOffsetTFlags.bytewidth + size > len(self.Bytes):
            raise ValueError(f"a text of {size} bytes at byte {start} of {len(self.Bytes)}")
        self.budget.spend(size)
        return bytes(super().String(off))


def bounded(entry: Any, budget: Budget) -> Any:
    """The generated accessor itself, which from now on stays in the file.

    Raises:
        ValueError, struct.error, TypeError: its table leaves it.
    """
    entry._tab = Bounded(entry._tab, budget)
    return entry
