"""A run of a model with states whose arrays are known beforehand: states are moved on after each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError
from calib8.session.bound import BoundRun, OneAtATime
from calib8.session.ports import Array, fitting_state
from calib8.tensors import TensorSpec, shape_text


class BoundStream(BoundRun):
    """Runs the frames of one stream with the same arrays: their contents change, nothing else.

    It is a stream of its own, and begins with the state that the stream had of which it was made.

    Attributes:
        inputs: by name: to be filled with the next frame before a run.
        results: outputs that are no states, in their order: they hold what the last run gave.
    """

    def __init__(
        self, name: str, carried: Sequence[TensorSpec], feeds: Mapping[str, Array],
        results: Sequence[Array], moves: Mapping[str, Array], first: Mapping[str, Array],
        run: Callable[[], None],
    ) -> None:  # fmt: skip
        """What ``Stream.bind`` has looked at.

        Args:
            name: of the model.
            carried: the inputs that are states.
            feeds: all inputs; those of states are the stream's own.
            results: what the user gets.
            moves: state → the array into which a run writes what feeds it.
            first: the states with which a stream begins.
            run: runs the model once.
        """
        self._name, self._carried = name, tuple(carried)
        self._values: Final = {state: feeds[state] for state in moves}
        self._first: Final = {state: first[state].copy() for state in moves}
        fed = {one: array for one, array in feeds.items() if one not in moves}

        def step() -> None:
            run()
            self._fill(moves)

        super().__init__(fed, results, OneAtATime(step))

    def _fill(self, values: Mapping[str, Array]) -> None:
        for state, array in self._values.items():
            array[...] = values[state]

    def reset(self) -> None:
        """The next run is the first of another stream, of the same sizes."""
        self._fill(self._first)

    def get_state(self) -> dict[str, Array]:
        """A copy of the state after the last run, by input name."""
        return {state: array.copy() for state, array in self._values.items()}

    def set_state(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Goes on from a state, such as one that ``get_state`` gave.

        Raises:
            DataError: names, types or shapes that are not those of the states, NaN or infinite values.
        """
        arrays = fitting_state(self._name, self._carried, state)
        for name, array in arrays.items():
            if array.shape != self._values[name].shape:
                problem = f"the state '{name}' is {shape_text(array.shape)}, and what is bound needs "
                problem += shape_text(self._values[name].shape)
                raise DataError(self._name, problem, "Bind anew for other sizes")
        self._fill({name: np.asarray(array) for name, array in arrays.items()})
