"""Jobs: what is done with every piece of the data, and how what was done becomes one.

    piece  →  over  →  row {keys, content}          rows  →  joined, each key once  →  row {keys, content}

A key that comes twice counts once: the second row is left out with all its keys, and what nobody did is done
again by whoever started the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeAlias, TypeVar

from calib8.calibration.gatherer import Gatherer
from calib8.data.samples import DataSource

Row: TypeAlias = tuple[str, bytes]
"""The keys of what is in it, with spaces between, and the content."""

Total = TypeVar("Total")


class Job(Protocol[Total]):
    """A plain value that goes to every worker."""

    @property
    def once(self) -> bool:
        """A key that comes again was done again; False: data may hold a block twice."""

    def over(self, gatherer: Gatherer, key: str, records: Callable[[], DataSource]) -> tuple[bytes, int]:
        """Does a piece; returns the content of its row, and how many good samples it had.

        Args:
            gatherer: of the worker.
            key: of the piece.
            records: reads its samples.

        Raises:
            Calib8Error: the samples do not fit the model, or cannot be read or written to the end.
            OSError: they could not be read or written this time.
        """

    def nothing(self) -> Total:
        """What no piece at all gives."""

    def read(self, keys: list[str], content: bytes) -> Total:
        """What a row holds.

        Raises:
            Calib8Error: it is broken or gone.
            OSError: it could not be read this time.
        """

    def both(self, first: Total, second: Total) -> Total:
        """What two rows give together; exact, in any order.

        Raises:
            CalibrationError: they do not belong together.
        """

    def written(self, total: Total) -> bytes:
        """The content of a row, as ``read`` takes it."""


class Joined(Generic[Total]):
    """Rows as one.

    Attributes:
        keys: of all rows that were taken, in their order.
        total: what they give together.
    """

    def __init__(self, job: Job[Total], rows: Iterable[Row] = ()) -> None:
        """Takes the rows."""
        self._job, self._seen = job, set[str]()
        self.keys, self.total = list[str](), job.nothing()
        for keys, content in rows:
            self.take(keys, content)

    def take(self, keys: str, content: bytes) -> None:
        """Adds a row; one that holds a key that was taken is left out, with all its keys."""
        own = str(keys).split()
        if self._job.once and self._seen.intersection(own):
            return
        self.total = self._job.both(self.total, self._job.read(own, content))
        self._seen.update(own)
        self.keys += own

    def __contains__(self, key: str) -> bool:
        """Whether the key was taken."""
        return key in self._seen

    def row(self) -> Row:
        """All of it as a row."""
        return " ".join(self.keys), self._job.written(self.total)
