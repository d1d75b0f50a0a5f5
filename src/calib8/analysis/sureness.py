"""How sure a classifier is of its classes: of inputs as they are fed, and prepared in another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.evaluate import best_classes, class_scores
from calib8.data.channel_order import FEWEST_SAMPLES, clearly_surer
from calib8.data.channel_order import entropies as class_entropies
from calib8.model.runtime import Arrays, Session, open_session

MOST_RUNS: Final = 32
"""More are not asked."""

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]
Labels = Sequence[int | None]


@dataclass(frozen=True)
class Sureness:
    """How sure the model is of every sample, and how many of the labels it gives.

    Attributes:
        entropy: float64 [samples], in nats.
        best: int64 [samples], the class of the highest score.
        of: number of classes.
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
    ) -> None:
        """Takes what is known; nothing is run yet.

        Args:
            model: a float model of one input.
            runs: inputs of single runs as they are fed; those after ``MOST_RUNS`` are left out.
            threads: for ONNX Runtime.
            labels: one per sample of every run; empty where there are none.
            session: the model, where it is open already.
            scores: ``class_scores`` of the first output in these runs, where they have been made already.
        """
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

    def sureness(self, change: Change) -> Sureness | None:
        """With changed inputs, of all runs; None where the first output is no row of class scores.

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
            found.append(class_scores(self._session.run(feeds)[0]))
        return found

    def _told(self, scores: Sequence[Array | None]) -> Sureness | None:
        rows = [array for array in scores if array is not None]
        labels = self._labels[: len(scores)]
        wrong = any(len(array) != len(given) for array, given in zip(rows, labels, strict=False))
        if not rows or len(rows) < len(scores) or wrong:
            return None
        best = np.concatenate([best_classes(array, 1)[:, 0] for array in rows])
        known = [label for given in labels for label in given]
        hits = sum(label == int(first) for label, first in zip(known, best, strict=False))
        return Sureness(
            np.concatenate([class_entropies(array) for array in rows]), best, rows[0].shape[1], hits
        )
