"""How long a piece of work still takes: the callback that is told, and the counter that tells it.

    calib8.quantize(…, progress=lambda stage, done, total: print(stage, done, total))
    calib8.quantize(…, progress=True)          a bar in the terminal or notebook

Public functions take a ``ShownProgress``; ``draws_progress`` makes a bar of True for the time of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

from calib8.errors import UsageError
from calib8.parameters import parameter

Progress = Callable[[str, int, int | None], None]
"""Called with the stage, the samples done and the samples in all (None where unknown)."""


ShownProgress: TypeAlias = "Progress | bool | None"
"""A callback; True: a bar is drawn on standard error, or in a notebook; False and None: nothing is shown."""

Function = TypeVar("Function", bound=Callable[..., Any])


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


def callback_of(progress: ShownProgress) -> Progress:
    """The callback of a function that ``draws_progress``; where none was given, one that shows nothing."""
    return progress if callable(progress) else silent


def draws_progress(function: Function) -> Function:
    """Lets a function with the keyword ``progress`` take True: a bar is drawn while it runs.

    The function gets a callback in its place, see ``callback_of``; anything else is refused at once.
    """

    @wraps(function)
    def drawing(*values: Any, **keywords: Any) -> Any:
        given = keywords.get("progress")
        if given is not True:
            if given is not None and given is not False and not callable(given):
                problem = "is neither a function nor True"
                cure = "Give True for a bar, or a function of stage, samples done and samples in all"
                raise UsageError(parameter("progress", given), problem, cure)
            return function(*values, **keywords)
        from calib8.progress.bar import drawn  # rich, which takes longer to import than most of calib8

        with drawn() as bar:
            return function(*values, **{**keywords, "progress": bar})

    return cast(Function, drawing)
