"""``tune``: the cheapest int8 model that keeps a promise on samples that did not help to make it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from calib8.analysis.runtimes import ONNXRUNTIME
from calib8.autorange.samples import too_few
from calib8.calibration.given import given_ranges
from calib8.calibration.source import Model, open_data, refuse_recurrent_alone
from calib8.calibration.streaming import opened_for
from calib8.data.reading import LabelWords, Reading, SampleWords
from calib8.data.samples import DataSource
from calib8.errors import UsageError
from calib8.files import check_output, checked_path, remove_leftovers
from calib8.model.graph import model_hash
from calib8.notebook import grid, in_notebook, notes
from calib8.number_texts import count, percent
from calib8.parameters import Text, one_of, parameter
from calib8.passes.prepare import PreparedModel
from calib8.progress import ShownProgress, callback_of, draws_progress
from calib8.repair.repairs import EFFORTS
from calib8.requests import requested, takes_words_of
from calib8.scheme import QuantScheme, TargetChoice, TargetWords
from calib8.table import Range
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.own import OwnJudge
from calib8.tasks.purpose import Purpose, PurposeWords, purpose_of
from calib8.tuning.attempts import Attempts, Unprovable
from calib8.tuning.clock import BudgetOver, Clock
from calib8.tuning.float_forms import check_tuned_model, never_float
from calib8.tuning.folder import Folder
from calib8.tuning.judging import JUDGES, Judge
from calib8.tuning.promise import PARAMETERS, TASK_OF, Promise, Promises, PromiseWords, seconds_of
from calib8.tuning.recipes import Recipes
from calib8.tuning.search import Search, Ways
from calib8.tuning.search_choice import LAST_EFFORT as LAST_EFFORT
from calib8.tuning.search_choice import SearchChoice, SearchWords
from calib8.tuning.split import Split, split
from calib8.tuning.task_evidence import Wanted, wanted_of
from calib8.tuning.trial import Trial

if TYPE_CHECKING:
    from typing_extensions import Unpack


KNOWN_BY_HEART: Final = 99.5
"""Top-1 of the float model in percent from which on samples look like those of its training."""

CLOSEST: Final = "closest.onnx"
"""Name in the folder of the model that came closest, while none keeps the promise."""


@dataclass(frozen=True)
class Tuning:
    """What ``tune`` found.

    Attributes:
        promise: what had to be kept.
        kept: it is kept, and ``path`` the output; else ``path`` is the closest model in the folder.
        best: the trial of that model.
        trials: all of them, in order, those of earlier runs too.
        path: the model.
        work: the folder of the search.
        float_top1: of the float model on the samples that judge, in percent; None without labels.
        calibrated, judged: samples of each kind.
        complete: the search came to its end; False where the budget ended it before.
        notes: what else there is to know.
        latencies: milliseconds of a run in the model of each trial, the median of several; empty where
            nothing was timed.
        float_map: mAP@[.5:.95] of the float model by labels of objects, 0 … 1; None without them.
    """

    promise: Promise
    kept: bool
    best: Trial
    trials: tuple[Trial, ...]
    path: Path
    work: Path
    float_top1: float | None
    calibrated: int
    judged: int
    complete: bool
    notes: tuple[str, ...]
    latencies: tuple[float, ...] = ()
    float_map: float | None = None

    def __repr__(self) -> str:
        """One line: the promise, what the best model does, and what it costs."""
        kept, figures = "kept" if self.kept else "not kept", self.best.figures
        does = f"{self.promise.shown(figures.value)}, at worst {self.promise.shown(figures.bound)}"
        spots = f", {count(len(self.best.spots), 'spot')}" if self.best.spots else ""
        cost = f"{percent(self.best.cost)} of the MACs in float{spots}"
        return f"<Tuning: {self.promise.text} {kept}: {does}; {cost}; {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        """The trials in order, for notebooks."""
        shown = self.promise.shown
        ms: list[tuple[str, ...]] = [(f"{latency:.3f}",) for latency in self.latencies] or [()] * len(
            self.trials
        )
        header = ("made with", "nodes in float", "MACs in float", self.promise.noun, "at worst", "kept")
        trials = grid(
            (*header, "ms") if self.latencies else header,
            list(zip(self.trials, ms, strict=True)),
            lambda row: (
                row[0].name,
                len(row[0].settings.floats),
                percent(row[0].cost),
                shown(row[0].figures.value),
                shown(row[0].figures.bound),
                f"{'yes' if row[0].kept else 'no'}{' *' if row[0] is self.best else ''}",
                *row[1],
            ),
        )
        return in_notebook(repr(self), trials, notes(self.notes))


class TuningWords(SampleWords, LabelWords, TargetWords, PromiseWords, SearchWords, PurposeWords):
    """Keywords of ``tune``."""


@draws_progress
@takes_words_of(Promises, Reading, TargetChoice, SearchChoice, Purpose, without=("batch", "shapes"))
def tune(
    model: Model,
    data: DataSource | Reading,
    output: str | os.PathLike[str],
    *,
    promise: Promises | None = None,
    judge: OwnJudge | None = None,
    judge_data: DataSource | None = None,
    target: str | TargetChoice | None = None,
    runtime: str = ONNXRUNTIME,
    search: SearchChoice | None = None,
    progress: ShownProgress = None,
    **words: Unpack[TuningWords],
) -> Tuning:
    """Searches ranges, repairs, 16-bit codes and nodes in float for the cheapest model that keeps a promise.

    The cost is the share of the multiply-accumulates that are in float, then of those that read 16-bit codes
    (target ``calib8``). A run that was stopped goes on with its folder, and ends with the same model, byte
    for byte, unless the budget ended one of them.

    Args:
        model: path or ModelProto of the float model.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too; half of it judges
            unless ``judge_data`` does. Images that the model was trained on promise too much where they
            judge. ``samples``: at most so many of ``data``, and of ``judge_data``. ``labels``: a list of the
            samples that judge, for an image folder; with ``min_map_ratio`` a COCO JSON file or a folder of
            YOLO text files.
        output: the int8 model, written as soon as one keeps the promise, and whenever a cheaper one does.
            What is not from this search gets another name while none does, ``NAME.earlier.onnx``.
        promise: what has to be kept, or a field of ``Promises`` as a keyword, such as ``min_agreement=99.5``.
        judge: a function (outputs_float, outputs_int8) → score of your own, see ``calib8.evaluate``.
        judge_data: samples to judge with.
        target: a key of ``calib8.scheme.TARGETS``, or a ``TargetChoice``, whose other fields are keywords
            too; None: that of the name of the runtime.
        runtime: what judges the models and will run them, ``onnxruntime`` or ``calib8``.
        search: how to search, or its fields as keywords, such as ``budget="10m"``.
        progress: see ``calib8.calibrate``.
        words: fields of ``Promises``, ``Reading``, ``TargetChoice``, ``SearchChoice`` and ``Purpose``.
            ``task``: a judge with its head, such as ``DetectionJudge(DetectionHead(…))``, where the outputs
            do not tell how they are decoded; or the name of the task, which the promise tells as well.

    Raises:
        UsageError: no promise or two, one that cannot be, a budget too small for one trial.
        TableError: the folder is that of another search, or a file in it is broken.
        OutputError: another run is searching in the folder.
        Calib8Error: what else can be wrong with model, data or options, in one line each.
    """
    _check_scored(judge, promise, words)
    kept, reading = (
        requested(Promises, words, promise).promise(),
        requested(Reading, words, data, field="data"),
    )
    choice, purpose = requested(SearchChoice, words, search), purpose_of(words)
    clock = Clock(seconds_of(choice.budget), str(choice.budget))
    wanted = wanted_of(kept, purpose.task, judge, reading.labels)
    scheme = _scheme(target, runtime, words)
    out = _place(output, model)
    place = out.with_name(out.name + ".tune") if choice.work is None else checked_path(choice.work, "work")
    classes = replace(reading, labels=_class_labels(wanted, reading.labels))
    prepared, tensors, parts = _opened(model, classes, judge_data, choice.keep_float)
    given, notes = given_ranges(choice.ranges or {}, tensors, scheme.activations)
    watching, threads = clock.watching(callback_of(progress)), reading.threads
    alike = parts.calibrating if judge_data is None else None
    meaning = _meaning(prepared, kept, purpose)
    judging = Judge(
        prepared.model, parts.judging, kept, threads, watching, alike=alike, wanted=wanted,
        meaning=meaning, runtime=runtime, ranks=parts.ranks,
    )  # fmt: skip
    floats = prepared.nodes_called(choice.keep_float)
    refuse_recurrent_alone(prepared.model, scheme, floats)
    in_int8 = never_float(prepared, out, floats)
    asked = _Asked(kept, scheme, choice, floats, given, wanted, meaning, runtime, in_int8, purpose.threshold)
    with Folder(place, _settings(prepared, parts, judging.labels_digest, asked)) as folder:
        clock.before = folder.seconds
        remove_leftovers(out)
        recipes = Recipes(
            prepared, scheme, floats, parts.calibrating, folder, threads, watching, given,
            choice.power_of_two, meaning,
        )  # fmt: skip
        notes = (*notes, *_about_samples(judging, kept, recipes, halved=alike is not None))
        attempts = Attempts(recipes, judging, kept, clock, out, place / CLOSEST, notes, in_int8)
        try:
            complete = _searched(attempts, recipes, choice.effort)
            told = _told(kept, attempts, folder, parts, judging, recipes, complete)
        finally:
            folder.spend(clock.spent())
        return replace(told, latencies=attempts.latencies()) if choice.measure_latency else told


def _check_scored(judge: OwnJudge | None, promise: Promises | None, words: Mapping[str, object]) -> None:
    """Refuses a judge of the user's own with nothing that is promised of it.

    Raises:
        UsageError: a judge, and no promise at all.
    """
    given = promise is not None or any(words.get(name) is not None for name in PARAMETERS.values())
    if judge is not None and not given:
        problem = "is missing: a judge of your own goes with the mean score that is to be kept"
        raise UsageError("min_score", problem, "Give it beside judge, such as min_score=0.9")


def _scheme(target: str | TargetChoice | None, runtime: str, words: Mapping[str, object]) -> QuantScheme:
    """The target, that of the runtime where none is named."""
    if runtime not in JUDGES:
        problem = "is not a runtime that tune judges in"
        raise UsageError(parameter("runtime", runtime), problem, one_of(runtime, JUDGES))
    return requested(TargetChoice, words, target, field="target").scheme(runtime)


def _place(output: str | os.PathLike[str], model: Model) -> Path:
    """Where the model will lie, looked at before anything is made."""
    out = checked_path(output, "output")
    check_tuned_model(out, parameter("output", out))
    read = [("an input", model)] if isinstance(model, str | os.PathLike) else []
    check_output(parameter("output", out), out, read)
    return out


def _about_samples(judging: Judge, promise: Promise, recipes: Recipes, *, halved: bool) -> Iterator[str]:
    """What is odd about the samples and their labels."""
    if judging.label_note:
        yield f"labels that do not fit are left out: {judging.label_note}"
    if halved:
        yield from _perhaps_trained_on(judging, promise)
    if recipes.samples.shared:
        yield f"calibration: {too_few(recipes.samples)}"


def _meaning(prepared: PreparedModel, promise: Promise, purpose: Purpose) -> Meaning:
    """What the outputs mean; a promise about a task names it."""
    if promise.by_task:
        named = purpose.task or TASK_OF.get(promise.kind)
        return replace(purpose, task=named).judged(prepared.model)
    return purpose.meaning(prepared.model)


def _class_labels(
    wanted: Wanted | None, labels: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | None:
    """Labels that are class numbers."""
    return labels if wanted is None or wanted.labels is None else None


def _perhaps_trained_on(judge: Judge, promise: Promise) -> tuple[str, ...]:
    """A note where the float model is right so often that it may know the samples held back to judge with.

    The SQNR hardly depends on that; agreement and drop do, by the margins between classes.
    """
    top1 = judge.float_top1
    if promise.kind not in ("agreement", "drop") or top1 is None or top1 < KNOWN_BY_HEART:
        return ()
    return (
        Text(
            f"the float model is right on {top1:.2f} % of the samples that judge: they may be images it was "
            f"trained on, which promise too much; give others with {parameter('judge_data')}"
        ),
    )


def _searched(attempts: Attempts, recipes: Recipes, effort: str) -> bool:
    """Carries out the search; whether it came to its end."""
    ways = Ways(recipes.sharings, attempts.additions, attempts.units, attempts.most, attempts.spots)
    attempts.written()
    try:
        Search(attempts.attempt, ways).run(tuple(EFFORTS)[: tuple(EFFORTS).index(effort) + 1])
    except BudgetOver:
        return False
    except Unprovable:  # more trials tell nothing more
        return True
    return True


def _opened(
    model: Model, reading: Reading, judge_data: DataSource | None, keep_float: Sequence[str]
) -> tuple[PreparedModel, tuple[str, ...], Split]:
    """The model, its tensors that are calibrated, and the two sets of samples."""
    calibrating = reading if judge_data is None else replace(reading, labels=None)
    source, dataset = open_data(model, calibrating, keep_float=keep_float)
    prepared, judges = source.prepared, None
    if judge_data is not None:
        judges = opened_for(prepared.model, replace(reading, data=judge_data))
    return prepared, source.tensors, split(dataset, judges)


@dataclass(frozen=True)
class _Asked:
    """What the user wants of the model."""

    promise: Promise
    scheme: QuantScheme
    search: SearchChoice
    keep_float: frozenset[str]
    ranges: Mapping[str, Range]
    wanted: Wanted | None
    meaning: Meaning
    runtime: str
    never_float: Mapping[str, str]
    threshold: float | None


def _settings(prepared: PreparedModel, parts: Split, labels: str, asked: _Asked) -> dict[str, object]:
    """What makes a search what it is; the budget and the number of threads do not."""
    preprocess = parts.calibrating.preprocess
    return {
        "calib8": version("calib8"),
        "model": model_hash(prepared.model),
        "calibrating": parts.calibrating_digest,
        "judging": parts.judging_digest,
        "labels": labels,
        "preprocess": None if preprocess is None else json.loads(preprocess.to_json()),
        "promise": asked.promise.text,
        "target": asked.scheme.name,
        "runtime": asked.runtime,
        "activations": asked.scheme.activation_name,
        "weights": asked.scheme.weight_granularity,
        "power_of_two": asked.search.power_of_two,
        "ranges": {name: [held.min, held.max] for name, held in sorted(asked.ranges.items())},
        "effort": asked.search.effort,
        "keep_float": sorted(asked.keep_float),
        **({} if asked.wanted is None else asked.wanted.identity()),
        "branches": {branch.places: branch.kind for branch in asked.meaning.branches},
        **({} if asked.threshold is None else {"threshold": asked.threshold}),
        **({"never_float": sorted(asked.never_float)} if asked.never_float else {}),
        **({"grids": [repr(grid) for grid in asked.meaning.grids]} if asked.meaning.grids else {}),
        **({"recurrent": "integer"} if asked.scheme.recurrent == "integer" else {}),
    }


def _told(
    promise: Promise,
    attempts: Attempts,
    folder: Folder,
    parts: Split,
    judge: Judge,
    recipes: Recipes,
    complete: bool,
) -> Tuning:
    best, path = attempts.best, attempts.written()
    if best is None or path is None:
        problem = f"is over before the first trial, {attempts.clock.spent():.0f} s were needed so far"
        kept = "; what was gathered is kept and not gathered again" if recipes.begun else ""
        cure = f"Give more time{kept}"
        raise UsageError(parameter("budget", attempts.clock.text), problem, cure)
    notes = [*attempts.notes, *judge.remarks]
    if parts.left_out:
        notes.append(f"{parts.left_out} samples did not calibrate: they are among those that judge")
    if not complete:
        more = "with more of it there may be a cheaper model" if best.kept else "with more of it it goes on"
        notes.append(f"the budget ended the search: {more}")
    return Tuning(
        promise, best.kept, best, tuple(folder.trials), path, folder.path,
        judge.float_top1, parts.calibrating.count or 0, best.figures.samples, complete, tuple(notes),
        float_map=judge.float_map,
    )  # fmt: skip
