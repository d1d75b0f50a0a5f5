"""What ``evaluate`` tells beside its figures, once every model has run on every batch.

classes of every sample ──► figures of each class              ``by_class``
outputs of some samples ──► what became of each model      ``verdicts``
the first samples ──► how fast each model is, in one process   ``paces``
                  └─► what FP32 says of its images, where it is right on less than half   ``second_opinion``
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from calib8.analysis.evaluation import Evaluation
from calib8.analysis.evaluation_work import Findings
from calib8.analysis.paces import SAMPLES, FirstSamples, seconds_per_sample
from calib8.analysis.task_figures import TaskRecords
from calib8.data.batches import batches
from calib8.data.fed import fed_from
from calib8.data.samples import Dataset
from calib8.model.runtime import Session
from calib8.tasks.limits import FEWEST
from calib8.tflite.magic import claims_to_be_tflite

HALF: Final = 0.5
"""Of the labelled samples: networks that are right on fewer are asked whether their images fit."""


def told_beside(
    found: Sequence[Evaluation], findings: Findings, dataset: Dataset, task: TaskRecords | None = None
) -> list[Evaluation]:
    """The evaluations with classes, data and verdicts.

    Args:
        found: one per model.
        findings: what was found of all samples.
        dataset: that the models ran on.
        task: what the judge keeps of the task that was asked for; None: none was.
    """
    told = [
        replace(
            one, classes=() if findings.classes is None else findings.classes.told(index),
            fed=None if one.failure else fed_from(dataset, one.images),
        )
        for index, one in enumerate(found)
    ]  # fmt: skip
    return told if findings.verdicts is None else findings.verdicts.beside(told, task)


def timed(found: Sequence[Evaluation], sessions: Sequence[Session], first: FirstSamples) -> list[Evaluation]:
    """The evaluations with the time that each model takes.

    Args:
        found: one per model.
        sessions: the open models.
        first: the first samples.
    """
    alive = [None if one.failure else session for one, session in zip(found, sessions, strict=True)]
    paces = seconds_per_sample(alive, first)
    return [
        replace(one, seconds=None if pace is None else pace * one.images)
        for one, pace in zip(found, paces, strict=True)
    ]


def first_samples(dataset: Dataset, batch: int, threads: int) -> FirstSamples:
    """The first samples of data, those that are kept where all of these are gone through here.

    Args:
        dataset: the data.
        batch: samples per run.
        threads: for decoding.

    Raises:
        DataError: one of them cannot be read.
    """
    first = FirstSamples()
    with closing(batches(replace(dataset, skipped=[]), batch, threads)) as pieces:
        for piece in pieces:
            first.add(piece)
            if first.count >= SAMPLES:
                break
    return first


def doubts(
    model: str | os.PathLike[str], found: Evaluation, first: Callable[[], FirstSamples], dataset: Dataset,
    threads: int,
) -> Iterator[str]:  # fmt: skip
    """What to say of a float model that is right on less than half of the labelled samples.

    It is asked whether it would rather be fed otherwise; where it does not tell, a reader has to.

    Args:
        model: its file.
        found: its figures.
        first: gives the first samples.
        dataset: that they are of.
        threads: for ONNX Runtime.
    """
    if found.top1 is None or found.top1 >= HALF or found.labelled < FEWEST:
        return
    from calib8.analysis.second_opinion import second_opinion  # plans run without the libraries of models
    from calib8.model.load import load_model

    told = list[str]()
    if not claims_to_be_tflite(model):
        told += second_opinion(load_model(model), first().batches, dataset.preprocess, threads)
    yield from told
    if not told and not found.warnings:
        hits = round(found.top1 * found.labelled)
        yield (
            f"FP32 itself is right on only {100 * found.top1:.2f} % ({hits} of {found.labelled}): if it was "
            "better in its training, compare preprocessing and class numbers with those of the training"
        )
