"""How long the stages of a run took, told by the progress that it reports."""

from __future__ import annotations

import time
from collections.abc import Callable

from calib8.progress import Progress


class StageTimes:
    """Remembers when stages began.

    A stage ends where another one begins; stages of one name are added. What comes before the first of them
    is the stage ``opening``.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Starts the clock, which tells seconds."""
        self._clock = clock
        self._stage, self._since = "opening", clock()
        self._seconds: dict[str, float] = {}

    def watching(self, progress: Progress) -> Progress:
        """A ``progress`` that hands all on to another one, and tells the stages here."""

        def watched(stage: str, done: int, total: int | None) -> None:
            self.begin(stage)
            progress(stage, done, total)

        return watched

    def begin(self, stage: str) -> None:
        """A stage begins."""
        if stage != self._stage:
            self._end()
            self._stage = stage

    def told(self) -> tuple[tuple[str, float], ...]:
        """Stages and their seconds so far, in the order in which they ended first."""
        self._end()
        return tuple(self._seconds.items())

    def _end(self) -> None:
        now = self._clock()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._since = now
