"""``calib8 run``: one model on images, the best classes of each, its objects, or figures of its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calib8.cli.headings import RESULTS, option
from calib8.cli.meaning_options import OutputOptions
from calib8.cli.options import (
    DataOption,
    OpenableArgument,
    PreprocessOptions,
    ReadingOptions,
    ReportOptions,
    RuntimeOptions,
)
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.preprocessing import chosen_preprocess, stored_in_file
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_skipped
from calib8.cli.run_shown import Shown, as_classes, as_figures, as_objects, shown_document, shown_table
from calib8.cli.run_stream import StateOptions, frames_of
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import Calib8Error, UsageError
from calib8.parameters import on_command_line, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from calib8.analysis.found_objects import Finder
    from calib8.analysis.stream_run import StreamRun
    from calib8.data.batches import Batch
    from calib8.data.reading import Reading
    from calib8.data.samples import Dataset
    from calib8.model.runtime import Session
    from calib8.tasks.judges.interface import Array
    from calib8.tasks.purpose import Purpose

_TOP_HELP = "How many of the best classes, or objects, to show. Default: 5 classes, all objects above .25."
TopOption = Annotated[int | None, option(RESULTS, "--top", "N", _TOP_HELP)]
_NAMES_HELP = (
    "Text file with the name of a class per line, that of class 0 first; a background that is no class has "
    "no line. Default: names that the model holds."
)
NamesOption = Annotated[Path | None, option(RESULTS, "--names", "FILE", _NAMES_HELP)]

SHOWN_TASKS = ("detect", "classify")
"""Tasks of whose outputs more is shown than figures."""


def run(
    model: OpenableArgument,
    data: DataOption,
    *,
    top: TopOption = None,
    names: NamesOption = None,
    running: RuntimeOptions,
    meaning: OutputOptions,
    reading: ReadingOptions,
    preprocessing: PreprocessOptions,
    states: StateOptions,
    report: ReportOptions,
) -> None:
    """Show what a model says about images.

    The best classes of each image with their scores; of a detector its objects with class, score and box;
    figures of the outputs where they are neither.

    Without preprocessing flags the images are treated as the model was calibrated.

    A model with states hears frames in their order; --samples takes the first ones.
    """
    terminal = open_terminal(report.quiet)
    outputs = {"--json": report.json, "--save-state": states.save_state}
    check_outputs(outputs, [model, data, names, states.load_state])
    preprocess = chosen_preprocess(preprocessing, stored_in_file([model]))

    from calib8.data.reading import framed_as_stored
    from calib8.progress import check_positive
    from calib8.session.stored_preprocess import stored_framing

    if top is not None:
        check_positive("top", top)
    purpose = _shown_purpose(meaning)
    request = framed_as_stored(reading.of(data, preprocess), lambda: stored_framing([model]))
    called = _class_names(model, names)

    session, dataset, stream = _opened(model, running, request, states)
    looking = _Looking(model, session, dataset, purpose, called, top)
    results = _run_all(terminal, looking, request, stream, states)
    say_skipped(terminal, dataset.skipped)
    if looking.problem is not None:
        terminal.say(f"note: objects are not listed: {on_command_line(looking.problem.problem)}")
    terminal.show(shown_table(results))
    if report.json is not None:
        write_json(report.json, {"model": str(model), "results": list(map(shown_document, results))})


def _opened(
    model: Path, running: RuntimeOptions, request: Reading, states: StateOptions
) -> tuple[Session, Dataset, StreamRun | None]:
    """The model, its samples, and its stream where states are carried.

    Raises:
        UsageError, ModelError, DataError: what can be wrong with model, data or options.
    """
    from calib8.analysis.runtimes import default_runtime, open_in_runtime
    from calib8.analysis.stream_run import stream_run

    def opened(state: Mapping[str, str] | None) -> Session:
        return open_in_runtime(
            model,
            running.runtime or default_runtime([model]),
            request.threads,
            profile=running.profile,
            integer_only=running.integer_only,
            state=state,
        )

    session = opened(request.state)
    stream = stream_run(model, session, request.state, has_graph=_has_graph(model))
    frames = None if stream is None else frames_of(stream, request)
    if stream is not None and frames is not None:
        return replace(session, outputs=stream.given), frames, stream
    states.refuse_without("the model has no states" if stream is None else "the data hold the states")
    session = session if stream is None else opened({})
    return session, request.opened(session.inputs), None


def _shown_purpose(meaning: OutputOptions) -> Purpose:
    """What the user says of the outputs.

    Raises:
        UsageError: a task of which nothing more can be shown.
    """
    purpose = meaning.purpose()
    if purpose.task_name not in (None, *SHOWN_TASKS):
        cure = f"Use one of {', '.join(SHOWN_TASKS)}, or leave it out; 'calib8 evaluate' knows the others"
        raise UsageError(
            parameter("task", purpose.task_name), "has no answer that is shown for every image", cure
        )
    return purpose


def _class_names(model: Path, names: Path | None) -> Mapping[int, str]:
    """Those of a file, else those that an ONNX file holds.

    Raises:
        DataError: the file is no list of names.
    """
    from calib8.data.class_names import names_in_metadata, read_class_names

    if names is not None:
        return read_class_names(names)
    if not _has_graph(model):
        return {}
    from calib8.model.load import load_model

    return names_in_metadata(load_model(model).metadata_props)


def _has_graph(model: Path) -> bool:
    """Whether it is an ONNX model, not a plan, a program or a file of TFLite or Tengine."""
    from calib8.engine.plan_file import claims_to_be_plan
    from calib8.program.magic import is_program_file
    from calib8.tflite.magic import claims_to_be_tflite
    from calib8.tmfile.magic import claims_to_be_tmfile

    others = (claims_to_be_plan, is_program_file, claims_to_be_tflite, claims_to_be_tmfile)
    return model.is_file() and not any(claims(model) for claims in others)


@dataclass
class _Looking:
    """What is looked for in the outputs of the model.

    Attributes:
        model: its path.
        session: the model, open.
        dataset: the samples.
        purpose: what the user says of the outputs.
        names: class → what it is called.
        top: so many classes or objects.
        finder: of objects; None before it is known that there are any.
        problem: why they cannot be read, though the graph shows some.
    """

    model: Path
    session: Session
    dataset: Dataset
    purpose: Purpose
    names: Mapping[int, str]
    top: int | None
    finder: Finder | None = None
    problem: Calib8Error | None = None
    started: bool = False

    def shown(self, batch: Batch, outputs: Sequence[Array]) -> Sequence[Shown]:
        """What there is to see for the samples of a batch."""
        asked = self.purpose.task_name
        classes = [] if asked == "detect" else as_classes(batch, outputs[0], self.top, self.names)
        if classes:
            return classes
        if asked == "classify":
            problem = f"output {self.session.outputs[0].name} is not a row of scores for each image"
            raise UsageError(parameter("task", asked), problem, "Leave it out")
        if not self.started:
            self.started, self.finder = True, self._finder()
        if self.finder is not None:
            try:
                return as_objects(self.finder, batch, outputs)
            except Calib8Error as error:
                if asked is not None or self.purpose.branches:
                    raise
                self.finder, self.problem = None, error
        return as_figures(self.session, batch, outputs)

    def _finder(self) -> Finder | None:
        """What reads the objects, where the user or the graph says that the outputs are a detector's.

        Raises:
            UsageError: parts of outputs are named of what is no ONNX model, or do not fit its graph.
        """
        from calib8.analysis.found_objects import Finder, pictures_seen
        from calib8.judge import meaning_of_file

        told = None
        if _has_graph(self.model):
            told = meaning_of_file(self.model, self.purpose)
        elif self.purpose.branches:
            problem = f"{self.model} is no ONNX model, and parts of outputs are named by its graph"
            raise UsageError(parameter("branches"), problem, f"Give {parameter('task', 'detect')} alone")
        if self.purpose.task_name != "detect" and (told is None or told.task != "detect"):
            return None
        return Finder(self.session, told, self.names, self.top, pictures_seen(self.dataset))


def _run_all(
    terminal: Terminal, looking: _Looking, reading: Reading, stream: StreamRun | None, states: StateOptions
) -> list[Shown]:
    from calib8.data.batches import batches

    results, done = list[Shown](), 0
    with shown_progress(terminal, "reading images") as progress:
        if stream is not None and states.load_state is not None:
            stream.load_state(states.load_state)
        for batch in batches(looking.dataset, 1 if stream else reading.batch_size, reading.threads):
            if stream is None:
                found = looking.session.run(batch.inputs)
            else:
                found = stream.run(batch.inputs, batch.names[0])
            results.extend(looking.shown(batch, found))
            done += len(batch.names)
            progress("running", done, looking.dataset.count)
    if stream is not None and states.save_state is not None:
        stream.save_state(states.save_state)
    return results
