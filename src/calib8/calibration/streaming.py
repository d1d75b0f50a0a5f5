"""Data of streaming models: frames in order, whose states come from the float model.

    input   [F, …]                       input   [F, …]
    reset   [F], True where a      ─►    state   [F, …]   what the float model's states are before each frame
            stream begins

The float model runs once over all frames, in their order. From then on a frame is a sample like any other:
its states are inputs with known values, so that ranges, repairs and verdicts see what a stream puts into
them, and samples may be chosen, batched and held back in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import onnx_ir as ir

from calib8.calibration.own_states import states_before
from calib8.data.arrays import rows_per_batch
from calib8.data.marks import MARKS, has_marks, holds_any
from calib8.data.read_once import for_several_openings
from calib8.data.reading import Reading
from calib8.data.samples import Array, Dataset, OpenableData, Pending, Sample, Stream, spaced
from calib8.data.sound import RESET
from calib8.errors import Calib8Error, DataError, UsageError
from calib8.model.graph import graph_inputs, graph_outputs
from calib8.model.runtime import open_session
from calib8.model.states import states_of
from calib8.parameters import either, parameter
from calib8.passes.branches import telling_of_branches
from calib8.tensors import TensorSpec


def opened_for(
    model: ir.Model, reading: Reading, *, inputs: Sequence[TensorSpec] | None = None, elsewhere: bool = False
) -> Dataset:
    """The samples for a float model; those of a streaming model are frames with their states.

    Args:
        model: with states that the reading declares, that are stored or found (``calib8.model.states``), or
            with none.
        reading: what is read. Data that hold the states themselves are taken as they are.
        inputs: of the samples of a model without states, where they are not those of the model.
        elsewhere: see ``Reading.opened``.

    Raises:
        UsageError: declared states that cannot be; data of a streaming model that lie on other machines.
        DataError: what can be wrong with the data; an input that they lack and that chooses a branch is told
            with what fixes it.
    """
    with telling_of_branches(model):
        return _opened(model, reading, inputs, elsewhere)


def _opened(
    model: ir.Model, reading: Reading, inputs: Sequence[TensorSpec] | None, elsewhere: bool
) -> Dataset:
    specs, states = graph_inputs(model), states_of(model, reading.state)
    if not states or reading.data is None:
        return reading.opened(specs if inputs is None else inputs, elsewhere=elsewhere)
    fed = tuple(spec for spec in specs if spec.name not in states)
    frames = stream_frames(replace(reading, samples=None), fed, specs)
    if frames is None:
        return reading.opened(specs, elsewhere=elsewhere)
    outputs = [spec.name for spec in graph_outputs(model)]
    carried = tuple(spec for spec in specs if spec.name in states)
    places = {name: outputs.index(output) for name, output in states.items()}
    stream = Stream(frames, fed, carried, places, all(spec.name != RESET for spec in specs))
    session = open_session(model, threads=reading.threads)
    return _with_states(stream, specs, states_before(stream, session.run), reading.samples)


def stream_frames(reading: Reading, fed: Sequence[TensorSpec], every: Sequence[TensorSpec]) -> Dataset | None:
    """The frames, with the marks where there are some; None where the data hold the states too.

    Args:
        reading: what is read.
        fed: the inputs that a frame has.
        every: all inputs, those of states too.

    Raises:
        UsageError, DataError: neither; what is wrong with the frames is told, or with states that are there.
    """
    if isinstance(reading.data, OpenableData):
        found = reading.opened(fed, elsewhere=True)
        if found.elsewhere is None:
            return found
        problem = "are gone through by other machines, and the frames of a stream follow each other"
        raise UsageError(
            parameter("data"), problem, f"Give the data themselves, or {either('state={}', '--state none')}"
        )
    told: list[Calib8Error] = []
    states = {spec.name for spec in every}.difference(spec.name for spec in fed)
    reading = for_several_openings(reading)
    ways: list[Sequence[TensorSpec]] = [every, fed]
    if all(spec.name != RESET for spec in every):
        marked = (*fed, MARKS)
        ways = [marked] if has_marks(reading.data, fed) else [marked, *ways]
    for specs in ways:
        try:
            found = reading.opened(specs)
            some = _has_first(found)
        except (DataError, UsageError) as error:
            if specs is every and holds_any(reading.data, states):
                raise
            told.append(error)
        else:  # of no samples who iterates says so
            return None if some and specs is every else found
    # items whose marks do not fit are refused by the names of their arrays where no marks are read
    raise told[0] if f"'{RESET}'" in told[-1].problem else told[-1]


def _has_first(frames: Dataset) -> bool:
    """Whether there is a frame, looked at by loading the first; one that is bad is passed over if asked for.

    Raises:
        DataError: it does not fit, or cannot be read.
    """
    told: DataError | None = None
    for item in frames.pending():
        try:
            item.load()
        except DataError as error:
            told = told or error
            if not frames.skip_bad:
                break
        else:
            return True
    if told is not None:
        raise told
    return False


def _with_states(
    stream: Stream, specs: Sequence[TensorSpec], before: Mapping[str, dict[str, Array]], samples: int | None
) -> Dataset:
    """The frames that are wanted as samples of all inputs."""
    frames, total = stream.frames, sum(1 for _ in stream.frames.pending())
    chosen = spaced(total, samples)
    wanted = set(chosen)

    def load(item: Pending) -> Sample:
        sample = item.load()  # of a bad one it raises what it raised before
        inputs = {**sample.inputs, **before.get(item.name, {})}
        return replace(sample, inputs={spec.name: inputs[spec.name] for spec in specs})

    def pending() -> Iterator[Pending]:
        for place, item in enumerate(frames.pending()):
            if place in wanted:
                yield replace(item, load=partial(load, item))

    labels = tuple(frames.labels[place] for place in chosen) if frames.labels else ()
    return replace(
        frames, pending=pending, count=len(chosen), rows_per_batch=rows_per_batch(specs), skipped=[],
        labels=labels, total=total, stream=stream,
    )  # fmt: skip
