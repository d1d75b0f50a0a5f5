"""What judges models beside SQNR and classes, as the user asked: a task, with its labels, or a function."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from calib8.analysis.clean_speech import CleanSpeech
from calib8.analysis.evaluate import Evaluation, Outputs
from calib8.analysis.task_figures import OwnRecords, TaskRecords
from calib8.data.batches import Batch
from calib8.data.clean_sound import clean_sound
from calib8.data.samples import Dataset
from calib8.errors import UsageError
from calib8.files import checked_path
from calib8.model.runtime import Session
from calib8.parameters import either, parameter
from calib8.tasks.branches import Meaning
from calib8.tasks.countable import check_identities
from calib8.tasks.judges.find import AnyJudge, check_task, task_name
from calib8.tasks.judges.own import OwnJudge, check_own_judge
from calib8.tasks.truths import OF_IMAGES, OF_SOUND, Pictures, Truths, read_truths


@dataclass(frozen=True)
class AskedJudges:
    """What judges beside SQNR and classes; None where it was not asked for.

    Attributes:
        task: the task of the outputs.
        own: the user's function.
        clean: clean speech beside what models make of noisy one.
    """

    task: TaskRecords | None
    own: OwnRecords | None
    clean: CleanSpeech | None = None

    @property
    def of_classes(self) -> bool:
        """Whether outputs may hold scores of classes: no other task was named."""
        return self.task is None or self.task.name == "classify"

    def add(self, batch: Batch, results: Outputs) -> None:
        """Judges what every model gave for a batch.

        Raises:
            UsageError, DataError: outputs or labels that do not fit, or a function of the user that fails.
        """
        for one in (self.task, self.own):
            if one is not None:
                one.add(batch, results)
        if self.clean is not None and self.task is not None:
            self.clean.add(batch, results, self.task.output)

    def beside(self, found: Sequence[Evaluation]) -> list[Evaluation]:
        """The evaluations with their figures, and with what is odd about the task and its labels."""
        none = [None for _ in found]
        tasks = none if self.task is None else self.task.told()
        if self.clean is not None:
            pairs = zip(tasks, self.clean.told(), strict=True)
            tasks = [one and replace(one, against_labels=figures) for one, figures in pairs]
        owns = none if self.own is None else self.own.told()
        odd = [()] * len(found) if self.task is None else self.task.warnings(tasks)
        return [
            replace(one, task=task, own=own, warnings=(*one.warnings, *more))
            for one, task, own, more in zip(found, tasks, owns, odd, strict=True)
        ]


def labels_of_images(task: str | AnyJudge | None, labels: str | os.PathLike[str] | None) -> Path | None:
    """Labels that are no class numbers: those of some tasks.

    Raises:
        UsageError: no such task, or labels of objects without one.
    """
    if isinstance(task, str):
        check_task(task)
    path = None if labels is None else checked_path(labels, "labels")
    name = task_name(task)
    if path is None or name in (*OF_IMAGES, *OF_SOUND):
        return path
    if path.is_dir() or path.suffix.lower() == ".json":
        problem = "holds labels of objects or pixels" + (f", not of task {name}" if name else "")
        raise UsageError(
            str(path), problem, f"Say what they are of: {parameter('task')} {', '.join(OF_IMAGES)}"
        )
    return None


def asked_judges(
    task: str | AnyJudge | None, own: OwnJudge | None, sessions: Sequence[Session], reference: int | None,
    labels: Path | None, dataset: Dataset, meaning: Meaning | None = None,
) -> AskedJudges:  # fmt: skip
    """What the user asked for.

    Args:
        task: a name, or a judge with its head.
        own: a function.
        sessions: the models.
        reference: index of the float one, None without any.
        labels: what ``labels_of_images`` gave.
        dataset: the samples.
        meaning: branches of the outputs of the float model; None: they are not known.

    Raises:
        UsageError: nothing to compare with, labels of images for arrays, or clean speech for no sound.
        DataError: identities were given that tell no pair, or clean files do not fit the noisy ones.
    """
    records, clean = None, None
    if dataset.labels_asked:
        check_identities(task, dataset.labels)
    if task is not None:
        if labels is not None and task_name(task) in OF_SOUND:
            clean, labels = CleanSpeech(clean_sound(labels, dataset), len(sessions)), None
        pictures = None if labels is None else pictures_of(labels, dataset)
        opener = None if labels is None or pictures is None else partial(_read_truths, labels, pictures)
        files = dataset.preprocess is not None and Path(dataset.source).is_dir()
        records = TaskRecords(
            task, sessions, reference, opener, files=files, meaning=meaning, alone=clean is not None
        )
    if own is not None:
        check_own_judge(own)
    return AskedJudges(records, None if own is None else OwnRecords(own, sessions, reference), clean)


def _read_truths(labels: Path, pictures: Pictures, judge: AnyJudge, class_count: int) -> Truths:
    return read_truths(judge, labels, pictures, class_count)


def pictures_of(labels: Path, dataset: Dataset) -> Pictures:
    """The images of a dataset.

    Raises:
        UsageError: it holds arrays.
    """
    folder = Path(dataset.source)
    if dataset.preprocess is None or not folder.is_dir():
        raise UsageError(
            str(labels),
            "labels of objects or pixels need an image folder",
            f"Give one as {parameter('data')}",
        )
    return Pictures(folder, [pending.name for pending in dataset.pending()], dataset.preprocess)


def check_goes_elsewhere(dataset: Dataset, task: str | AnyJudge | None, judge: OwnJudge | None) -> None:
    """Refuses what is not told of samples that other machines go through.

    Raises:
        UsageError: a judge that needs every sample here, or a place for parts, of which there are none.
    """
    if dataset.elsewhere is None:
        return
    asked = None if judge is None else "judge"
    if task is not None:
        asked = parameter("task", task_name(task))
    if asked is not None:
        problem = "judges sample by sample, in one process alone, and these data are gone through by others"
        cure = f"Leave it out, or judge a part of the data here, with {parameter('samples')}"
        raise UsageError(asked, problem, cure)
    if dataset.elsewhere.keeps:
        problem = "keeps parts of statistics, and there are none where models are judged"
        raise UsageError(either("checkpoint", "--parts"), problem, "Leave it out")
