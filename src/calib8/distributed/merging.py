"""Merging parts by tasks: rows of parts become fewer rows, until the driver can take the rest one by one.

    16 rows  →  1 row      keys of all, the merged part

A key that comes twice counts once: the second row is left out with all its keys, and what nobody counted is
done again by whoever started the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from calib8.distributed.part import Part, merged
from calib8.distributed.store import SUFFIX, Store
from calib8.distributed.workers import KEYS, PART, Rows, row
from calib8.errors import CalibrationError, TableError
from calib8.parameters import parameter

ROWS_PER_TASK: Final = 16


@dataclass(frozen=True)
class Merging:
    """How parts become one; a plain value that tasks get.

    Attributes:
        store: where parts lie that a row has no bytes of; None: all are in rows.
        mixed: parts may come from machines that compute other bits.
        once: a key that comes again was done again; False: data may hold a block twice.
    """

    store: Store | None
    mixed: bool
    once: bool

    def __call__(self, batch: Rows) -> Rows:
        """Several rows as one.

        Raises:
            TableError: a part is broken or gone.
            CalibrationError: the parts come from machines that compute other bits, and may not.
            OSError: one could not be read this time.
        """
        keys, part = self.taken(zip(batch[KEYS], batch[PART], strict=True))
        return row(" ".join(keys), part.to_bytes())

    def taken(self, rows: Iterable[tuple[str, bytes]]) -> tuple[list[str], Part]:
        """Keys and parts of rows as one; what comes again is left out."""
        keys, parts, seen = list[str](), list[Part](), set[str]()
        for named, content in rows:
            own = str(named).split()
            if self.once and seen.intersection(own):
                continue
            seen.update(own)
            keys += own
            parts.append(self.part(own, content))
        return keys, self.merged(parts)

    def part(self, keys: list[str], content: bytes) -> Part:
        """The part of a row, from the store where the row has no bytes."""
        if content:
            return Part.from_bytes(bytes(content), "part")
        name = keys[0] + SUFFIX
        found = None if self.store is None else self.store.read(name)
        where = f"{self.store.name if self.store else ''}/{name}"
        if found is None:
            raise TableError(where, "is gone", "Start again: what is missing is done again")
        return Part.from_bytes(found, where)

    def merged(self, parts: Iterable[Part]) -> Part:
        """Several parts as one.

        Raises:
            CalibrationError: they come from machines that compute other bits, and may not.
        """
        try:
            return merged(list(parts), mixed=self.mixed)
        except CalibrationError as error:
            if "which compute other last bits" not in error.problem:
                raise
            cure = f"Name machines of one kind by node_labels; {parameter('mixed', True)} takes them all"
            raise CalibrationError("workers", error.problem, cure) from error
