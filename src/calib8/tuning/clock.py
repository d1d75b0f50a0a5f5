"""The budget of a search: which time counts, and when it is over.

spent    seconds of all runs of the folder, each from its start to its end; of a run that was killed, up to
         the last trial that it finished

The budget is looked at before every trial, and whenever progress is told while one is made. What is under way
when it is over is given up; what is known already takes none of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from calib8.progress import Progress


class BudgetOver(Exception):  # noqa: N818 - nothing went wrong
    """The time is over."""


class Clock:
    """The time of one run, and what earlier runs took.

    Attributes:
        budget: seconds, inf for as long as it takes.
        text: the budget as it was given.
        before: seconds of earlier runs.
    """

    def __init__(self, budget: float, text: str) -> None:
        """Starts."""
        self.budget, self.text, self.before = budget, text, 0.0
        self._start = self._mark = time.monotonic()
        self._limited = False

    def lap(self) -> float:
        """Seconds since the last call, or since the start."""
        mark, self._mark = self._mark, time.monotonic()
        return round(self._mark - mark, 3)

    def spent(self) -> float:
        """Seconds of all runs so far."""
        return self.before + time.monotonic() - self._start

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Around what may take no more time than there is.

        Raises:
            BudgetOver: the time is over, now or while progress is told.
        """
        self._check()
        self._limited = True
        try:
            yield
        finally:
            self._limited = False

    def watching(self, progress: Progress) -> Progress:
        """The same progress, which ends what is ``limited`` when the time is over."""

        def told(stage: str, done: int, total: int | None) -> None:
            if self._limited:
                self._check()
            progress(stage, done, total)

        return told

    def _check(self) -> None:
        if self.spent() > self.budget:
            raise BudgetOver
