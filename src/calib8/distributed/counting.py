"""Counting: the job that makes statistics of pieces, with parts in a store where one is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calib8.calibration.gatherer import Gatherer
from calib8.data.samples import DataSource
from calib8.distributed.part import Part
from calib8.distributed.store import SUFFIX, Store
from calib8.errors import CalibrationError, TableError
from calib8.parameters import parameter


@dataclass(frozen=True)
class Counting:
    """See ``Job``; what it gives in all is a ``Part``.

    Attributes:
        store: where parts are kept, so that the row of a piece has no bytes; None: they go into rows.
        mixed: parts may come from machines that compute other bits.
        once: see ``Job``.
    """

    store: Store | None
    mixed: bool
    once: bool

    def over(self, gatherer: Gatherer, key: str, records: Callable[[], DataSource]) -> tuple[bytes, int]:
        """See ``Job``: counts the samples."""
        samples = gatherer.add(records())
        skipped = list(gatherer.skipped)
        found = gatherer.take() if samples else None
        gatherer.skipped.clear()
        made = Part.of(samples, skipped, found)
        content = made.to_bytes()
        if self.store is not None:
            self.store.write(key + SUFFIX, key.encode() + content)
            content = b""
        return content, made.samples

    def nothing(self) -> Part:
        """A part of no samples."""
        return Part()

    def read(self, keys: list[str], content: bytes) -> Part:
        """The part of a row, from the store where the row has no bytes.

        Raises:
            TableError: it is broken or gone, or was written under another key.
            OSError: it could not be read this time.
        """
        if content:
            return Part.from_bytes(bytes(content), "part")
        [key] = keys
        name = key + SUFFIX
        found = None if self.store is None else self.store.read(name)
        where = f"{self.store.name if self.store else ''}/{name}"
        if found is None:
            raise TableError(where, "is gone", "Start again: what is missing is done again")
        part = Part.from_bytes(found[len(key) :], where)
        if found[: len(key)] != key.encode():
            cure = "Remove it, and what it is of is done again"
            raise TableError(where, "is the part of another piece, under its name", cure)
        return part

    def both(self, first: Part, second: Part) -> Part:
        """Two parts as one.

        Raises:
            CalibrationError: they come from machines that compute other bits, and may not.
        """
        try:
            return first.merge(second, mixed=self.mixed)
        except CalibrationError as error:
            if "which compute other last bits" not in error.problem:
                raise
            cure = (
                f"Name machines of one kind by {parameter('node_labels')}; {parameter('mixed', True)} takes "
                "them all"
            )
            raise CalibrationError("workers", error.problem, cure) from error

    def written(self, total: Part) -> bytes:
        """The bytes of a part."""
        return total.to_bytes()
