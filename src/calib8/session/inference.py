"""InferenceSession: a quantized model that runs."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from calib8.engine.plan import Plan
from calib8.engine.plan_file import save_plan
from calib8.errors import ModelError, UsageError
from calib8.forks import ForkLock
from calib8.requests.given_types import flag
from calib8.session.bound import BoundRun, check_bindable
from calib8.session.opening import opened_model
from calib8.session.ports import (
    Array,
    NodeArg,
    Shapes,
    fitting_feeds,
    fitting_results,
    is_static,
    node_arg,
    one_sample,
    with_axes_of_samples,
    with_shapes,
)
from calib8.session.prepared import (
    NATIVE,
    NativePlan,
    Opened,
    Prepared,
    prepared_program,
    run_settings,
)
from calib8.session.reports import Memory, StepTime
from calib8.session.streams import States, Streaming, checked_names, checked_state
from calib8.tensors import whole_number

if TYPE_CHECKING:  # a plan is opened without what reads models
    from calib8.data.preprocess import Preprocess
    from calib8.program.program import Program
    from calib8.session.opening import Source

CACHED_SHAPES: Final = 4
"""Input shapes of a model with free axes that stay ready: those fed last."""


_Key = tuple[tuple[int, ...], ...]
"""The shapes of all inputs."""


class _Ready(NamedTuple):
    """A model for certain input shapes; ``program`` is None where a plan was opened."""

    program: Program | None
    prepared: Prepared


class InferenceSession(Streaming):
    """Runs a quantized model; the rounding profile defines every bit of the result.

    Several threads may run one session at once: the first one gets its threads, the others work alone. A
    child of a fork may go on with it, whatever they were doing: it starts threads of its own.

    Attributes:
        name: path or graph name, for messages.
        rounding: the rounding profile: ``onnx``, ``tflite``, ``single`` or ``tengine``.
        inputs, outputs: their specs; sizes that are fixed by ``shapes`` are filled in.
    """

    def __init__(
        self,
        model: Source,
        *,
        runtime: str = NATIVE,
        profile: str | None = None,
        integer_only: bool = False,
        shapes: Shapes | None = None,
        threads: int | None = None,
        isa: str | None = None,
        pin: bool = False,
        pixels: Preprocess | None = None,
        outputs: Sequence[str] | None = None,
        state: Mapping[str, str] | None = None,
    ) -> None:
        """Loads the model; lowers and compiles it unless an axis of an input is free.

        With ``integer_only``, and for TFLite models, a free batch axis is no reason to wait.

        Args:
            model: path of a QDQ or QOperator ``.onnx`` or quantized ``.tflite`` file of any tool, of an int8
                ``.tmfile`` of Tengine, of a saved program or of a plan, a ModelProto, the bytes of a model, a
                Program or a Plan.
            runtime: what runs it: ``calib8``, the native engine, or ``reference``, the NumPy definition of
                every instruction. Both give the same bits.
            profile: how sums become codes: ``onnx``, ``tflite`` or ``single``, see docs/numerics.md. None is
                ``onnx``, with ``integer_only`` it is ``single``; a program or plan keeps the one it has, a
                TFLite model is always ``tflite``, one of Tengine ``tengine``.
            integer_only: refuse a model of which a part has no integer form.
            shapes: input name → sizes; an input that is named takes no others then.
            threads: that share the work of a run, 1 … 256; None: as many as processors may be used.
            isa: instruction set: ``amx``, ``avx512vnni``, ``avxvnni``, ``avx2``, ``neoni8mm``, ``neondot``,
                ``neon`` or ``reference``; None: what the environment variable CALIB8_ISA names, else the
                fastest of this machine. All of them give the same bits.
            pin: keep the session's own threads on one processor each.
            pixels: take images as uint8 [N, H, W, C], channels in the model's order, in place of float32:
                mean and scale of this preprocessing and the input's quantizer become one table.
            outputs: of a TFLite model: names of tensors that become the outputs in place of its own; what
                lies behind them is left out.
            state: input → output whose values it reads in the next run: the session carries them, and they
                are neither fed nor given any more. None: what the model says of itself; ``{}``: nothing is
                carried.

        Raises:
            UsageError: unknown runtime or profile, ``integer_only`` with the profile ``onnx``, another
                profile than that of a program or TFLite model, outputs that are not computed, shapes that do
                not fit the inputs, no number of threads, or an instruction set that this machine does not
                have; pixels for a plan, or a model without an image that only quantizers read; or ``model``
                is nothing of the kind.
            ModelError: the model cannot be read, or its quantization is broken.
            UnsupportedModelError: a float model, or nodes that cannot be lowered.
        """
        pin, integer_only = flag("pin", pin), flag("integer_only", integer_only)
        self._settings = run_settings(runtime, threads, isa, pin)
        opened, self._kept = opened_model(
            model, profile, integer_only, outputs, pixels, checked_state(state), keeps=runtime == NATIVE
        )
        if opened.plan is not None and runtime != NATIVE:
            problem = f"{opened.name} is a plan, made for the native engine"
            raise UsageError(f"runtime '{runtime}'", problem, f"Use the runtime {NATIVE}")
        self._opened = opened
        self.name, self.rounding = opened.name, opened.profile
        self._all_inputs = with_shapes(opened.inputs, shapes or {}, opened.name)
        super().__init__(States(opened.name, opened.states, self._all_inputs, opened.outputs))
        self.inputs, self.outputs = self._states.fed, self._states.given
        self._lock = ForkLock()
        self._cache: OrderedDict[_Key, _Ready] = OrderedDict()
        self._last: tuple[_Key, _Ready | None] = (), None  # read without the lock: it is one object
        if all(map(is_static, self._all_inputs)):
            known = self._one_sample().prepared.outputs
            super().__init__(self._states._replace(outputs=known))
            self.outputs = self._states.given
        elif (integer_only or opened.at_once) and all(one_sample(s) is not None for s in self._all_inputs):
            self._one_sample()  # what must be refused is refused here

    def __repr__(self) -> str:
        """What runs, and how."""
        runtime, threads, isa, _ = self._settings
        how = f"rounding={self.rounding!r}, runtime={runtime!r}, isa={isa!r}, threads={threads}"
        return f"InferenceSession({self.name!r}, {how})"

    def __reduce__(self) -> NoReturn:
        """Threads and memory of a run belong to one process.

        Raises:
            TypeError: always, from ``pickle`` and ``copy``.
        """
        what = "an InferenceSession can be neither pickled nor copied"
        raise TypeError(f"{what}: open the model, or the plan that save() wrote, where it is to run")

    @property
    def program(self) -> Program:
        """The lowered program; with a free batch axis that of one sample.

        Raises:
            ModelError: another axis is free, what a free axis kept from being lowered so far, or a plan was
                opened, which no longer knows its program.
        """
        ready = self._one_sample()
        if ready.program is not None:
            return ready.program
        if self._opened.lower is None:
            raise ModelError(self.name, "is a plan without its program", "Open the model or program")
        shapes = self._sample_shapes()
        key = tuple(shapes.values())
        with self._lock:  # the plan was kept, the program was not
            ready = self._cache.get(key, ready)  # another thread may have lowered it meanwhile
            program = ready.program or self._opened.lower(shapes)
            self._remember(key, _Ready(program, ready.prepared))
        return program

    @property
    def plan(self) -> Plan:
        """The compiled plan; with a free batch axis that of one sample.

        Raises:
            ModelError: as for ``program``.
            UsageError: the runtime is not the native engine.
        """
        return with_axes_of_samples(self._native().plan, self._opened.inputs)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs to be fed, in the model's order."""
        return [node_arg(spec) for spec in self.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return [node_arg(spec) for spec in self.outputs]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, npt.ArrayLike]) -> list[Array]:
        """Outputs for the arrays fed by input name; of a model with states, those of the next frame.

        Args:
            output_names: which outputs, in which order; None or an empty list: all. What becomes a state can
                be asked for by name.
            input_feed: one array per input, of its dtype and shape. NaN counts as the lowest code.

        Raises:
            DataError: an unknown output, or names, dtypes or shapes of the inputs that do not fit.
            ModelError: a model with free axes cannot be lowered for these shapes.
        """
        if self._stream is not None:
            return self._stream.run(output_names, input_feed)
        known = [spec.name for spec in self.outputs]
        names = checked_names(self.name, output_names, known)
        feeds = fitting_feeds(self.name, self.inputs, input_feed)
        results = self._ready_for(feeds).prepared.run(feeds)
        if not names:
            return results
        by_name = dict(zip(known, results, strict=True))
        return [by_name[name] for name in names]

    def run_into(
        self, input_feed: Mapping[str, npt.ArrayLike], results: Mapping[str, Array] | Sequence[Array]
    ) -> None:
        """Writes all outputs into the caller's arrays.

        Args:
            input_feed: as for ``run``.
            results: an array per output, by name or in the order of the outputs: of its dtype and shape,
                C-contiguous, writeable, overlapping neither each other nor an input.

        Raises:
            DataError: as for ``run``, or an array that does not fit its output.
            ModelError: as for ``run``.
        """
        if self._stream is not None:
            self._stream.run_into(input_feed, results)
            return
        feeds = fitting_feeds(self.name, self.inputs, input_feed)
        prepared = self._ready_for(feeds).prepared
        prepared.run_into(feeds, fitting_results(self.name, prepared.outputs, results, feeds))

    def bind(
        self,
        input_feed: Mapping[str, Array],
        results: Mapping[str, Array] | Sequence[Array] | None = None,
    ) -> BoundRun:
        """A run with these very arrays, for who runs a small model often: they are looked at once.

        Args:
            input_feed: an array per input, as for ``run``, aligned and C-contiguous. Fill it before each run.
            results: as for ``run_into``; None: new arrays.

        Returns:
            A run with memory of its own; its ``run()`` runs the model once. Of a model with states it is a
            stream of its own (``BoundStream``), which begins with the state that the session has now.

        Raises:
            DataError: as for ``run_into``, or inputs that would have to be copied.
            ModelError: as for ``run``.
        """
        if self._stream is not None:
            return self._stream.bind(input_feed, results)
        feeds = fitting_feeds(self.name, self.inputs, input_feed)
        check_bindable(self.name, input_feed)
        prepared = self._ready_for(feeds).prepared
        if results is None:
            results = prepared.run(feeds)
        arrays = fitting_results(self.name, prepared.outputs, results, feeds)
        return BoundRun(feeds, arrays, prepared.bound(feeds, arrays))

    def profile(
        self, input_feed: Mapping[str, npt.ArrayLike] | None = None, *, runs: int = 20
    ) -> list[StepTime]:
        """Where the time goes: a line per step of the plan, of the fastest of some runs with a clock.

        Args:
            input_feed: as for ``run``, of a model with states a first frame, or with the states too; None:
                zeros, a sample of them where the batch axis is free.
            runs: how often, ≥ 1.

        Raises:
            DataError: as for ``run``.
            ModelError: as for ``program``.
            UsageError: the runtime is not the native engine, or ``runs`` is not positive.
        """
        count = whole_number(runs)
        if count is None or count < 1:
            raise UsageError(f"runs {runs!r}", "is not a number of runs", "Give a whole number, 1 or more")
        if input_feed is None:
            native = self._native()
            feeds = {port.name: np.zeros(port.shape, port.dtype) for port in native.plan.inputs}
        else:
            states = self._states.pairs.keys()
            alone = bool(states) and isinstance(input_feed, Mapping) and states.isdisjoint(input_feed)
            whole = self.stream().whole_feeds(input_feed) if alone else input_feed
            feeds = fitting_feeds(self.name, self._all_inputs, whole)
            native = self._native(self._ready_for(feeds))
        return native.times(feeds, count)

    def memory(self) -> Memory:
        """Bytes that the session holds to run: those of the shapes fed last, or of one sample.

        Raises:
            ModelError: as for ``program``.
            UsageError: the runtime is not the native engine.
        """
        with self._lock:
            last = next(reversed(self._cache.values()), None)
        return self._native(last).memory()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as a file that opens at once; with a free batch axis that of one sample.

        Raises:
            ModelError, UsageError: as for ``plan``.
            OutputError: the file cannot be written; an old one stays intact.
        """
        save_plan(self.plan, path)

    def _native(self, ready: _Ready | None = None) -> NativePlan:
        prepared = (ready or self._one_sample()).prepared
        if not isinstance(prepared, NativePlan):
            problem = f"has no plan: the runtime is '{self._settings.runtime}'"
            raise UsageError(self.name, problem, f"Open it with the runtime {NATIVE}")
        return prepared

    def _one_sample(self) -> _Ready:
        return self._ready(self._sample_shapes())

    def _sample_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {spec.name: one_sample(spec) for spec in self._all_inputs}
        return {name: shape for name, shape in shapes.items() if shape is not None}

    def _prepared_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Prepared:
        return self._ready(shapes).prepared

    def _ready_for(self, feeds: Mapping[str, Array]) -> _Ready:
        return self._ready({name: array.shape for name, array in feeds.items()})

    def _ready(self, shapes: Mapping[str, tuple[int, ...]]) -> _Ready:
        """The model for these shapes, made ready if it is not; one thread at a time makes, others wait."""
        key = tuple(shapes.values())
        last, ready_last = self._last
        if key == last and ready_last is not None:
            return ready_last
        with self._lock:
            ready = self._cache.get(key)
            if ready is None:
                ready = self._made_ready(shapes)
            self._remember(key, ready)
        return ready

    def _remember(self, key: _Key, ready: _Ready) -> None:
        """As what was fed last; the lock is held."""
        self._cache[key] = ready
        self._cache.move_to_end(key)
        while len(self._cache) > CACHED_SHAPES:
            self._cache.popitem(last=False)
        self._last = key, ready

    def _made_ready(self, shapes: Mapping[str, tuple[int, ...]]) -> _Ready:
        if self._opened.plan is not None:
            return _Ready(None, NativePlan(self._opened.plan, self.name, self._settings))
        plan = self._kept.plan(shapes, self.name) if self._kept is not None else None
        if plan is not None and _is_of(plan, self._opened, shapes):
            with suppress(ModelError):  # the engine refuses it: it is made again
                return _Ready(None, NativePlan(plan, self.name, self._settings))
        assert self._opened.lower is not None
        program = self._opened.lower(shapes)
        prepared = prepared_program(program, self.name, self._settings)
        if self._kept is not None and isinstance(prepared, NativePlan):
            self._kept.keep_plan(shapes, prepared.plan, self.name)
        return _Ready(program, prepared)


def _is_of(plan: Plan, opened: Opened, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a plan that was found has the ports of the model: somebody may have written another."""
    taken = {port.name: (np.dtype(port.dtype), port.shape) for port in plan.inputs}
    given = [(port.name, np.dtype(port.dtype)) for port in plan.outputs]
    wanted = {spec.name: (spec.dtype, tuple(shapes[spec.name])) for spec in opened.inputs}
    states = {state.input: state.output for state in plan.states} == dict(opened.states)
    return states and taken == wanted and given == [(spec.name, spec.dtype) for spec in opened.outputs]
