"""The figures of a task for models side by side: with FP32 as the truth, and with labels if there are any.

The judge is found from the outputs for the first sample with any: those of the float model,
else of the first model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calib8.analysis.evaluate import Outputs
from calib8.data.batches import Batch
from calib8.data.fingerprints import array_fingerprint
from calib8.errors import UsageError
from calib8.model.runtime import Arrays, Session
from calib8.parameters import parameter
from calib8.tasks.branches import Meaning
from calib8.tasks.countable import CURE_OF_PAIRS, why_no_pairs
from calib8.tasks.judged import Records
from calib8.tasks.judges.classes import ClassTruth
from calib8.tasks.judges.find import AnyJudge, find_judge
from calib8.tasks.judges.interface import Array, Kept, TaskFigures, split_samples
from calib8.tasks.judges.own import OwnJudge, own_figures, own_score
from calib8.tasks.label_doubts import is_found, not_found
from calib8.tasks.truths import OF_IMAGES, Truths
from calib8.tasks.unvarying import Varying, unvarying_outputs

Opener = Callable[[AnyJudge, int], Truths]
"""Reads labels for a judge and a number of classes."""

OWN: Final = "judge"


@dataclass
class _Model:
    """Records of one model, by sample."""

    with_float: Kept = field(default_factory=lambda: Kept([]))
    with_labels: Kept = field(default_factory=lambda: Kept([]))
    samples: int = 0


@dataclass(frozen=True)
class _Sample:
    """Outputs of all models for one sample, while no judge is known; ``key`` is its place in order."""

    name: str
    key: str
    label: int | None
    outputs: Sequence[list[Array] | None]


class TaskRecords:
    """Judges the outputs of models, sample by sample."""

    def __init__(
        self,
        task: str | AnyJudge,
        sessions: Sequence[Session],
        reference: int | None,
        labels: Opener | None,
        *,
        files: bool,
        meaning: Meaning | None = None,
        alone: bool = False,
    ) -> None:
        """Begins.

        Args:
            task: a name, or a judge with its head.
            sessions: the models.
            reference: index of the float one; None: there is none.
            labels: reads the labels of a task; None without any.
            files: samples are files, whose names order them; else what they hold does.
            meaning: branches of the outputs of the float model; None: they are not known.
            alone: something else compares each model with labels, so that there may be one alone.

        Raises:
            UsageError: there is nothing to compare with.
        """
        self._task, self._reference, self._labels, self._files = task, reference, labels, files
        self._meaning, self._alone = meaning, alone
        self._names = [[spec.name for spec in session.outputs] for session in sessions]
        self._judge: AnyJudge | None = None if isinstance(task, str) else task
        self._truths: Truths | None = None
        self._models = [_Model() for _ in sessions]
        self._waiting: list[_Sample] = []
        self._varying = Varying()
        if self.name in OF_IMAGES and labels is None:
            self._check_comparable()

    @property
    def name(self) -> str:
        """Of the task."""
        return self._task if isinstance(self._task, str) else self._task.task

    @property
    def output(self) -> int:
        """Index of the output that the judge reads, once a sample was seen."""
        return int(getattr(self._judge, "output", 0))

    def warnings(self, told: Sequence[TaskFigures | None]) -> list[tuple[str, ...]]:
        """Sentences about what is odd, for every model: about labels with the first one.

        Args:
            told: the figures of all, see ``told``.
        """
        of_labels = (*self._without_pairs(), *(() if self._truths is None else self._truths.remarks))
        doubts = doubts_of(told, self._reference)
        if self._varying.never and self._reference is not None:
            doubts[self._reference] = (unvarying_outputs(self._varying.samples), *doubts[self._reference])
        return [(*(of_labels if index == 0 else ()), *doubt) for index, doubt in enumerate(doubts)]

    def add(self, batch: Batch, results: Outputs) -> None:
        """Judges what every model gave for a batch; None is passed over.

        Raises:
            UsageError, DataError: outputs or labels that do not fit the task.
        """
        each = [None if outputs is None else split_samples(outputs, batch.names) for outputs in results]
        for row, name in enumerate(batch.names):
            outputs = [None if samples is None else samples[row] for samples in each]
            key = name if self._files else _digest(batch, row)
            self._waiting.append(_Sample(name, key, batch.labels[row], outputs))
        if self._known_judge(batch.inputs):
            for sample in self._waiting:
                self._add_sample(sample)
            self._waiting.clear()

    def _without_pairs(self) -> Iterator[str]:
        """Why labels of embeddings tell nothing, where they do not."""
        records = next(
            (model.with_labels.in_order() for model in self._models if model.with_labels.records), []
        )
        if self.name == "embed" and records:
            why = why_no_pairs([record.label for record in records])
            yield from [f"labels do not count: {why}. {CURE_OF_PAIRS}"] if why else []

    def _known_judge(self, feeds: Arrays) -> bool:
        """Whether there is a judge: the first sample that has an output of every kind tells it."""
        for sample in self._waiting:
            first = next(index for index, one in enumerate(sample.outputs) if one is not None)
            if self._reference is not None and sample.outputs[self._reference] is not None:
                first = self._reference
            shown = sample.outputs[first] or []
            if self._judge is None and all(array.size for array in shown):
                self._judge = find_judge(str(self._task), self._names[first], shown, feeds, self._meaning)
            if self._judge is not None and self._labels is not None and self._truths is None:
                count = getattr(self._judge.read(shown, sample.name), "class_count", 0)
                self._truths = self._labels(self._judge, count)
        return self._judge is not None

    def _check_comparable(self) -> None:
        """Refuses a single model without labels: there is nothing that it could be judged by."""
        if self._reference is None:
            problem = "needs a float model to compare with, or labels"
            cure = f"Add the float model to the list, or {parameter('labels')}"
            raise UsageError(parameter("task", self.name), problem, cure)
        if len(self._models) == 1:
            problem = "has nothing to judge: without labels the float model is the truth, and it is alone"
            cure = f"Add an int8 model to the list, or {parameter('labels')}"
            raise UsageError(parameter("task", self.name), problem, cure)

    def _truth(self, judge: AnyJudge, label: int | None, name: str) -> Any:
        """From labels; None where there are none."""
        if self._truths is not None:
            return self._truths.of(name)
        if label is None or judge.task not in ("classify", "embed", "speech"):
            return None
        if judge.task == "speech":
            return (label > 0,)
        return ClassTruth(label) if judge.task == "classify" else label

    def _add_sample(self, sample: _Sample) -> None:
        judge, name = self._judge, sample.name
        assert judge is not None
        truth = self._truth(judge, sample.label, name)
        answers = [None if one is None else judge.read(one, name) for one in sample.outputs]
        expected = None if self._reference is None else answers[self._reference]
        whole = None if self._reference is None else sample.outputs[self._reference]
        if whole is not None:
            self._varying.add(_read_by(judge, whole))
        for index, (answer, model) in enumerate(zip(answers, self._models, strict=True)):
            if answer is None:
                continue
            model.samples += 1
            if truth is not None:
                model.with_labels.records.append((sample.key, judge.compare(answer, truth)))
            if expected is not None and index != self._reference:
                record = judge.compare(answer, judge.as_truth(expected))
                model.with_float.records.append((sample.key, record))

    def beside_float(self, index: int) -> Records | None:
        """What is kept of a model with FP32's answers as the truth.

        None where it was not judged so, or where these answers are the same for every sample.
        """
        records = self._models[index].with_float
        if self._varying.never:
            return None
        return Records(self._judge, records.in_order()) if self._judge and records.records else None

    def told(self) -> list[TaskFigures | None]:
        """Of every model, in their order; None where it was not judged.

        Raises:
            UsageError: there is nothing to compare with, or an output was empty for every sample.
        """
        judge = self._judge
        if judge is None and self._waiting:
            problem = f"outputs are empty for all of the {len(self._waiting)} samples"
            raise UsageError(parameter("task", self._task), problem, "Give samples with something to find")
        if judge is None:
            return [None for _ in self._models]
        if not self._alone and not any(model.with_labels.records for model in self._models):
            self._check_comparable()
        found = [
            TaskFigures(
                judge.task,
                {} if self._varying.never else judge.figures(model.with_float.in_order()),
                judge.figures(model.with_labels.in_order()),
                model.samples,
            )
            for model in self._models
        ]
        return [_with_ratio(one, self._reference, found) if one.samples else None for one in found]


def doubts_of(found: Sequence[TaskFigures | None], reference: int | None) -> list[tuple[str, ...]]:
    """What is to be doubted of each model: labels that the float one, or without it any, does not find."""
    who = "it" if reference is None else "FP32 itself"
    return [
        tuple(filter(None, (not_found(one.task, one.against_labels, who),)))
        if one is not None and reference in (None, index)
        else ()
        for index, one in enumerate(found)
    ]


def _read_by(judge: AnyJudge, outputs: list[Array]) -> list[Array]:
    """The output that a judge reads; all of them where that is not one alone."""
    place = getattr(getattr(judge, "head", judge), "output", None)
    return outputs if place is None else [outputs[place]]


def _digest(batch: Batch, row: int) -> str:
    """SHA-256 of what one sample holds."""
    many = len(batch.names) > 1
    inputs = {name: array[row : row + 1] if many else array for name, array in batch.inputs.items()}
    return array_fingerprint(inputs).hex()


def _with_ratio(one: TaskFigures, reference: int | None, found: Sequence[TaskFigures]) -> TaskFigures:
    """With the share of FP32's mAP that is left, where FP32 finds what is labelled."""
    if reference is None or one is found[reference]:
        return one
    whole, part = found[reference].against_labels.get("map"), one.against_labels.get("map")
    if whole is None or part is None or not is_found(one.task, found[reference].against_labels):
        return one
    labels: Mapping[str, float] = {**one.against_labels, "map_ratio": part / whole}
    return TaskFigures(one.task, one.against_float, labels, one.samples)


