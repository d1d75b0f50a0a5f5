"""How long a piece of work still takes: the callback that is told, and the counter that tells it."""

from __future__ import annotations

from collections.abc import Callable

from calib8.errors import UsageError
from calib8.parameters import parameter

Progress = Callable[[str, int, int | None], None]
"""Called with the stage, the samples done and the samples in all (None where unknown)."""


def silent(stage: str, done: int, total: int | None) -> None:
    """No progress shown."""


class SampleCounter:
    """Adds up samples and reports them under the name of a stage."""

    def __init__(self, stage: str, total: int | None, progress: Progress) -> None:
        """Reports 0 of ``total`` samples (None where unknown)."""
        self._stage, self._total, self._progress = stage, total, progress
        self._done = 0
        progress(stage, 0, total)

    def __call__(self, samples: int) -> None:
        """Reports ``samples`` more."""
        self._done += samples
        self._progress(self._stage, self._done, self._total)


def check_positive(name: str, value: int) -> None:
    """Refuses a count below 1.

    Args:
        name: of the parameter, in Python.
        value: of it.

    Raises:
        UsageError: it is.
    """
    if value < 1:
        raise UsageError(parameter(name, value), "must be at least 1", f"Give {parameter(name, 1)} or more")
