"""``tune``: the cheapest int8 model that keeps a promise on samples that did not help to make it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from calib8.analysis.asked_judges import labels_of_images
from calib8.analysis.runtimes import ONNXRUNTIME
from calib8.autorange.samples import too_few
from calib8.calibration.given import GivenRanges, given_ranges
from calib8.calibration.source import Model, open_data
from calib8.data.preprocess import Preprocess
from calib8.data.samples import DataSource, open_dataset
from calib8.errors import UsageError
from calib8.files import checked_path, remove_leftovers
from calib8.model.graph import graph_inputs, model_hash
from calib8.parameters import Text, parameter
from calib8.passes.prepare import PreparedModel
from calib8.progress import Progress, check_positive, silent
from calib8.repair.repairs import EFFORTS
from calib8.repair.wanted import effort_called
from calib8.scheme import QuantScheme, target_scheme
from calib8.table import Range
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.find import AnyJudge, task_name
from calib8.tasks.judges.own import OwnJudge
from calib8.tasks.meaning import NOTHING_NAMED, judged_meaning, meaning_of
from calib8.tuning.attempts import Attempts
from calib8.tuning.clock import BudgetOver, Clock
from calib8.tuning.folder import Folder
from calib8.tuning.judging import JUDGES, Judge
from calib8.tuning.promise import TASK_OF, Promise, promise_of, seconds_of
from calib8.tuning.recipes import Recipes
from calib8.tuning.search import Search, Ways
from calib8.tuning.split import Split, split
from calib8.tuning.task_evidence import Wanted
from calib8.tuning.trial import Trial

LAST_EFFORT: Final = tuple(EFFORTS)[-1]
"""The most that can be tried."""

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


def tune(
    model: Model,
    data: DataSource,
    output: str | os.PathLike[str],
    *,
    max_drop: float | None = None,
    min_agreement: float | None = None,
    min_sqnr: float | None = None,
    min_map_ratio: float | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    min_iou: float | None = None,
    min_cosine: float | None = None,
    min_lines: float | None = None,
    min_oks: float | None = None,
    min_score: float | None = None,
    task: str | AnyJudge | None = None,
    judge: OwnJudge | None = None,
    judge_data: DataSource | None = None,
    labels: str | os.PathLike[str] | None = None,
    preprocess: Preprocess | str | None = None,
    target: str | None = None,
    runtime: str = ONNXRUNTIME,
    activations: str | None = None,
    weights: str = "per-channel",
    power_of_two: bool = False,
    ranges: GivenRanges | None = None,
    effort: str = LAST_EFFORT,
    keep_float: Sequence[str] = (),
    budget: str | float | None = None,
    work: str | os.PathLike[str] | None = None,
    samples: int | None = None,
    threads: int = 2,
    skip_bad: bool = False,
    branches: Mapping[str, str] = NOTHING_NAMED,
    progress: Progress = silent,
) -> Tuning:
    """Searches ranges, repairs and nodes in float for the cheapest model that keeps a promise.

    The cost is the share of the multiply-accumulates that are not in int8. A run that was stopped goes on
    with its folder, and ends with the same model, byte for byte, unless the budget ended one of them.

    Args:
        model: path or ModelProto of the float model.
        data: see ``calib8.data.samples.open_dataset``; half of it judges unless ``judge_data`` does. Images
            that the model was trained on promise too much where they judge.
        output: the int8 model, written as soon as one keeps the promise, and whenever a cheaper one does.
            What is not from this search gets another name while none does, ``NAME.earlier.onnx``.
        max_drop: promise: top-1 at most so many percentage points below the float model's; needs labels.
        min_agreement: promise: the best class is the float model's in so many percent of the samples.
        min_sqnr: promise: SQNR of the outputs in dB, of the worst branch where they have several.
        min_map_ratio, min_recall, min_precision: promises about boxes, 0 … 1: mAP over that of the float
            model, by labels or else by the float model's boxes; share of the float model's boxes that are
            found; share of the boxes found that the float model has as well.
        min_iou, min_cosine, min_lines, min_oks: promises about masks, embeddings, lines of text and
            keypoints, 0 … 1, all beside the float model.
        min_score: promise: mean of ``judge``.
        task: a judge with its head, such as ``DetectionJudge(DetectionHead(…))``, where the outputs do not
            tell how they are decoded; or the name of the task, which the promise tells as well.
        judge: a function (outputs_float, outputs_int8) → score of your own, see ``calib8.evaluate``.
        judge_data: samples to judge with.
        labels: a list of the samples that judge, for an image folder; with ``min_map_ratio`` a COCO JSON
            file or a folder of YOLO text files.
        preprocess: how images become inputs, or the name of a preset.
        target: a key of ``calib8.scheme.TARGETS``; None: that of the name of the runtime.
        runtime: what judges the models and will run them, ``onnxruntime`` or ``calib8``.
        activations: activation type, None for the target's own.
        weights, power_of_two, ranges: see ``calib8.quantize``; ranges that are given win over all methods.
        effort: a key of ``calib8.repair.repairs.EFFORTS``: the most that is tried.
        keep_float: names of nodes that are in float anyway.
        budget: seconds for all runs together, or ``90s``, ``10m``, ``1h``; see ``calib8.tuning.clock``.
        work: the folder of the search, None: ``output`` with ``.tune`` behind it.
        samples: at most so many of ``data``, and of ``judge_data``.
        threads, skip_bad, branches, progress: see ``calib8.calibrate``.

    Raises:
        UsageError: no promise or two, one that cannot be, a budget too small for one trial.
        TableError: the folder is that of another search, or a file in it is broken.
        OutputError: another run is searching in the folder.
        Calib8Error: what else can be wrong with model, data or options, in one line each.
    """
    promise = promise_of(
        max_drop, min_agreement, min_sqnr,
        {"map_ratio": min_map_ratio, "recall": min_recall, "precision": min_precision, "iou": min_iou,
         "cosine": min_cosine, "lines": min_lines, "oks": min_oks, "score": min_score},
    )  # fmt: skip
    clock, wanted = Clock(seconds_of(budget), str(budget)), _wanted(promise, task, judge, labels)
    effort_called(effort)
    check_positive("threads", threads)
    scheme = _scheme(target, runtime, weights, activations)
    out = checked_path(output, "output")
    place = out.with_name(out.name + ".tune") if work is None else checked_path(work, "work")
    prepared, tensors, parts = _opened(
        model, data, judge_data, _class_labels(wanted, labels), preprocess, keep_float, samples=samples,
        skip_bad=skip_bad,
    )  # fmt: skip
    given, notes = given_ranges(ranges or {}, tensors, scheme.activations)
    watching = clock.watching(progress)
    alike = parts.calibrating if judge_data is None else None
    meaning = _meaning(prepared, promise, task, branches)
    judging = Judge(
        prepared.model, parts.judging, promise, threads, watching, alike=alike, wanted=wanted,
        meaning=meaning, runtime=runtime,
    )  # fmt: skip
    floats = prepared.nodes_called(keep_float)
    asked = _Asked(promise, scheme, effort, floats, given, power_of_two, wanted, meaning, runtime)
    with Folder(place, _settings(prepared, parts, judging.labels_digest, asked)) as folder:
        clock.before = folder.seconds
        remove_leftovers(out)
        recipes = Recipes(
            prepared, scheme, floats, parts.calibrating, folder, threads, watching, given, power_of_two,
            meaning,
        )  # fmt: skip
        notes = (*notes, *_about_samples(judging, promise, recipes, halved=alike is not None))
        attempts = Attempts(recipes, judging, promise, clock, out, place / CLOSEST, notes)
        try:
            complete = _searched(attempts, recipes, effort)
            return _told(promise, attempts, folder, parts, judging, recipes, complete)
        finally:
            folder.spend(clock.spent())


def _scheme(target: str | None, runtime: str, weights: str, activations: str | None) -> QuantScheme:
    """The target, that of the runtime where none is named."""
    if runtime not in JUDGES:
        problem = "is no runtime that tune judges in"
        raise UsageError(parameter("runtime", runtime), problem, f"Use {' or '.join(JUDGES)}")
    scheme = target_scheme(target or runtime).with_weights(weights)
    return scheme if activations is None else scheme.with_activations(activations)


def _about_samples(judging: Judge, promise: Promise, recipes: Recipes, *, halved: bool) -> Iterator[str]:
    """What is odd about the samples and their labels."""
    if judging.label_note:
        yield f"labels that do not fit are left out: {judging.label_note}"
    if halved:
        yield from _perhaps_trained_on(judging, promise)
    if recipes.samples.shared:
        yield f"calibration: {too_few(recipes.samples)}"


def _meaning(
    prepared: PreparedModel, promise: Promise, task: str | AnyJudge | None, branches: Mapping[str, str]
) -> Meaning:
    """What the outputs mean; a promise about a task names it."""
    if promise.by_task:
        return judged_meaning(prepared.model, task or TASK_OF.get(promise.kind), branches)
    return meaning_of(prepared.model, task=task_name(task), branches=branches)


def _wanted(
    promise: Promise,
    task: str | AnyJudge | None,
    own: OwnJudge | None,
    labels: str | os.PathLike[str] | None,
) -> Wanted | None:
    """What judges beside classes and SQNR; None where these are promised.

    Raises:
        UsageError: what does not go together.
    """
    if not promise.by_task:
        if own is not None:
            raise UsageError("judge", "goes with min_score alone", "Give min_score, or no judge")
        return None
    found = labels_of_images(task or TASK_OF.get(promise.kind), labels)
    return Wanted(promise, task, own, found)


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
    ways = Ways(recipes.sharings, attempts.additions, attempts.units)
    attempts.written()
    try:
        Search(attempts.attempt, ways).run(tuple(EFFORTS)[: tuple(EFFORTS).index(effort) + 1])
    except BudgetOver:
        return False
    return True


def _opened(
    model: Model,
    data: DataSource,
    judge_data: DataSource | None,
    labels: str | os.PathLike[str] | None,
    preprocess: Preprocess | str | None,
    keep_float: Sequence[str],
    *,
    samples: int | None,
    skip_bad: bool,
) -> tuple[PreparedModel, tuple[str, ...], Split]:
    """The model, its tensors that are calibrated, and the two sets of samples."""
    source, dataset = open_data(
        model, data, preprocess=preprocess, labels=labels if judge_data is None else None, samples=samples,
        skip_bad=skip_bad, keep_float=keep_float, shard=None,
    )  # fmt: skip
    prepared = source.prepared
    judges = None
    if judge_data is not None:
        judges = open_dataset(
            judge_data, graph_inputs(prepared.model), preprocess, labels=labels, samples=samples,
            skip_bad=skip_bad,
        )  # fmt: skip
    return prepared, source.tensors, split(dataset, judges)


@dataclass(frozen=True)
class _Asked:
    """What the user wants of the model."""

    promise: Promise
    scheme: QuantScheme
    effort: str
    keep_float: frozenset[str]
    ranges: Mapping[str, Range]
    power_of_two: bool
    wanted: Wanted | None
    meaning: Meaning
    runtime: str


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
        "power_of_two": asked.power_of_two,
        "ranges": {name: [held.min, held.max] for name, held in sorted(asked.ranges.items())},
        "effort": asked.effort,
        "keep_float": sorted(asked.keep_float),
        **({} if asked.wanted is None else asked.wanted.identity()),
        "branches": {branch.places: branch.kind for branch in asked.meaning.branches},
        **({"grids": [repr(grid) for grid in asked.meaning.grids]} if asked.meaning.grids else {}),
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
    )  # fmt: skip
