"""A run whose arrays are known beforehand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.forks import fork_count
from calib8.session.ports import Array
from calib8.type_texts import a_type

BUSY: Final = "in use by another thread"
"""What the engine, and ``OneAtATime``, say then."""


class BoundRun:
    """Runs a session with the same arrays again and again: their contents change, nothing else.

    What can be wrong with them was looked at once, and the memory of a run is its own: without parts in float
    a run takes less than a microsecond more than its layers. The arrays must not be resized in the meantime.
    One thread at a time may run it; give every thread one of its own. A child of a fork may go on with it.

    Attributes:
        inputs: by name: to be filled before a run.
        results: in the order of the outputs: they hold what the last run gave.
    """

    def __init__(
        self, inputs: Mapping[str, Array], results: Sequence[Array], run: Callable[[], None]
    ) -> None:
        """What ``bind`` has looked at; ``run`` raises ValueError while another thread runs it."""
        self.inputs: Final = dict(inputs)
        self.results: Final = tuple(results)
        self._run: Final = run

    def run(self) -> None:
        """Runs the model once.

        Raises:
            UsageError: another thread runs it now.
        """
        try:
            self._run()
        except ValueError as error:
            if BUSY not in str(error):
                raise
            cure = "Bind once per thread"
            raise UsageError("bound run", "is under way in another thread", cure) from error


class OneAtATime:
    """Calls a function, unless another thread does so now."""

    def __init__(self, run: Callable[[], None]) -> None:
        """Free."""
        self._run, self._lock, self._process = run, threading.Lock(), fork_count()

    def __call__(self) -> None:
        """Raises ValueError where another thread is inside; one of the parent of a fork is not."""
        if self._process != fork_count():
            self._lock, self._process = threading.Lock(), fork_count()
        if not self._lock.acquire(blocking=False):
            raise ValueError(f"the run is {BUSY}")
        try:
            self._run()
        finally:
            self._lock.release()


def check_bindable(name: str, feeds: Mapping[str, object]) -> None:
    """Refuses inputs that a run would have to copy: what is written into them later would not be seen.

    Raises:
        DataError: what is no array, or an array with gaps; ``name`` is the name of the model.
    """
    for fed, array in feeds.items():
        if not isinstance(array, np.ndarray):
            problem = f"what is bound to '{fed}' is {a_type(array)}"
            raise DataError(name, problem, "Give a NumPy array, which can be filled again before every run")
        if not (array.flags.c_contiguous and array.flags.aligned):
            problem = f"the array for '{fed}' cannot be read in one piece"
            raise DataError(name, problem, "Give an aligned, C-contiguous array")
