"""The trackers, what they do alike, and how what goes wrong with one of them is told."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

from calib8.errors import Calib8Error, OutputError, UsageError
from calib8.tracking.destination import Destination
from calib8.tracking.record import RunRecord

Item = TypeVar("Item")


class Tracker(Protocol):
    """A place that runs are told to."""

    @property
    def destination(self) -> Destination:
        """What was asked for."""

    def check(self) -> None:
        """Makes sure, before the work starts, that a run can be told.

        Any error says why not; ``told`` words it.
        """

    def log(self, record: RunRecord) -> str:
        """Tells a run; where it is then, in words."""


@contextmanager
def told(destination: Destination, problem: str, cure: str) -> Iterator[None]:
    """Whatever goes wrong in the block, in the words of calib8, without secrets; warnings are not shown.

    Raises:
        OutputError: something did.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Calib8Error:
        raise
    except Exception as error:  # a tracker's client may raise anything
        why = destination.cleaned(f"{type(error).__name__}: {error}")[:400]
        raise OutputError(destination.subject, f"{problem} ({why})", cure) from None


def check_installed(destination: Destination, module: str) -> None:
    """Refuses a tracker whose package is not there.

    Raises:
        UsageError: it is not installed.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:  # a folder of that name is no package
        problem = f"the package {module} is not installed"
        raise UsageError(destination.subject, problem, f"Run: pip install 'calib8[{destination.tracker}]'")


def check_folder(folder: Path) -> None:
    """Refuses a folder in which nothing can be written; one that is missing is not made yet.

    Raises:
        OSError: nothing can be written there.
    """
    there = folder
    while not os.path.lexists(there):
        there = there.parent
    with tempfile.TemporaryFile(dir=there):
        pass


def in_pieces(many: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """At most ``size`` at a time, in their order."""
    for start in range(0, len(many), size):
        yield list(many[start : start + size])
