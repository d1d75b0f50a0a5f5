"""Streams: runs that carry a state from one to the next, each stream its own.

    frame 0 ─► run ─► outputs        frame 1 ─► run ─► outputs
    initial ─►     ─► state ────────────────►     ─► state ─► …

The plan or program knows nothing of it: a state is an input that is fed with what an output of the run before
held, in arrays that a stream keeps. So streams share everything else, and a stream gives the same bits
whatever other streams run between its frames.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.engine.plan import PlanState
from calib8.errors import DataError, UsageError
from calib8.forks import ForkLock
from calib8.session.bound import check_bindable
from calib8.session.bound_stream import BoundStream
from calib8.session.ports import Array, NodeArg, fitting_feeds, fitting_results, fitting_state, node_arg
from calib8.session.prepared import Prepared
from calib8.tensors import TensorSpec, shape_text, state_sizes

Ready: TypeAlias = "Callable[[Mapping[str, tuple[int, ...]]], Prepared]"
"""What runs these shapes, by input name."""


class States(NamedTuple):
    """What a session knows of the states of its model.

    Attributes:
        name: of the model, for messages.
        pairs: input → output that feeds it.
        inputs, outputs: all specs of the model, those of states too.
    """

    name: str
    pairs: Mapping[str, str]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def fed(self) -> tuple[TensorSpec, ...]:
        """Inputs that the user feeds."""
        return tuple(spec for spec in self.inputs if spec.name not in self.pairs)

    @property
    def given(self) -> tuple[TensorSpec, ...]:
        """Outputs that the user gets."""
        written = set(self.pairs.values())
        return tuple(spec for spec in self.outputs if spec.name not in written)

    @property
    def carried(self) -> tuple[TensorSpec, ...]:
        """Inputs that are states."""
        return tuple(spec for spec in self.inputs if spec.name in self.pairs)


@dataclass(frozen=True)
class _Call:
    """One run of a stream.

    Attributes:
        prepared: what runs it.
        feeds: all inputs by name.
    """

    prepared: Prepared
    feeds: dict[str, Array]


class Stream:
    """One stream of a session: its frames run in order, and its state is carried from one to the next.

    Streams of a session share its plan and its threads, and may run in threads of their own. Runs of one
    stream wait for each other.
    """

    def __init__(self, states: States, ready: Ready) -> None:
        """At its beginning; ``InferenceSession.stream`` makes one."""
        self._states, self._ready, self._lock = states, ready, ForkLock()
        self._fed, self._known = states.fed, [spec.name for spec in states.outputs]
        self._written, self._given = set(states.pairs.values()), [spec.name for spec in states.given]
        self._values: dict[str, Array] | None = None
        self._last: tuple[list[tuple[int, ...]], Prepared] | None = None  # sizes of the frame before

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, npt.ArrayLike]) -> list[Array]:
        """Outputs of the next frame, as ``InferenceSession.run`` gives them; the state moves on.

        Args:
            output_names: which outputs, in which order; None or an empty list: all but those of states.
            input_feed: one array per input that is no state.

        Raises:
            DataError: as ``InferenceSession.run``; frames of other sizes than the state is of.
        """
        names = checked_names(self._states.name, output_names, self._known)
        with self._lock:
            call = self._call(input_feed)
            results = dict(zip(self._known, call.prepared.run(call.feeds), strict=True))
            self._values = {state: results[output] for state, output in self._states.pairs.items()}
            if not self._written.isdisjoint(names):  # the caller's own copies
                results = {name: array.copy() for name, array in results.items()}
        return [results[name] for name in names or self._given]

    def run_into(
        self, input_feed: Mapping[str, npt.ArrayLike], results: Mapping[str, Array] | Sequence[Array]
    ) -> None:
        """Writes the outputs of the next frame into arrays of the caller.

        Args:
            input_feed: as for ``run``.
            results: as for ``InferenceSession.run_into``, for the outputs that are no states.

        Raises:
            DataError: as for ``run``, or arrays that do not fit.
        """
        written = {output: state for state, output in self._states.pairs.items()}
        with self._lock:
            call = self._call(input_feed)
            given = [spec for spec in call.prepared.outputs if spec.name not in written]
            own = iter(fitting_results(self._states.name, given, results, call.feeds))
            new = {state: np.empty_like(call.feeds[state]) for state in self._states.pairs}
            arrays = [new[written[s.name]] if s.name in written else next(own) for s in call.prepared.outputs]
            call.prepared.run_into(call.feeds, arrays)
            self._values = new

    def bind(
        self,
        input_feed: Mapping[str, Array],
        results: Mapping[str, Array] | Sequence[Array] | None = None,
    ) -> BoundStream:
        """Runs with these very arrays, as ``InferenceSession.bind``: a stream of its own.

        Args:
            input_feed: an array per input that is no state, aligned and C-contiguous.
            results: as for ``run_into``; None: new arrays.

        Returns:
            What runs the next frame; it begins with the state that this stream has now.

        Raises:
            DataError: as for ``run_into``, or inputs that would have to be copied.
        """
        states, written = self._states, {output: state for state, output in self._states.pairs.items()}
        with self._lock:
            call = self._call(input_feed)
        check_bindable(states.name, input_feed)
        outputs, sizes = call.prepared.outputs, {name: a.shape for name, a in call.feeds.items()}
        feeds = {n: np.array(a, order="C") if n in states.pairs else a for n, a in call.feeds.items()}
        given = [spec for spec in outputs if spec.name not in written]
        if results is None:
            results = [np.empty(spec.shape or (), spec.dtype) for spec in given]  # type: ignore[arg-type]
        own = fitting_results(states.name, given, results, call.feeds)
        new = {state: np.empty_like(feeds[state]) for state in states.pairs}
        rest = iter(own)
        arrays = [new[written[s.name]] if s.name in written else next(rest) for s in outputs]
        first = _initial(call.prepared.states, states.carried, sizes)
        run = call.prepared.bound(feeds, arrays)
        return BoundStream(states.name, states.carried, feeds, own, new, first, run)

    def whole_feeds(self, input_feed: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """All inputs of the model for the next frame, states too, which do not move on.

        Raises:
            DataError: as for ``run``.
        """
        with self._lock:
            return self._call(input_feed).feeds

    def reset(self) -> None:
        """The next frame is the first of a new stream; it may have other sizes."""
        with self._lock:
            self._values = self._last = None

    def get_state(self) -> dict[str, Array]:
        """A copy of the state, by input name; empty before the first frame."""
        with self._lock:
            return {name: array.copy() for name, array in (self._values or {}).items()}

    def set_state(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Goes on from a state, such as one that ``get_state`` gave.

        Args:
            state: an array per state, by input name; empty: as ``reset``.

        Raises:
            DataError: names, types or shapes that are not those of the states, NaN or infinite values.
        """
        if isinstance(state, Mapping) and not state:
            self.reset()
            return
        arrays = fitting_state(self._states.name, self._states.carried, state)
        with self._lock:
            self._values = {name: np.array(array, order="C") for name, array in arrays.items()}
            self._last = None

    def _call(self, input_feed: Mapping[str, npt.ArrayLike]) -> _Call:
        """The inputs with the state, and what runs them; the lock is held."""
        states = self._states
        if isinstance(input_feed, Mapping) and not states.pairs.keys().isdisjoint(input_feed):
            carried = [name for name in states.pairs if name in input_feed]
            problem = f"got '{carried[0]}' as an input, which is a state that is carried from run to run"
            cure = "Leave it out; set_state begins elsewhere, and a session with state={} carries nothing"
            raise DataError(states.name, problem, cure)
        feeds, values = fitting_feeds(states.name, self._fed, input_feed), self._values
        given = [array.shape for array in feeds.values()]
        if values is not None and self._last is not None and self._last[0] == given:
            return _Call(self._last[1], feeds | values)
        shapes = dict(zip(feeds, given, strict=True))
        sizes = state_sizes(states.carried, self._fed, shapes)
        for name, shape in sizes.items() if values is not None else ():
            if values is not None and values[name].shape != shape:
                problem = f"the state '{name}' is {shape_text(values[name].shape)}, and these inputs need "
                cure = "Feed what has the sizes of the frames before, or reset() for another stream"
                raise DataError(states.name, f"{problem}{shape_text(shape)}", cure)
        prepared = self._ready({spec.name: (shapes | sizes)[spec.name] for spec in states.inputs})
        values = _initial(prepared.states, states.carried, sizes) if values is None else values
        self._last = given, prepared
        return _Call(prepared, feeds | values)


