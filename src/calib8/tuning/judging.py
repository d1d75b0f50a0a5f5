"""An int8 model judged on samples that neither calibrated nor repaired it, beside the float model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.asked_judges import pictures_of
from calib8.analysis.evaluate import class_scores, other_network
from calib8.analysis.runtimes import ONNXRUNTIME, Settings, open_own
from calib8.autorange.check import Outputs
from calib8.calibration.own_states import OwnStates
from calib8.data.batches import Batch, batches
from calib8.data.finite import finite_only
from calib8.data.samples import Dataset
from calib8.errors import DataError, UsageError
from calib8.model.runtime import Session, open_session
from calib8.parameters import parameter
from calib8.progress import Progress, SampleCounter
from calib8.session.prepared import NATIVE
from calib8.tasks.branches import Meaning
from calib8.tasks.figures import energies_of
from calib8.tasks.unvarying import CHECK_OF_UNVARYING, Varying
from calib8.tuning.evidence import change_bound, losses, margins, ratio_bound_db, runner_up
from calib8.tuning.promise import PARAMETERS, Promise
from calib8.tuning.task_evidence import TaskEvidence, Wanted

JUDGES: Final = (ONNXRUNTIME, NATIVE)
"""Runtimes that can judge; each has a target of its name."""

LARGEST_BYTES: Final = 1 << 27
"""Bytes of float outputs that are kept; the float model runs again for the others."""

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """What an int8 model does on the samples that judge; None where it cannot be told.

    Attributes:
        value: the promised figure, in its unit (percent, percentage points or dB; of a task 0 … 1).
        bound: what it is at worst for all samples of their kind, see ``calib8.tuning.evidence``.
        agreement: share of samples whose best class is the float model's, in percent.
        top1: of the int8 model, in percent of the labelled samples.
        sqnr_db: of all float outputs, or of the worst of several branches, −120 … 120.
        samples: how many judged.
        branches: name of a branch → its SQNR, where there are several.
        counted: FP32's boxes or lines, where no bound is higher than so many of them without a loss give.
    """

    value: float
    bound: float
    agreement: float | None
    top1: float | None
    sqnr_db: float
    samples: int
    branches: Mapping[str, float] = field(default_factory=dict)
    counted: int | None = None


@dataclass(frozen=True)
class _Classes:
    """What the float model says of rows of class scores.

    Attributes:
        margin: float64 [n], see ``calib8.tuning.evidence``.
        best, second: classes, int [n].
        labels: int [n], −1 where there is none.
    """

    margin: F64
    best: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    labels: npt.NDArray[np.intp]

    @property
    def gain(self) -> F64:
        """float64 [n]: what a change of the class takes off top-1, see ``calib8.tuning.evidence``."""
        return np.where(self.best == self.labels, 1.0, np.where(self.second == self.labels, -1.0, 0.0))

    def joined(self, other: _Classes) -> _Classes:
        """Both, one after the other."""
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return _Classes(*(np.concatenate(pair) for pair in pairs))

    def labelled(self) -> _Classes:
        """Those with a label."""
        return self.taken(np.flatnonzero(self.labels >= 0))

    def taken(self, rows: npt.NDArray[np.intp]) -> _Classes:
        """Those rows, in this order."""
        return _Classes(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass
class _Seen:
    """What is kept of every run of an int8 model."""

    energies: list[list[tuple[float, float]]] = field(default_factory=list)
    losses: list[F64] = field(default_factory=list)
    classes: list[npt.NDArray[np.intp]] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class Judge:
    """The samples, and what the float model makes of them.

    Attributes:
        float_top1: of the float model, in percent of the labelled samples; None where it cannot be told.
        float_map: its mAP by labels of objects, 0 … 1; None without them.
        labels_digest: SHA-256 over the labels as hexadecimal digits, in the order of the samples; empty where
            there are no labels or no classes.
        label_note: why labels that were found do not count; empty where there are none, or they do.
    """

    def __init__(
        self,
        reference: ir.Model,
        dataset: Dataset,
        promise: Promise,
        threads: int,
        progress: Progress,
        *,
        alike: Dataset | None = None,
        wanted: Wanted | None = None,
        meaning: Meaning | None = None,
        runtime: str = ONNXRUNTIME,
        ranks: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Runs the float model on all samples.

        Args:
            reference: the float model.
            dataset: the samples that judge.
            promise: what they judge.
            threads: no result depends on it.
            progress: see ``Progress``; called while int8 models are judged.
            alike: more samples of the same kind, of which only float margins are looked at.
            wanted: what judges where a task or the user's own judge does; None: neither does.
            meaning: branches of the outputs: of several the worst has to keep a promised SQNR; None: all of
                the outputs count as one.
            runtime: what runs the int8 models, one of ``JUDGES``.
            ranks: name of a sample → its place among them, on which groups of samples depend; where it is
                not there, samples are taken as they come.

        Raises:
            UsageError: model or data lack what the promise is about: class scores, labels.
            Calib8Error: the model cannot be run, or a sample cannot be read.
        """
        self._reference, self._meaning = open_session(reference, threads=threads), meaning
        self.runtime, self._ranks = runtime, ranks
        self._dataset, self._promise, self._threads, self._progress = dataset, promise, threads, progress
        self._labels_asked = dataset.labels_asked or promise.kind == "drop"
        self.label_note = dataset.label_note
        self.float_map: float | None = None
        self._kept: list[Outputs] = []
        self._bytes = 0
        self._evidence = None if wanted is None else self._opened_evidence(wanted)
        self._judging = self._margins = self._looked(dataset)
        known = None if self._judging is None else self._judging.labelled()
        self.float_top1, self.labels_digest = None, ""
        if self._judging is not None and known is not None and len(known.labels):
            self.float_top1 = 100.0 * float(np.mean(known.best == known.labels))
            labels = self._judging.labels.astype("<i8")
            self.labels_digest = hashlib.sha256(labels.tobytes()).hexdigest()
        if self.float_top1 is None:
            self.label_note = self.label_note or dataset.why_no_labels
        self._check(self._judging is not None, self.float_top1 is not None)
        if alike is not None and self._judging is not None and promise.kind in ("agreement", "drop"):
            more = self._classes(alike, lambda _, piece: self._reference.run(piece.inputs))
            self._margins = self._judging if more is None else self._judging.joined(more)

    def _classes(self, dataset: Dataset, run: Callable[[int, Batch], Outputs]) -> _Classes | None:
        """Of all samples; None where the first output is not a row of class scores for each."""
        found, names, classified = list[_Classes](), list[str](), True
        with closing(finite_only(batches(dataset, 1, self._threads))) as pieces:
            for index, piece in enumerate(pieces):
                scores = class_scores(run(index, piece)[0])
                if scores is None or len(scores) != len(piece.names):
                    classified = False
                    continue
                labels = [self._label(piece, row, scores.shape[1]) for row in range(len(scores))]
                found.append(_Classes(margins(scores), *runner_up(scores), np.array(labels, np.intp)))
                names += piece.names
        if not (classified and found):
            return None
        joined = reduce(_Classes.joined, found).taken(self._order(names))
        return replace(joined, labels=np.full_like(joined.labels, -1)) if self.label_note else joined

    def _looked(self, dataset: Dataset) -> _Classes | None:
        """Classes; with a task only a look at samples, for what does not fit it."""
        if self._evidence is None:
            return self._classes(dataset, self._expected)
        names = list[str]()
        with closing(finite_only(batches(dataset, 1, self._threads))) as pieces:
            for index, piece in enumerate(pieces):
                names += piece.names
                if self._evidence.look(piece, self._expected(index, piece)):
                    break
        self._evidence.check_own()
        self.float_map = self._evidence.float_map([names[place] for place in self._order(names)])
        return None

    def _opened_evidence(self, wanted: Wanted) -> TaskEvidence:
        names = [spec.name for spec in self._reference.outputs]
        pictures = None if wanted.labels is None else pictures_of(wanted.labels, self._dataset)
        return TaskEvidence(wanted, names, pictures, self._meaning)

    def _check(self, classified: bool, labelled: bool) -> None:
        kind = self._promise.kind
        if kind in ("agreement", "drop") and not classified:
            problem = "promises something about classes, but the first output is not a row of class scores"
            raise UsageError(parameter(PARAMETERS[kind]), problem, f"Give {parameter('min_sqnr')}")
        if kind == "drop" and not labelled:
            why = f" ({self.label_note})" if self.label_note else ""
            other = f"{parameter('min_agreement')}, which needs none"
            cure = f"Give {parameter('labels')}, or {other}"
            problem = f"needs labels, and no sample that judges has one{why}"
            raise UsageError(parameter(PARAMETERS[kind]), problem, cure)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about labels of a task that are odd, after the first int8 model."""
        return () if self._evidence is None else self._evidence.remarks

    def figures(self, model: ir.Model) -> Figures:
        """Runs a model of the same network on every sample.

        Raises:
            UsageError: the float model gives the same for all samples: every promise would be kept.
            Calib8Error: it cannot be run, a sample cannot be read, or the data lack what the promise needs.
        """
        session, seen, varying = self._opened(model), _Seen(), Varying()
        stream = self._dataset.stream
        own = None if stream is None else OwnStates(stream, session.run)
        counter = SampleCounter("judging", self._dataset.count, self._progress)
        with closing(finite_only(batches(self._dataset, 1, self._threads))) as pieces:
            for index, piece in enumerate(pieces):
                expected = self._expected(index, piece)
                outputs = session.run(piece.inputs if own is None else own.inputs(piece))
                self._add(seen, expected, outputs, piece, session)
                varying.add(expected)
                counter(len(piece.names))
        if varying.never:
            option = parameter(PARAMETERS[self._promise.kind], self._promise.value)
            problem = (
                f"proves nothing: FP32's outputs are the same for all {varying.samples} samples that judge"
            )
            raise UsageError(option, problem, CHECK_OF_UNVARYING)
        return self._told(seen)

    def _opened(self, model: ir.Model) -> Session:
        if self.runtime == NATIVE:
            return open_own(ir.to_proto(model), NATIVE, Settings(self._threads))
        return open_session(model, threads=self._threads)

    def _expected(self, index: int, piece: Batch) -> Outputs:
        if index < len(self._kept):
            return self._kept[index]
        outputs = self._reference.run(piece.inputs)
        if index == len(self._kept) and self._bytes < LARGEST_BYTES:
            self._kept.append(outputs)
            self._bytes += sum(array.nbytes for array in outputs)
        return outputs

    def _add(self, seen: _Seen, expected: Outputs, outputs: Outputs, piece: Batch, session: Session) -> None:
        if other_network(expected, outputs, session):
            raise DataError(session.name, "its outputs have other shapes than the float model's", "Report it")
        seen.energies.append(self._energies(expected, outputs))
        seen.names += piece.names
        if self._evidence is not None:
            seen.records += self._evidence.add(piece, expected, outputs)
        scores, coded = class_scores(expected[0]), class_scores(outputs[0])
        if self._judging is not None and scores is not None and coded is not None:
            seen.losses.append(losses(scores, coded))
            seen.classes.append(runner_up(coded)[0])

    def _energies(self, expected: Outputs, outputs: Outputs) -> list[tuple[float, float]]:
        """Signal and noise of one run: of every branch where there are several, else of all together."""
        pairs = [pair for pair in zip(expected, outputs, strict=True) if pair[0].dtype.kind == "f"]
        left, right = ([pair[place] for pair in pairs] for place in (0, 1))
        if self._meaning is not None and self._meaning.several:
            rows = np.array(energies_of(self._meaning.cut(left), self._meaning.cut(right)))
            found = [(float(signal), float(noise)) for signal, noise in self._meaning.joined(rows)]
        else:
            each = energies_of(left, right)
            found = [(sum(one[0] for one in each), sum(one[1] for one in each))]
        return [(signal, noise if np.isfinite(noise) else np.inf) for signal, noise in found]

    def _label(self, piece: Batch, row: int, classes: int) -> int:
        """The label, −1 where there is none or it does not fit."""
        label = piece.labels[row]
        if label is not None and not 0 <= label < classes:
            problem = f"its label {label} is beyond the {classes} classes of the model"
            if self._labels_asked:
                raise DataError(piece.names[row], problem, "Check the labels")
            self.label_note, label = self.label_note or f"{piece.names[row]}: {problem}", None
        return -1 if label is None else label

    def _order(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """What brings samples into the order of their ranks."""
        return np.argsort([self._ranks.get(name, 0) for name in names], kind="stable")

    def _told(self, seen: _Seen) -> Figures:
        sqnr, bound, branches = self._sqnr(np.array(seen.energies))
        judging, all_margins = self._judging, self._margins
        order, rows = self._order(seen.names), len(seen.names)
        of_task, counted = None, None
        if self._evidence is not None:
            records = [seen.records[place] for place in order]
            of_task, counted = self._evidence.told(records), self._evidence.counted(records)
        if judging is None or all_margins is None:
            return Figures(*(of_task or (sqnr, bound)), None, None, sqnr, rows, branches, counted)
        coded, loss = np.concatenate(seen.classes)[order], np.concatenate(seen.losses)[order]
        agreement = 100.0 * float(np.mean(judging.best == coded))
        change = change_bound(all_margins.margin, np.ones(len(all_margins.margin)), loss)
        told: dict[str, tuple[float, float]] = {
            "sqnr": (sqnr, bound),
            "agreement": (agreement, max(100.0 * (1.0 - change), 0.0)),
        }
        top1, known = None, judging.labels >= 0
        if self.float_top1 is not None:
            top1 = 100.0 * float(np.mean((coded == judging.labels)[known]))
            few = all_margins.labelled()
            told["drop"] = (self.float_top1 - top1, 100.0 * change_bound(few.margin, few.gain, loss))
        samples = int(known.sum()) if self._promise.kind == "drop" else rows
        return Figures(*(of_task or told[self._promise.kind]), agreement, top1, sqnr, samples, branches)

    def _sqnr(self, energies: F64) -> tuple[float, float, dict[str, float]]:
        """The worst figure of the branches, the worst bound, and each figure; a silent branch tells nothing.

        Args:
            energies: float64 [runs, branches, 2].
        """
        told = [place for place in range(energies.shape[1]) if np.any(energies[:, place, 0] > 0.0)] or [0]
        found = {place: ratio_bound_db(energies[:, place, 0], energies[:, place, 1]) for place in told}
        branches = dict[str, float]()
        if self._meaning is not None and self._meaning.several:
            branches = {self._meaning.judged[place].name: sqnr for place, (sqnr, _) in found.items()}
        sqnrs, bounds = zip(*found.values(), strict=True)
        return min(sqnrs), min(bounds), branches
