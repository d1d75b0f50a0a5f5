"""Progress of long steps: a bar with rate and remaining time on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from calib8.cli.terminal import Terminal

if TYPE_CHECKING:
    from calib8.progress import Progress


class SamplesSeen:
    """The ``progress`` that the pipeline calls; remembers how many samples were done.

    Attributes:
        done: samples done in the first stage, the one that passes all of them.
        total: samples in all, None where unknown.
    """

    def __init__(self, bar: Progress | None) -> None:
        """``bar``: draws what it is told; None: nothing is drawn."""
        self.done = 0
        self.total: int | None = None
        self._bar = bar
        self._first: str | None = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Counts the samples of the first stage, and shows the bar of any."""
        self._first = self._first or stage
        if stage == self._first:
            self.done, self.total = done, total
        if self._bar is not None:
            self._bar(stage, done, total)

    @property
    def missing(self) -> int:
        """Samples that were announced and did not come: bad ones that were skipped."""
        return 0 if self.total is None else max(self.total - self.done, 0)


@contextmanager
def shown_progress(terminal: Terminal, before: str, after: str = "") -> Iterator[SamplesSeen]:
    """A progress display for the time of the block.

    Args:
        terminal: where to; nothing is drawn unless it is watched.
        before: what happens until the first sample.
        after: what happens after the last one, empty if nothing that takes time.
    """
    if not terminal.animated:
        yield SamplesSeen(None)
        return
    from calib8.progress.bar import stage_bar

    with stage_bar(terminal.err, before, after) as bar:
        yield SamplesSeen(bar)
