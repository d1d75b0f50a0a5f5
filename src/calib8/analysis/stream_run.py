"""A model that hears a stream frame by frame in any runtime, its state carried, saved and loaded.

frame 0 ─► run ─► outputs      frame 1 ─► run ─► …        reset 1: the next stream begins
state file ─►  ─► state ────────────►      ─► state ─► state file
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from calib8.data.marks import begins
from calib8.data.sound import RESET
from calib8.engine.plan import PlanState
from calib8.errors import DataError
from calib8.files import atomic_output, check_file
from calib8.model.runtime import Session
from calib8.session.bound import OneAtATime
from calib8.session.streams import States, Stream, Streaming

Array = npt.NDArray[Any]


class _Runs:
    """What a stream runs: a session that takes states as inputs."""

    def __init__(self, session: Session, pairs: Mapping[str, str]) -> None:
        self._session, self.outputs = session, session.outputs
        self.states = tuple(PlanState(read, written) for read, written in pairs.items())

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        return self._session.run(feeds)

    def run_into(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> None:
        for array, result in zip(results, self.run(feeds), strict=True):
            array[...] = result

    def bound(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> Callable[[], None]:
        return OneAtATime(partial(self.run_into, feeds, results))


class StreamRun:
    """One stream of an open model.

    Attributes:
        fed: the inputs that a frame has.
        every: all inputs, those of states too.
        given: the outputs that are no states.
    """

    def __init__(self, session: Session, pairs: Mapping[str, str]) -> None:
        """Of a session that carries its states itself, or of one that is fed with them.

        Args:
            session: the open model.
            pairs: input → output that feeds it; empty: the session carries them.
        """
        self._stream: Stream | Streaming
        self._run: Callable[[Mapping[str, Array]], list[Array]]
        if pairs:
            states = States(session.name, pairs, session.inputs, session.outputs)
            runs = _Runs(session, pairs)
            self._stream = stream = Stream(states, lambda shapes: runs)
            self._run = partial(stream.run, None)
            self.fed, self.every, self.given = states.fed, session.inputs, states.given
        else:
            self._stream, self._run = session.handle, session.run
            self.fed, self.given = session.inputs, session.outputs
            self.every = session.handle.every_input
        self._goes_on = False

    def run(self, frame: Mapping[str, Array], name: str) -> list[Array]:
        """Outputs of the next frame; what is called ``reset`` beside the inputs begins a stream.

        The first frame goes on from a state that was loaded, whatever is marked. ``name`` is that of the
        frame, for messages.

        Raises:
            DataError: a frame that does not fit, or of other sizes than those before; a mark of no kind.
        """
        feeds = {spec.name: frame[spec.name] for spec in self.fed}
        if RESET not in feeds and begins(frame, name) and not self._goes_on:
            self._stream.reset()
        self._goes_on = False
        return self._run(feeds)

    def load_state(self, path: Path) -> None:
        """Goes on from the state in a file that ``save_state`` wrote.

        Raises:
            DataError: there is no such file, it holds no arrays, or they do not fit.
        """
        check_file(path, "Give an .npz that holds a state", DataError)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                state = {name: held[name] for name in held.files}
        except (OSError, ValueError, TypeError, EOFError, BadZipFile, AttributeError) as error:
            raise DataError(str(path), "is no .npz of arrays", "Give one that holds a state") from error
        try:
            self._stream.set_state(state)
            self._goes_on = True
        except DataError as error:
            raise DataError(str(path), f"{error.subject} {error.problem}", error.cure) from error

    def save_state(self, path: Path) -> None:
        """Writes the state after the last frame as an .npz, an array per input that is a state.

        Raises:
            OutputError: it cannot be written.
        """
        with atomic_output(path) as place, place.open("wb") as file:
            np.savez(file, **self._stream.get_state())  # type: ignore[arg-type]


def stream_run(
    path: str | os.PathLike[str], session: Session, state: Mapping[str, str] | None, *, has_graph: bool
) -> StreamRun | None:
    """The stream of an open model; None where it has no states.

    Args:
        path: of the model.
        session: the model, open; one of calib8's own carries its states.
        state: those that the user declares, see ``Reading``.
        has_graph: it is an ONNX model.

    Raises:
        UsageError: declared states that cannot be.
        ModelError: the model cannot be read.
    """
    if isinstance(session.handle, Streaming):
        return StreamRun(session, {}) if session.handle.get_states() else None
    if not has_graph:
        return None
    from calib8.model.load import load_model
    from calib8.model.states import states_of

    pairs = states_of(load_model(path), state)
    return StreamRun(session, pairs) if pairs else None
