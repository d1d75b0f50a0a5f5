"""What a promise about a task asks of the samples that judge: records of each, one figure, its bound."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from calib8.analysis.asked_judges import labels_of_images
from calib8.autorange.check import Outputs
from calib8.data.batches import Batch
from calib8.errors import UsageError
from calib8.number_texts import percent
from calib8.parameters import parameter
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.average_precision import Matches, average_precisions, mean_average_precision
from calib8.tasks.judges.find import AnyJudge, check_task, find_judge, task_name
from calib8.tasks.judges.interface import split_samples
from calib8.tasks.judges.own import OwnJudge, check_own_judge, own_score
from calib8.tasks.label_doubts import cure_of, is_found
from calib8.tasks.truths import Pictures, Truths, read_truths
from calib8.tuning.group_bounds import counted_bound, jackknife_bound, mean_of
from calib8.tuning.promise import PARAMETERS, TASK_OF, Kind, Promise

_KEPT: Final = ("detect", "keypoints", "ctc", "speech")
"""Tasks whose truths are small: those of all samples stay in memory."""

_LOOKED_AT: Final = 32
"""Samples of which FP32 beside itself shows what a judge of the user's own gives at best."""

_WITH_LABELS_TOO: Final = ("recall", "precision", "oks")
"""Promises of tasks of which ``map_ratio`` is one too."""


@dataclass(frozen=True)
class Wanted:
    """What judges, as the user asked.

    Attributes:
        promise: a figure of a task, or of the user's own judge.
        task: name or judge with its head; None: that of the promise.
        own: the user's function, with the promise ``score``.
        labels: of boxes or pixels, a file or a folder; None: FP32 is the truth.
    """

    promise: Promise
    task: str | AnyJudge | None = None
    own: OwnJudge | None = None
    labels: Path | None = None

    def __post_init__(self) -> None:
        """Refuses what does not go together.

        Raises:
            UsageError: a score without a judge or the other way round, a promise of another task, or labels
                where FP32 alone is the truth.
        """
        kind, option = self.promise.kind, parameter(PARAMETERS[self.promise.kind])
        if self.own is not None:
            check_own_judge(self.own)
        if (kind == "score") != (self.own is not None):
            problem = "needs a judge" if kind == "score" else "does not go with a judge of your own"
            raise UsageError(option, problem, "Give judge=f and min_score=… together, and no other promise")
        name = task_name(self.task)
        if isinstance(self.task, str):
            check_task(self.task)
        if name is not None and kind in TASK_OF and not _fits(self.promise, name):
            problem = f"is not a promise of task {name}"
            raise UsageError(option, problem, f"It is one of task {TASK_OF[kind]}")
        if self.labels is not None and kind != "map_ratio":
            _refuse_labels(self.labels, self.promise)

    def identity(self) -> dict[str, str]:
        """What of it makes a search another one; the function of a user by its source."""
        return {
            "task": _identity(self.task),
            "judge": _identity(self.own),
            "task_labels": _content(self.labels),
        }


