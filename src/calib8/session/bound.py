"""A run whose arrays are known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from calib8.errors import DataError
from calib8.session.ports import Array


class BoundRun:
    """Runs a session with the same arrays again and again: their contents change, nothing else.

    What can be wrong with them was looked at once; a call takes less than a microsecond more than its layers.
    One thread at a time may call it; every thread may have one of its own.

    Attributes:
        inputs: by name: to be filled before a run.
        results: in the order of the outputs: they hold what the last run gave.
        run: runs the model once.
    """

    def __init__(
        self, inputs: Mapping[str, Array], results: Sequence[Array], run: Callable[[], None]
    ) -> None:
        """What ``InferenceSession.bind`` has looked at."""
        self.inputs: Final = dict(inputs)
        self.results: Final = tuple(results)
        self.run: Final = run


def check_bindable(name: str, feeds: Mapping[str, object]) -> None:
    """Refuses inputs that a run would have to copy: what is written into them later would not be seen.

    Raises:
        DataError: what is no array, or an array with gaps; ``name`` is the name of the model.
    """
    for fed, array in feeds.items():
        if not isinstance(array, np.ndarray):
            problem = f"what is bound to '{fed}' is a {type(array).__name__}"
            raise DataError(name, problem, "Give a NumPy array, which can be filled again before every run")
        if not (array.flags.c_contiguous and array.flags.aligned):
            problem = f"the array for '{fed}' cannot be read in one piece"
            raise DataError(name, problem, "Give an aligned, C-contiguous array")
