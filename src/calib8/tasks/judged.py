"""The judge of a task on outputs that were made already: int8 beside float, where something decodes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from calib8.errors import DataError, UsageError
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.find import AnyJudge, find_judge
from calib8.tasks.judges.interface import Array, TaskFigures, split_samples

Runs = Sequence[Sequence[Array]]
Inputs = Sequence[Mapping[str, npt.NDArray[Any]]]


@dataclass(frozen=True)
class Records:
    """What a judge keeps of every sample, FP32's answers as the truth.

    Attributes:
        judge: of the task.
        records: one per sample, in their order.
    """

    judge: AnyJudge
    records: list[Any]


@dataclass(frozen=True)
class Truths:
    """FP32's answers, read once for however many int8 models.

    Attributes:
        judge: of the task.
        runs: what it reads from every sample of every run.
        rows: names of the samples of every run.
        name: of the first output.
    """

    judge: AnyJudge
    runs: list[list[Any]]
    rows: list[list[str]]
    name: str

    @classmethod
    def of(
        cls, task: str, names: Sequence[str], expected: Runs, inputs: Inputs, meaning: Meaning | None = None
    ) -> Truths | None:
        """None where nothing is known to decode such outputs; the arguments are as for ``judged_records``."""
        judge: AnyJudge | None = None
        runs = list[list[Any]]()
        try:
            rows = [_rows_of(fed) for fed in inputs]
            for outputs, fed, row in zip(expected, inputs, rows, strict=True):
                runs.append([])
                for real in split_samples(outputs, row):
                    judge = judge or find_judge(task, names, real, fed, meaning)
                    runs[-1].append(judge.as_truth(judge.read(real, names[0])))
        except (UsageError, DataError):
            return None
        return None if judge is None else cls(judge, runs, rows, names[0])

    def against(self, found: Runs) -> Records | None:
        """Records of every sample; None where INT8's outputs cannot be decoded."""
        records = list[Any]()
        try:
            for truths, row, outputs in zip(self.runs, self.rows, found, strict=True):
                for truth, coded in zip(truths, split_samples(outputs, row), strict=True):
                    records.append(self.judge.compare(self.judge.read(coded, self.name), truth))
        except (UsageError, DataError):
            return None
        return Records(self.judge, records)


def judged_records(
    task: str,
    names: Sequence[str],
    expected: Runs,
    found: Runs,
    inputs: Inputs,
    meaning: Meaning | None = None,
) -> Records | None:
    """Records of every sample; None where nothing is known to decode such outputs.

    Args:
        task: one of ``calib8.tasks.judges.interface.TASKS``.
        names: of the outputs.
        expected, found: outputs of every run, of FP32 and of INT8.
        inputs: what they were fed with.
        meaning: what the outputs mean; None: their shapes tell.
    """
    truths = Truths.of(task, names, expected, inputs, meaning)
    return None if truths is None else truths.against(found)


def judged_runs(
    meaning: Meaning, names: Sequence[str], expected: Runs, found: Runs, inputs: Inputs
) -> TaskFigures | None:
    """The figures of the task, with FP32 as the truth.

    Args:
        meaning: what the outputs mean.
        names, expected, found, inputs: see ``judged_records``.

    Returns:
        None where the task is not known, or nothing is known to decode such outputs.
    """
    if meaning.task is None:
        return None
    kept = judged_records(meaning.task, names, expected, found, inputs, meaning)
    figures = {} if kept is None else kept.judge.figures(kept.records)
    return TaskFigures(meaning.task, figures, {}, len(kept.records)) if kept and figures else None


def _rows_of(fed: Mapping[str, Array]) -> list[str]:
    """A name for each sample of a run: as many as the inputs with a batch axis have rows.

    Raises:
        DataError: they have different numbers of rows, or none.
    """
    sizes = {len(array) for array in fed.values() if array.ndim > 1}
    if len(sizes) != 1 or 0 in sizes:
        raise DataError("inputs", f"have {sorted(sizes)} rows", "Give each of them one row per sample")
    return [str(row) for row in range(sizes.pop())]