def wanted_of(
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
    if labels is not None and found is None:
        _refuse_labels(labels, promise)
    return Wanted(promise, task, own, found)


def _refuse_labels(labels: str | os.PathLike[str], promise: Promise) -> NoReturn:
    """Labels by which nothing is judged."""
    whose = "a judge of your own" if promise.kind == "score" else "the float model"
    problem = f"does not count for {parameter(PARAMETERS[promise.kind])}, whose truth is {whose}"
    other = f", or give {parameter('min_map_ratio')}" if promise.kind in _WITH_LABELS_TOO else ""
    raise UsageError(str(labels), problem, f"Leave the labels out{other}")


def _fits(promise: Promise, task: str) -> bool:
    return task == TASK_OF[promise.kind] or (promise.kind == "map_ratio" and task == "keypoints")


def _identity(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if not callable(value):
        return repr(value)
    try:
        text = inspect.getsource(value)
    except (OSError, TypeError):
        text = repr(getattr(value, "__qualname__", type(value).__qualname__))
    return hashlib.sha256(text.encode()).hexdigest()


def _content(labels: Path | None) -> str:
    """SHA-256 over the label files."""
    if labels is None:
        return ""
    files = [labels] if labels.is_file() else sorted(path for path in labels.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(labels).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Pair:
    """Records of one sample: of the int8 model, and of the float one by the same truth."""

    coded: Any
    real: Any


class TaskEvidence:
    """Judges outputs sample by sample, and tells figure and bound."""

    def __init__(
        self,
        wanted: Wanted,
        names: Sequence[str],
        pictures: Pictures | None,
        meaning: Meaning | None = None,
    ) -> None:
        """Begins.

        Args:
            wanted: what judges.
            names: of the outputs of the float model.
            pictures: the images that labels belong to; None without labels.
            meaning: branches of the outputs; None: they are not known.
        """
        self._wanted, self._names, self._pictures, self._meaning = wanted, names, pictures, meaning
        self._judge: AnyJudge | None = None if isinstance(wanted.task, str) else wanted.task
        self._truths: Truths | None = None
        self._known: dict[str, tuple[Any, Any]] = {}
        self._early: list[tuple[str, list[Any]]] = []
        self._own = list[float]()
        self.remarks: tuple[str, ...] = ()

    def look(self, piece: Batch, expected: Outputs) -> bool:
        """Finds the judge before int8 models are made; False where more samples are to be looked at.

        These are all of them where labels tell of FP32 too, else those up to one without an empty output.
        The user's own is called with the float outputs as both, for a few samples.

        Raises:
            UsageError, DataError: see ``add``.
        """
        several = split_samples(list(expected), piece.names)
        real = several[0]
        if self._wanted.own is not None:
            self._own += [
                own_score(self._wanted.own, one, one, name)
                for one, name in zip(several, piece.names, strict=True)
            ]
            if len(self._own) < _LOOKED_AT:
                return False
            self.check_own()
            return True
        by_labels = self._wanted.labels is not None
        if self._judge is None and not all(array.size for array in real):
            self._early += zip(piece.names, several if by_labels else [], strict=by_labels)
            return False
        judge = self._found(piece, real)
        if not by_labels:
            return True
        self._early += zip(piece.names, several, strict=True)
        for name, one in self._early:
            self._truth(judge, one, name)
        self._early.clear()
        return False

    def check_own(self) -> None:
        """Refuses a mean score that FP32 beside itself does not reach in any of the samples looked at.

        Raises:
            UsageError: it does not.
        """
        best = max(self._own, default=math.inf)
        if best < self._wanted.promise.value:
            problem = f"FP32 beside itself has {best:g} at most in {len(self._own)} samples"
            raise UsageError(
                parameter("min_score", self._wanted.promise.value), problem, "Promise less, or mend the judge"
            )

    def float_map(self, names: Sequence[str]) -> float | None:
        """FP32's own mAP by the labels, 0 … 1; None without labels.

        Args:
            names: of the samples that were looked at, in the order in which equal scores count.

        Raises:
            UsageError: FP32 does not find what is labelled: a share of next to nothing would be chance.
        """
        if self._wanted.labels is None or not self._known:
            return None
        found = mean_average_precision(
            average_precisions([self._known[name][1].matches for name in names if name in self._known])
        )
        if found is None:
            return None
        task, figures = task_name(self._judge) or "", {"map": found[1]}
        if not is_found(task, figures):
            own = f"FP32's own mAP@[.5:.95] by these labels is {percent(found[1])}"
            option = parameter(PARAMETERS[self._wanted.promise.kind])
            raise UsageError(option, f"{own}, and a share of next to nothing is chance", cure_of(task))
        return found[1]

    def add(self, piece: Batch, expected: Outputs, outputs: Outputs) -> list[Any]:
        """Records of the samples of a run.

        Raises:
            UsageError, DataError: outputs or labels do not fit the task, or the user's function fails.
        """
        real, coded = (split_samples(list(one), piece.names) for one in (expected, outputs))
        own = self._wanted.own
        if own is not None:
            samples = zip(piece.names, real, coded, strict=True)
            return [own_score(own, left, right, name) for name, left, right in samples]
        judge = self._found(piece, real[0])
        found = []
        for name, left, right in zip(piece.names, real, coded, strict=True):
            truth, record = self._truth(judge, left, name)
            found.append(Pair(judge.compare(judge.read(right, name), truth), record))
        return found

    def _found(self, piece: Batch, real: list[Any]) -> AnyJudge:
        if self._judge is None:
            task = self._wanted.task or TASK_OF[self._wanted.promise.kind]
            self._judge = find_judge(str(task), self._names, real, piece.inputs, self._meaning)
        if self._truths is None and self._wanted.labels is not None and self._pictures is not None:
            count = getattr(self._judge.read(real, piece.names[0]), "class_count", 0)
            self._truths = read_truths(self._judge, self._wanted.labels, self._pictures, count)
            self.remarks = self._truths.remarks
        return self._judge

    def _truth(self, judge: AnyJudge, real: list[Any], name: str) -> tuple[Any, Any]:
        """The truth of a sample, and the float model's record by it."""
        if name in self._known:
            return self._known[name]
        answer = judge.read(real, name)
        truth = judge.as_truth(answer) if self._truths is None else self._truths.of(name)
        both = truth, judge.compare(answer, truth)
        if judge.task in _KEPT:
            self._known[name] = both
        return both

    def told(self, records: Sequence[Any]) -> tuple[float, float]:
        """The promised figure and its bound.

        Raises:
            UsageError: there is nothing that it could be told of, such as no box at all.
        """
        value, bound = _TOLD[self._wanted.promise.kind](records, self._figure)
        if not np.isfinite(value):
            option = parameter(PARAMETERS[self._wanted.promise.kind])
            problem = f"cannot be told: FP32 finds nothing in the {len(records)} samples that judge"
            raise UsageError(option, problem, "Give samples with objects, or another promise")
        return value, bound

    def counted(self, records: Sequence[Any]) -> int | None:
        """FP32's boxes or lines; None where the promise is not about these."""
        kind = self._wanted.promise.kind
        return _COUNTED[kind](records) if kind in _COUNTED else None

    def _figure(self, records: Sequence[Pair]) -> Mapping[str, float]:
        assert self._judge is not None
        return self._judge.figures([one.coded for one in records])


_Figure = Callable[[Sequence[Pair]], Mapping[str, float]]


def _chosen(records: Sequence[Any], copies: Sequence[int]) -> list[Any]:
    return [one for one, times in zip(records, copies, strict=True) if times]


def _named(name: str) -> Callable[[Sequence[Pair], _Figure], tuple[float, float]]:
    """Of a figure of the judge."""

    def told(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
        def of(copies: Sequence[int]) -> float:
            return figure(_chosen(records, copies)).get(name, float("nan"))

        return jackknife_bound(len(records), of)

    return told


def _of_judge(records: Sequence[float], figure: _Figure) -> tuple[float, float]:
    """Of the user's own judge."""
    return jackknife_bound(len(records), lambda copies: mean_of(records, copies))


def _lines(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
    value, bound = _named("lines")(records, figure)
    return value, min(bound, counted_bound(value, _COUNTED["lines"](records)))


def _decisions(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
    value, bound = _named("decisions")(records, figure)
    return value, min(bound, counted_bound(value, _COUNTED["decisions"](records)))


def _recall(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
    value, bound = _named("recall")(records, figure)
    return value, min(bound, counted_bound(value, _COUNTED["recall"](records)))


def _precision(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
    """A model that finds nothing where FP32 does has a precision of 0: it keeps no promise."""

    def of(copies: Sequence[int]) -> float:
        chosen = _chosen(records, copies)
        nothing = 0.0 if any(one.coded.truths for one in chosen) else float("nan")
        return figure(chosen).get("precision", nothing)

    value, bound = jackknife_bound(len(records), of)
    return value, min(bound, counted_bound(value, sum(one.coded.claimed for one in records)))


def _map_ratio(records: Sequence[Pair], figure: _Figure) -> tuple[float, float]:
    def of(copies: Sequence[int]) -> float:
        real, coded = (
            mean_average_precision(average_precisions([one.matches for one in several], 0, copies))
            for several in ([pair.real for pair in records], [pair.coded for pair in records])
        )
        return float("nan") if real is None or coded is None or real[1] == 0.0 else coded[1] / real[1]

    value, bound = jackknife_bound(len(records), of)
    return value, min(bound, counted_bound(1.0, _COUNTED["map_ratio"](records)))


def _true_boxes(records: Sequence[Pair]) -> int:
    matches: list[Matches] = [one.coded.matches for one in records]
    return sum(int(one.counted[0].sum()) for one in matches)


_COUNTED: Final[dict[Kind, Callable[[Sequence[Any]], int]]] = {
    "map_ratio": _true_boxes,
    "recall": lambda records: sum(one.coded.truths for one in records),
    "lines": len,
    "decisions": len,
}
"""Promise → what the samples hold of what it counts, the same for all int8 models."""


_TOLD: Final[dict[Kind, Callable[[Sequence[Any], _Figure], tuple[float, float]]]] = {
    "map_ratio": _map_ratio,
    "recall": _recall,
    "precision": _precision,
    "iou": _named("miou"),
    "cosine": _named("cosine"),
    "lines": _lines,
    "decisions": _decisions,
    "si_sdr": _named("si_sdr_db"),
    "oks": _named("oks"),
    "score": _of_judge,
}
