"""An int8 model judged on samples that neither calibrated nor repaired it, beside the float model."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.evaluate import class_scores
from calib8.autorange.check import Outputs
from calib8.data.batches import Batch, batches
from calib8.data.samples import Dataset
from calib8.errors import DataError, UsageError
from calib8.model.runtime import Session, open_session
from calib8.progress import Progress, SampleCounter
from calib8.tuning.evidence import Margins, change_bound, margins, ratio_bound_db, runner_up
from calib8.tuning.promise import OPTIONS, Promise

LARGEST_BYTES: Final = 1 << 27
"""Bytes of float outputs that are kept; the float model runs again for the others."""

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """What an int8 model does on the samples that judge; None where it cannot be told.

    Attributes:
        value: the promised figure, in its unit (percent, percentage points or dB).
        bound: what it is at worst, see ``calib8.tuning.evidence``.
        agreement: share of samples whose best class is the float model's, in percent.
        top1: of the int8 model, in percent of the labelled samples.
        sqnr_db: of all float outputs, −120 … 120.
        samples: how many judged.
    """

    value: float
    bound: float
    agreement: float | None
    top1: float | None
    sqnr_db: float
    samples: int


@dataclass
class _Seen:
    """What is kept of every run."""

    signal: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    margins: list[Margins] = field(default_factory=list)
    classes: list[tuple[npt.NDArray[np.intp], ...]] = field(default_factory=list)
    labels: list[int | None] = field(default_factory=list)
    rows: int = 0


class Judge:
    """The samples, and what the float model makes of them.

    Attributes:
        float_top1: of the float model, in percent of the labelled samples; None where it cannot be told.
    """

    def __init__(
        self, reference: ir.Model, dataset: Dataset, promise: Promise, threads: int, progress: Progress
    ) -> None:
        """Runs the float model on all samples.

        Raises:
            UsageError: model or data lack what the promise is about: class scores, labels.
            Calib8Error: the model cannot be run, or a sample cannot be read.
        """
        self._reference = open_session(reference, threads=threads)
        self._dataset, self._promise, self._threads, self._progress = dataset, promise, threads, progress
        self._kept: list[Outputs] = []
        self._bytes = 0
        hits: list[bool] = []
        classified = True
        with closing(batches(dataset, 1, threads)) as pieces:
            for index, piece in enumerate(pieces):
                scores = class_scores(self._expected(index, piece)[0])
                if scores is None or len(scores) != len(piece.names):
                    classified = False
                    continue
                labels = [self._label(piece, row, scores.shape[1]) for row in range(len(scores))]
                best = runner_up(scores)[0]
                hits += [best[row] == label for row, label in enumerate(labels) if label is not None]
        self.float_top1 = 100.0 * sum(hits) / len(hits) if hits else None
        self._check(classified, bool(hits))

    def _check(self, classified: bool, labelled: bool) -> None:
        kind = self._promise.kind
        if kind != "sqnr" and not classified:
            problem = "promises something about classes, but the first output is no row of class scores"
            raise UsageError(OPTIONS[kind], problem, "Give --min-sqnr")
        if kind == "drop" and not labelled:
            problem = "needs labels, and no sample that judges has one"
            raise UsageError(OPTIONS[kind], problem, "Give --labels, or --min-agreement, which needs none")

    def figures(self, model: ir.Model) -> Figures:
        """Runs a model of the same network on every sample.

        Raises:
            Calib8Error: it cannot be run, a sample cannot be read, or the data lack what the promise needs.
        """
        session, seen = open_session(model, threads=self._threads), _Seen()
        counter = SampleCounter("judging", self._dataset.count, self._progress)
        with closing(batches(self._dataset, 1, self._threads)) as pieces:
            for index, piece in enumerate(pieces):
                self._add(seen, self._expected(index, piece), session.run(piece.inputs), piece, session)
                counter(len(piece.names))
        return self._told(seen)

    def _expected(self, index: int, piece: Batch) -> Outputs:
        if index < len(self._kept):
            return self._kept[index]
        outputs = self._reference.run(piece.inputs)
        if index == len(self._kept) and self._bytes < LARGEST_BYTES:
            self._kept.append(outputs)
            self._bytes += sum(array.nbytes for array in outputs)
        return outputs

    def _add(self, seen: _Seen, expected: Outputs, outputs: Outputs, piece: Batch, session: Session) -> None:
        if [array.shape for array in expected] != [array.shape for array in outputs]:
            raise DataError(session.name, "its outputs have other shapes than the float model's", "Report it")
        signal = noise = 0.0
        for left, right in zip(expected, outputs, strict=True):
            if left.dtype.kind == "f":
                wide = left.astype(np.float64)
                signal += float(np.sum(wide * wide))
                with np.errstate(invalid="ignore", over="ignore"):
                    noise += float(np.sum((wide - right) ** 2))
        seen.signal.append(signal)
        seen.noise.append(noise if np.isfinite(noise) else np.inf)
        seen.rows += len(piece.names)
        scores, coded = class_scores(expected[0]), class_scores(outputs[0])
        if scores is None or coded is None or len(scores) != len(piece.names):
            return
        seen.margins.append(margins(scores, coded))
        seen.classes.append((*runner_up(scores), runner_up(coded)[0]))
        seen.labels += [self._label(piece, row, scores.shape[1]) for row in range(len(scores))]

    @staticmethod
    def _label(piece: Batch, row: int, classes: int) -> int | None:
        label = piece.labels[row]
        if label is not None and not 0 <= label < classes:
            problem = f"its label {label} is beyond the {classes} classes of the model"
            raise DataError(piece.names[row], problem, "Check the labels")
        return label

    def _told(self, seen: _Seen) -> Figures:
        sqnr, bound = ratio_bound_db(np.array(seen.signal), np.array(seen.noise))
        if len(seen.labels) != seen.rows:  # no rows of class scores
            return Figures(sqnr, bound, None, None, sqnr, seen.rows)
        best, second, coded = (np.concatenate(parts) for parts in zip(*seen.classes, strict=True))
        found = _joined(seen.margins)
        agreement = 100.0 * float(np.mean(best == coded))
        at_worst = 100.0 * (1.0 - change_bound(found, np.ones(seen.rows)))
        told = {"sqnr": (sqnr, bound), "agreement": (agreement, max(at_worst, 0.0))}
        known = np.array([label is not None for label in seen.labels])
        top1 = None
        if known.any():
            labels = np.array([-1 if label is None else label for label in seen.labels])[known]
            hit, top1 = best[known] == labels, 100.0 * float(np.mean(coded[known] == labels))
            gain = np.where(hit, 1.0, np.where(second[known] == labels, -1.0, 0.0))
            few = Margins(found.margin[known], found.loss[known], found.spread[known])
            told["drop"] = (100.0 * float(np.mean(hit)) - top1, 100.0 * change_bound(few, gain))
        samples = int(known.sum()) if self._promise.kind == "drop" else seen.rows
        return Figures(*told[self._promise.kind], agreement, top1, sqnr, samples)


def _joined(parts: list[Margins]) -> Margins:
    return Margins(
        np.concatenate([part.margin for part in parts]),
        np.concatenate([part.loss for part in parts]),
        np.concatenate([part.spread for part in parts]),
    )
