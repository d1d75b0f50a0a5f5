"""What became of every model that is evaluated beside a float one, by those who judge ``quantize``.

records of the task that was asked for, all samples ──┐
best classes of all samples                         ──┼──► verdict of ``calib8.tasks.verdict``
outputs of some samples, by branches and judges     ──┘

Outputs are kept of the samples of lowest digest (SHA-256 of what they are decoded from), which is as by lot,
however the data are ordered: of at most ``MOST``, and of no more than fit into ``LARGEST_BYTES``. Those of
all data are among those of its parts, so parts join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.evaluate import Outputs
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.task_figures import TaskRecords
from calib8.data.batches import Batch
from calib8.errors import DataError
from calib8.number_texts import count
from calib8.tasks.branches import Meaning
from calib8.tasks.judged import Records
from calib8.tasks.judges.interface import split_samples
from calib8.tasks.task_verdicts import TaskVerdict, records_verdict, task_verdicts
from calib8.tasks.verdict import Verdict, unjudged, verdict_of, why_unjudged, with_agreement

Array = npt.NDArray[Any]

MOST: Final = 64
"""Samples whose outputs are kept: as many as judge ``quantize`` at most."""

LARGEST_BYTES: Final = 1 << 28
"""Of the outputs that are kept."""


@dataclass(frozen=True)
class _Kept:
    """The float outputs of all models for one sample, or for one batch that cannot be told apart.

    Attributes:
        digest: of the sample.
        samples: how many these are.
        fed: arrays of the shapes of the inputs, without memory of their own.
        outputs: of every model, None of one that has ended its runtime.
    """

    digest: bytes
    samples: int
    fed: Mapping[str, Array]
    outputs: Sequence[list[Array] | None]

    @property
    def nbytes(self) -> int:
        """Of the outputs."""
        return sum(array.nbytes for arrays in self.outputs for array in arrays or ())


@dataclass
class Verdicts:
    """Outputs of some samples, for a verdict on each model.

    Attributes:
        reference: index of the float model.
        outputs: names of its outputs.
        meaning: its branches; None: they are not known.
        kept: outputs of samples, in the order of their digests.
        bound: the lowest digest that was let go; none from there on is kept. None: all are kept.
        names: of the outputs that are float.
    """

    reference: int
    outputs: Sequence[str]
    meaning: Meaning | None
    kept: list[_Kept] = field(default_factory=list)
    bound: bytes | None = None
    names: Sequence[str] = ()

    def add(self, batch: Batch, results: Outputs, digests: Sequence[bytes]) -> None:
        """Keeps what every model gave for some samples of a batch, of which there is a digest each."""
        expected = results[self.reference]
        if expected is None:
            return
        floats = [place for place, array in enumerate(expected) if array.dtype.kind == "f"]
        self.names = [self.outputs[place] for place in floats]
        shown = [None if one is None else [one[place] for place in floats] for one in results]
        samples = _samples(batch, shown)
        apart = digests if len(samples) == len(digests) else [min(digests)]
        for digest, (fed, outputs) in zip(apart, samples, strict=True):
            if self.bound is None or digest < self.bound:
                own = [None if one is None else [array.copy() for array in one] for one in outputs]
                self.kept.append(_Kept(digest, len(batch.names) // len(samples), fed, own))
                self._let_go()

    def joined(self, other: Verdicts) -> Verdicts:
        """Of the samples of both."""
        bounds = [one.bound for one in (self, other) if one.bound is not None]
        found = replace(
            self, kept=[*self.kept, *other.kept], bound=min(bounds, default=None),
            names=self.names or other.names,
        )  # fmt: skip
        found._let_go()
        return found

    def _let_go(self) -> None:
        """Those from the bound on, which is that of the first one that is too many, or too large."""
        self.kept.sort(key=lambda one: one.digest)
        size = 0
        for place, one in enumerate(self.kept):
            size += one.nbytes
            if place and (place >= MOST or size > LARGEST_BYTES):
                self.bound = one.digest if self.bound is None else min(self.bound, one.digest)
                break
        if self.bound is not None:
            self.kept = [one for one in self.kept if one.digest < self.bound] or self.kept[:1]

    def beside(self, found: Sequence[Evaluation], task: TaskRecords | None) -> list[Evaluation]:
        """The evaluations with their verdicts.

        Args:
            found: one per model.
            task: what the judge keeps of the task that was asked for; None: none was.
        """
        if found[self.reference].failure is not None:
            return list(found)
        return [
            one
            if index == self.reference or one.failure is not None
            else replace(one, verdict=self._verdict(index, one, task))
            for index, one in enumerate(found)
        ]

    def _verdict(self, index: int, one: Evaluation, task: TaskRecords | None) -> Verdict:
        records = None if task is None else task.beside_float(index)
        pieces = () if self.meaning is None else self.meaning.pieces
        fits = bool(pieces) and all(piece.index < len(self.names) for piece in pieces)
        meaning = self.meaning if fits and self.meaning is not None else Meaning(())
        expected, found, inputs, samples = list[list[Array]](), list[list[Array]](), [], 0
        for kept in self.kept:
            left, right = kept.outputs[self.reference], kept.outputs[index]
            assert left is not None and right is not None  # neither has ended its runtime
            expected.append(left)
            found.append(right)
            inputs.append(kept.fed)
            samples += kept.samples
        tasks = task_verdicts(meaning, self.names, expected, found, inputs)
        of_all = None if records is None else _of_all(records, tasks, meaning, found)
        if of_all is not None:
            tasks = (*(told for told in tasks if told.task != of_all.task), of_all)
        if not (meaning.judged or tasks):
            return unjudged(why_unjudged(meaning))
        verdict = replace(verdict_of(meaning, expected, found, tasks), samples=samples)
        if of_all is None and one.agreement is not None:
            verdict = with_agreement(verdict, one.agreement, one.images)
        return _with_where(verdict, of_all, one.images)


def _with_where(verdict: Verdict, of_all: TaskVerdict | None, images: int) -> Verdict:
    """With the samples that it stands on in words.

    Args:
        verdict: on ``verdict.samples``.
        of_all: what stands on all of them.
        images: how many these are.
    """
    some = [part for part in verdict.deciding if part is not of_all]
    if not some or verdict.samples == images:
        return replace(verdict, samples=images, where=count(images, "sample"))
    where = f"{verdict.samples} of the {count(images, 'sample')}"
    all_too = of_all is not None and of_all in verdict.deciding
    return replace(verdict, where=f"{where}, {of_all.name} on all of them" if of_all and all_too else where)


def _samples(
    batch: Batch, outputs: Sequence[list[Array] | None]
) -> list[tuple[Mapping[str, Array], Sequence[list[Array] | None]]]:
    """Inputs and outputs of every sample; of the whole batch where its outputs cannot be told apart."""
    rows = len(batch.names)
    try:
        split = [None if one is None else split_samples(one, batch.names) for one in outputs]
    except DataError:
        return [(_shapes(batch, None), outputs)]
    return [
        (_shapes(batch, None if rows == 1 else 1), [None if one is None else one[row] for one in split])
        for row in range(rows)
    ]


def _shapes(batch: Batch, rows: int | None) -> dict[str, Array]:
    """Arrays of the shapes of the inputs, with so many rows; None: as many as there are."""
    return {
        name: np.broadcast_to(
            np.zeros((), array.dtype), array.shape if rows is None else (rows, *array.shape[1:])
        )
        for name, array in batch.inputs.items()
    }


def _of_all(
    records: Records, tasks: Sequence[TaskVerdict], meaning: Meaning, found: Sequence[list[Array]]
) -> TaskVerdict | None:
    """By the records of all samples; None where there are several parts of that task, or no numbers.

    Args:
        records: of the task that was asked for.
        tasks: what judges say of the samples that were kept.
        meaning: branches of the outputs.
        found: outputs of the model for these samples.
    """
    task = records.judge.task
    same = [told for told in tasks if told.task == task]
    if len(same) > 1 or not all(np.isfinite(array).all() for outputs in found for array in outputs):
        return None
    if same:
        return records_verdict(same[0].name, task, same[0].branches, records)
    return records_verdict(task, task, [branch.name for branch in meaning.judged], records)
