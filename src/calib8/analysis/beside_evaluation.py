"""What ``evaluate`` gathers beside its figures while every model runs on every batch, and tells at the end.

classes of every sample ──► figures of each class              ``by_class``
outputs of some samples ──► what became of each model      ``verdicts``
the first samples ──► how fast each model is                   ``paces``
                  └─► what FP32 says of its images, where it is right on less than half   ``second_opinion``
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from calib8.analysis.by_class import ClassCounts
from calib8.analysis.evaluate import Outputs
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.paces import FirstSamples, seconds_per_sample
from calib8.analysis.task_figures import TaskRecords
from calib8.data.batches import Batch
from calib8.data.fed import fed_from
from calib8.data.samples import Dataset
from calib8.model.runtime import Session
from calib8.tasks.branches import Meaning
from calib8.tasks.limits import FEWEST
from calib8.tflite.magic import claims_to_be_tflite

if TYPE_CHECKING:
    from calib8.analysis.verdicts import Verdicts

HALF: Final = 0.5
"""Of the labelled samples: networks that are right on fewer are asked whether their images fit."""


@dataclass(frozen=True)
class Beside:
    """What is gathered.

    Attributes:
        classes: of every sample; None where outputs are no classes.
        first: the first samples.
        verdicts: outputs of some samples; None where nothing is compared.
    """

    classes: ClassCounts | None
    first: FirstSamples
    verdicts: Verdicts | None = None

    def add(self, batch: Batch, results: Outputs) -> None:
        """Takes in what every model gave for a batch."""
        self.first.add(batch)
        if self.verdicts is not None:
            self.verdicts.add(batch, results)
        if self.classes is not None:
            self.classes.add(batch, results)

    def told(
        self, found: Sequence[Evaluation], sessions: Sequence[Session], dataset: Dataset,
        task: TaskRecords | None = None,
    ) -> list[Evaluation]:  # fmt: skip
        """The evaluations with classes, times, data and verdicts.

        Args:
            found: one per model.
            sessions: the open models.
            dataset: that they ran on.
            task: what the judge keeps of the task that was asked for; None: none was.
        """
        alive = [None if one.failure else session for one, session in zip(found, sessions, strict=True)]
        paces = seconds_per_sample(alive, self.first)
        classes = [() if self.classes is None else self.classes.told(index) for index in range(len(found))]
        told = [
            replace(
                one, seconds=None if pace is None else pace * one.images, classes=of_classes,
                fed=None if one.failure else fed_from(dataset, one.images),
            )
            for one, pace, of_classes in zip(found, paces, classes, strict=True)
        ]  # fmt: skip
        return told if self.verdicts is None else self.verdicts.beside(told, task)


def verdicts_beside(
    sessions: Sequence[Session], reference: int | None, meaning: Meaning | None
) -> Verdicts | None:
    """What gathers for verdicts; None where there is nothing to compare.

    Args:
        sessions: the models.
        reference: index of the float one, None without any.
        meaning: branches of its outputs; None: they are not known.
    """
    if reference is None or len(sessions) == 1:
        return None
    from calib8.analysis.verdicts import Verdicts  # a plan alone runs without the judges

    return Verdicts(reference, [spec.name for spec in sessions[reference].outputs], meaning)


def doubts(
    model: str | os.PathLike[str], found: Evaluation, first: FirstSamples, dataset: Dataset, threads: int
) -> Iterator[str]:
    """What to say of a float model that is right on less than half of the labelled samples.

    It is asked whether it would rather be fed otherwise; where it does not tell, a reader has to.

    Args:
        model: its file.
        found: its figures.
        first: the first samples.
        dataset: that they are of.
        threads: for ONNX Runtime.
    """
    if found.top1 is None or found.top1 >= HALF or found.labelled < FEWEST:
        return
    from calib8.analysis.second_opinion import second_opinion  # plans run without the libraries of models
    from calib8.model.load import load_model

    told = list[str]()
    if not claims_to_be_tflite(model):
        told += second_opinion(load_model(model), first.batches, dataset.preprocess, threads)
    yield from told
    if not told and not found.warnings:
        hits = round(found.top1 * found.labelled)
        yield (
            f"FP32 itself is right on only {100 * found.top1:.2f} % ({hits} of {found.labelled}): if it was "
            "better in its training, compare preprocessing and class numbers with those of the training"
        )