class OwnRecords:
    """What the user's own judge says of models beside the float one."""

    def __init__(self, judge: OwnJudge, sessions: Sequence[Session], reference: int | None) -> None:
        """Begins.

        Raises:
            UsageError: there is no float model, or no other one.
        """
        if reference is None or len(sessions) == 1:
            kind = "a float model, and none" if reference is None else "the float model, and nothing else"
            cure = "Add the float model" if reference is None else "Add an int8 model"
            raise UsageError("judge", f"compares with {kind} is in the list", cure)
        self._judge, self._reference = judge, reference
        self._scores: list[list[float]] = [[] for _ in sessions]

    def add(self, batch: Batch, results: Outputs) -> None:
        """Calls the function for every sample and every model but the float one.

        Raises:
            DataError: it raises, or returns no finite number; outputs cannot be told apart by the samples.
        """
        each = [None if outputs is None else split_samples(outputs, batch.names) for outputs in results]
        expected = each[self._reference]
        for index, samples in enumerate(each):
            if samples is None or expected is None or index == self._reference:
                continue
            for name, left, right in zip(batch.names, expected, samples, strict=True):
                self._scores[index].append(own_score(self._judge, left, right, name))

    def told(self) -> list[TaskFigures | None]:
        """Of every model, in their order; None where it was not judged."""
        return [
            TaskFigures(OWN, own_figures(scores), {}, len(scores)) if scores else None
            for scores in self._scores
        ]
