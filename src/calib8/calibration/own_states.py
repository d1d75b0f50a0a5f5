"""The states that a model has before each frame of a stream, its own carried from frame to frame.

    state = 0 where a stream begins
    before(k) = state;   results = model(frame k, state);   state = those results that feed it

The float model's are what calibrates. An int8 model is judged with its own: what it loses in one frame is
then in all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.data.batches import Batch
from calib8.data.marks import begins
from calib8.data.samples import Array, Stream
from calib8.data.sound import RESET
from calib8.errors import DataError
from calib8.tensors import TensorSpec, shape_text, state_sizes

Run = Callable[[Mapping[str, Array]], Sequence[npt.NDArray[Any]]]
"""Runs a model once: all outputs, in their order."""


def first_states(
    carried: Sequence[TensorSpec], fed: Sequence[TensorSpec], frame: Mapping[str, Array]
) -> dict[str, Array]:
    """The states before the first frame: zeros.

    Args:
        carried: the inputs that are states.
        fed: the other inputs.
        frame: arrays of these.
    """
    sizes = state_sizes(carried, fed, {spec.name: frame[spec.name].shape for spec in fed})
    return {spec.name: np.zeros(sizes[spec.name], spec.dtype) for spec in carried}


def states_before(stream: Stream, run: Run) -> dict[str, dict[str, Array]]:
    """Name of each frame → the states before it; bad frames that are passed over are not among them.

    Args:
        stream: the frames.
        run: the model.

    Raises:
        DataError: a frame is bad, or its sizes are not those of the frames before.
        Calib8Error: what the model raises.
    """
    found: dict[str, dict[str, Array]] = {}
    state: dict[str, Array] | None = None
    for item in stream.frames.pending():
        try:
            sample = item.load()
        except DataError:
            if not stream.frames.skip_bad:
                raise
            continue
        first = first_states(stream.carried, stream.fed, sample.inputs)
        marked = stream.marked and begins(sample.inputs, item.name)
        if state is None or marked:
            state = first
        _check_sizes(item.name, first, state)
        found[item.name] = state
        results = run({**{spec.name: sample.inputs[spec.name] for spec in stream.fed}, **state})
        state = {name: results[place] for name, place in stream.places.items()}
    return found


def _check_sizes(name: str, first: Mapping[str, Array], state: Mapping[str, Array]) -> None:
    """Refuses a frame that needs states of other sizes than the frames before have left.

    Raises:
        DataError: it does; ``name`` is that of the frame.
    """
    for one, array in first.items():
        if array.shape != state[one].shape:
            problem = f"needs the state '{one}' as {shape_text(array.shape)}, and the stream has it as "
            cure = f"Mark where a stream begins: an array '{RESET}', 1 at its first frame, else 0"
            raise DataError(name, f"{problem}{shape_text(state[one].shape)}", cure)


class OwnStates:
    """Batches of frames for a model that carries its own states: run once they are asked for."""

    def __init__(self, stream: Stream, run: Run) -> None:
        """Of a stream and a model, see ``states_before``."""
        self._stream, self._run = stream, run
        self._before: dict[str, dict[str, Array]] | None = None

    def inputs(self, batch: Batch) -> dict[str, Array]:
        """The inputs of a batch with the states that the model has itself before its frames.

        Raises:
            Calib8Error: see ``states_before``.
        """
        if self._before is None:
            self._before = states_before(self._stream, self._run)
        each = [self._before[name] for name in batch.names]
        own = each[0]
        if len(each) > 1:
            own = {name: np.concatenate([state[name] for state in each]) for name in own}
        return {name: own.get(name, array) for name, array in batch.inputs.items()}
