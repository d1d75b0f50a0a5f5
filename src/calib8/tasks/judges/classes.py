"""Classes: is the best one FP32's, or the label's?

agreement   share of the samples whose best class is FP32's
top1, top5  share of the labelled samples whose class is the first, or among the first five, scores
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.interface import I64, Array, output_of, told
from calib8.tensors import shape_text


def class_scores(output: Array) -> Array | None:
    """The output as [samples, classes], None if it is not a row of at least two scores per sample."""
    if output.dtype.kind != "f" or output.ndim < 2 or not output.size:
        return None
    scores = output.reshape(output.shape[0], -1)
    is_row = max(output.shape[1:]) == scores.shape[1] and scores.shape[1] >= 2
    return scores if is_row else None


def best_classes(scores: Array, count: int) -> I64:
    """Indices of the ``count`` highest scores per row, best first; the lower index first among equals."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count].astype(np.int64)


@dataclass(frozen=True)
class ClassTruth:
    """The class of a sample: the label, or FP32's best class."""

    number: int
    labelled: bool = True


@dataclass(frozen=True)
class ClassRecord:
    """Whether the truth is the first, or among the first five."""

    first: bool
    among_five: bool
    labelled: bool


@dataclass(frozen=True)
class ClassJudge:
    """Judges classes.

    Attributes:
        output: index of the output with the scores.
    """

    output: int = 0
    task: ClassVar[str] = "classify"

    def __post_init__(self) -> None:
        """Checks types."""
        fit_fields(self)

    def read(self, outputs: Sequence[Array], name: str) -> tuple[int, ...]:
        """The five best classes, best first; see ``Judge``."""
        cure = "Give a ClassJudge that says which output it is"
        scores = class_scores(output_of(outputs, self.output, name, cure))
        if scores is None or len(scores) != 1:
            problem = f"output {self.output} is not a row of class scores"
            raise DataError(name, problem, "Give a ClassJudge that says which output is")
        return tuple(int(number) for number in best_classes(scores, 5)[0])

    def as_truth(self, answer: tuple[int, ...]) -> ClassTruth:
        """The best class."""
        return ClassTruth(answer[0], labelled=False)

    def compare(self, answer: tuple[int, ...], truth: ClassTruth) -> ClassRecord:
        """Where the true class stands."""
        return ClassRecord(answer[0] == truth.number, truth.number in answer, truth.labelled)

    def figures(self, records: Sequence[ClassRecord]) -> dict[str, float]:
        """``agreement``, or with labels ``top1`` and ``top5``."""
        if not records:
            return {}
        first = sum(one.first for one in records) / len(records)
        if not all(one.labelled for one in records):
            return told({"agreement": first})
        return told({"top1": first, "top5": sum(one.among_five for one in records) / len(records)})


def find_class_judge(names: Sequence[str], outputs: Sequence[Array]) -> ClassJudge:
    """The first output that is a row of class scores.

    Raises:
        UsageError: there is none.
    """
    for index, array in enumerate(outputs):
        if class_scores(array) is not None:
            return ClassJudge(index)
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    cure = "Name the task that they are of, or from Python give a judge of your own"
    raise UsageError(parameter("task", "classify"), f"outputs {listed}: none is a row of class scores", cure)
