"""How sure a classifier is of its classes, or a detector of what it finds: of inputs as they are fed, and
prepared in another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.evaluate import best_classes, class_scores
from calib8.data.channel_order import FEWEST_SAMPLES, clearly_surer, doubts
from calib8.data.channel_order import entropies as class_entropies
from calib8.model.runtime import Arrays, Session, open_session
from calib8.tasks.branches import Meaning

MOST_RUNS: Final = 32
"""More are not asked."""

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]
Labels = Sequence[int | None]


@dataclass(frozen=True)
class Sureness:
    """How sure the model is of every sample, and how many of the labels it gives.

    Attributes:
        entropy: float64 [samples], in nats; of a detector what stands for it (``calib8.data.channel_order``).
        best: int64 [samples], the class of the highest score; 0 of a detector.
        of: number of classes; 0 of a detector.
        hits: labelled samples whose best class is the label.
    """

    entropy: npt.NDArray[np.float64]
    best: npt.NDArray[np.int64]
    of: int
    hits: int

    @property
    def classes(self) -> int:
        """How many classes are the best one of some sample."""
        return len(np.unique(self.best))


class Witness:
    """A float model that says how sure it is; it is opened and run no more often than that needs."""

    def __init__(
        self,
        model: ir.Model,
        runs: Sequence[Arrays],
        threads: int,
        *,
        labels: Sequence[Labels] = (),
        session: Session | None = None,
        scores: Sequence[Array | None] = (),
        meaning: Meaning | None = None,
    ) -> None:
        """Takes what is known; nothing is run yet.

        Args:
            model: a float model of one input.
            runs: inputs of single runs as they are fed; those after ``MOST_RUNS`` are left out.
            threads: for ONNX Runtime.
            labels: one per sample of every run; empty where there are none.
            session: the model, where it is open already.
            scores: ``class_scores`` of the first output in these runs, where they have been made already.
            meaning: of the outputs, to ask a detector; None: classifiers alone are asked.
        """
        self._meaning = meaning
        self.model, self.threads, self.runs = model, threads, runs[:MOST_RUNS]
        self._labels, self._session = labels[:MOST_RUNS], session
        self._fed = list(scores[:MOST_RUNS])

    def surer(self, change: Change) -> tuple[Sureness, Sureness] | None:
        """How sure as fed and with changed inputs, where that is clearly better and gives no fewer labels.

        The first samples are asked alone: where they say no, the others are not run.

        Raises:
            ModelError, DataError: the model cannot be run.
        """
        scores = self._run(change, 0, FEWEST_SAMPLES)
        before, other = self._fed_until(FEWEST_SAMPLES), self._told(scores)
        if before is None or other is None or other.entropy.mean() >= before.entropy.mean():
            return None
        fed = self._fed_until(len(self.runs))
        other = self._told([*scores, *self._run(change, FEWEST_SAMPLES, len(self.runs))])
        if fed is None or other is None or not clearly_surer(fed.entropy, other.entropy):
            return None
        return (fed, other) if other.hits >= fed.hits else None

    def as_fed(self) -> Sureness | None:
        """With the inputs as they are, of all runs; None where the outputs tell nothing.

        Raises:
            ModelError, DataError: the model cannot be run.
        """
        return self._fed_until(len(self.runs))

    def sureness(self, change: Change) -> Sureness | None:
        """With changed inputs, of all runs; None where the first output is not a row of class scores.

        Raises:
            ModelError, DataError: the model cannot be run.
        """
        return self._told(self._run(change, 0, len(self.runs)))

    def _fed_until(self, count: int) -> Sureness | None:
        self._fed += self._run(lambda values: values, len(self._fed), count)
        return self._told(self._fed[:count])

    def _run(self, change: Change, start: int, stop: int) -> list[Array | None]:
        found = []
        for run in self.runs[start:stop]:
            if self._session is None:
                self._session = open_session(self.model, threads=self.threads)
            feeds = {name: np.ascontiguousarray(change(array)) for name, array in run.items()}
            outputs = self._session.run(feeds)
            classes = class_scores(outputs[0])
            detector = classes is None and self._meaning is not None
            found.append(_place_scores(outputs, self._meaning) if detector else classes)
        return found

    def _told(self, scores: Sequence[Array | None]) -> Sureness | None:
        rows = [array for array in scores if array is not None]
        labels = self._labels[: len(scores)]
        wrong = any(len(array) != len(given) for array, given in zip(rows, labels, strict=False))
        if not rows or len(rows) < len(scores) or wrong:
            return None
        if any(array.ndim == 3 for array in rows):
            told = np.concatenate([doubts(array) for array in rows])
            return Sureness(told, np.zeros(len(told), np.int64), 0, 0)
        best = np.concatenate([best_classes(array, 1)[:, 0] for array in rows])
        known = [label for given in labels for label in given]
        hits = sum(label == int(first) for label, first in zip(known, best, strict=False))
        return Sureness(
            np.concatenate([class_entropies(array) for array in rows]), best, rows[0].shape[1], hits
        )


def _place_scores(outputs: Sequence[Array], meaning: Meaning | None) -> Array | None:
    """The best score of every place, [samples, places, 1]; None where the outputs are no detector's."""
    branch = None if meaning is None else meaning.kind("objectness") or meaning.kind("scores")
    if meaning is None or meaning.task != "detect" or branch is None or branch.chosen:
        return None
    parts = branch.of([array for array in outputs if array.dtype.kind == "f"])
    if any(part.ndim not in (3, 4, 5) for part in parts):
        return None
    found = []
    for part, piece in zip(parts, branch.pieces, strict=True):
        axis = piece.axis if piece.axis is not None else 1 if part.ndim == 4 else 2
        found.append(part.max(axis=axis).reshape(len(part), -1))
    return np.concatenate(found, axis=1)[:, :, None]