class Streaming(ABC):
    """What a session has of a model with states: a stream of its own, and others beside it."""

    def __init__(self, states: States) -> None:
        """At the beginning of its own stream, which does not keep the session in memory."""
        here = weakref.ref(self)

        def ready(shapes: Mapping[str, tuple[int, ...]]) -> Prepared:
            session = here()
            assert session is not None  # it is running
            return session._prepared_for(shapes)

        self._states = states
        self._stream = Stream(states, ready) if states.pairs else None

    @abstractmethod
    def _prepared_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Prepared:
        """What runs these shapes."""

    def stream(self) -> Stream:
        """Another stream of the same model, with a state of its own; it shares plan and threads.

        Raises:
            UsageError: the model has no states.
        """
        self._own_stream()
        return Stream(self._states, self._prepared_for)

    @property
    def every_input(self) -> tuple[TensorSpec, ...]:
        """All inputs of the model, those that are carried too."""
        return self._states.inputs

    def get_states(self) -> list[NodeArg]:
        """The inputs that are carried from run to run; none for most models."""
        return [node_arg(spec) for spec in self._states.carried]

    def reset(self) -> None:
        """The next run is the first of a new stream.

        Raises:
            UsageError: the model has no states.
        """
        self._own_stream().reset()

    def get_state(self) -> dict[str, Array]:
        """A copy of the state after the last run, by input name; empty before the first one.

        Raises:
            UsageError: the model has no states.
        """
        return self._own_stream().get_state()

    def set_state(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Goes on from a state, such as one that ``get_state`` gave; of another session of the model too.

        Raises:
            DataError: names, types or shapes that are not those of the states, NaN or infinite values.
            UsageError: the model has no states.
        """
        self._own_stream().set_state(state)

    def _own_stream(self) -> Stream:
        if self._stream is None:
            cure = "Declare them: state={'input': 'output'}"
            raise UsageError(self._states.name, "has no states that a session carries", cure)
        return self._stream


def _initial(
    known: Sequence[PlanState], specs: Sequence[TensorSpec], sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, Array]:
    """What the first frame reads."""
    begins = {state.input: state for state in known}
    values = {}
    for spec in specs:
        state = begins[spec.name]
        if state.initial:
            values[spec.name] = np.frombuffer(state.initial, spec.dtype).reshape(sizes[spec.name])
        else:
            values[spec.name] = np.full(sizes[spec.name], state.fill, spec.dtype)
    return values


def checked_names(model: str, names: object, known: Sequence[str]) -> list[str]:
    """The names as a list, empty for all.

    Raises:
        DataError: one of them is unknown, or it is not a list; ``model`` is the name of the model.
    """
    if names is None:
        return []
    cure = f"Ask for some of: {', '.join(known)}"
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise DataError(model, f"got {names!r} in place of a list of outputs", cure)
    wanted = list(names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise DataError(model, f"has no output '{unknown[0]}'", cure)
    return wanted


def checked_state(state: object) -> dict[str, str] | None:
    """The states that a user asks for.

    Raises:
        UsageError: they are no names by name.
    """
    if state is None:
        return None
    if isinstance(state, Mapping) and all(isinstance(one, str) for pair in state.items() for one in pair):
        return dict(state)
    cure = "Give a dict: input → output that it reads in the next run"
    raise UsageError("state", f"is {state!r:.60}", cure)
