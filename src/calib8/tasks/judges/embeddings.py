"""Embeddings: do they point where FP32's do, and are the same ones told apart?

    cosine        a·b / (|a|·|b|) of a sample's embedding a and FP32's b; its mean and its least
    verification  with labels: two samples are the same one where their cosine is at least the threshold;
                  ½·(share of the pairs of one label that are + share of the other pairs that are not)

Without a threshold, the one of −1, −0.9995 … 1 that is best for the model itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.interface import F64, I64, Array, mean, output_of, told
from calib8.tensors import shape_text

_STEPS: Final = 4000
"""Thresholds that are looked at."""


@dataclass(frozen=True)
class EmbeddingRecord:
    """What is kept of a sample.

    Attributes:
        cosine: with FP32's embedding; None where that is not the truth, or both are zero.
        direction: float64 [d], of length 1, or 0 where the embedding is 0 or not finite.
        label: class number, −1 without one.
    """

    cosine: float | None
    direction: F64
    label: int


@dataclass(frozen=True)
class EmbeddingJudge:
    """Judges embeddings.

    Attributes:
        output: index of the output.
        threshold: cosine from which two samples are the same one; None: the best one.
    """

    output: int = 0
    threshold: float | None = None
    task: ClassVar[str] = "embed"

    def __post_init__(self) -> None:
        """Checks types."""
        fit_fields(self)

    def read(self, outputs: Sequence[Array], name: str) -> F64:
        """Direction float64 [d]; see ``Judge``."""
        array = output_of(outputs, self.output, name, "Give the index of the embedding")
        values = np.asarray(array, np.float64).reshape(-1)
        length = float(np.sqrt(np.sum(values * values))) if np.all(np.isfinite(values)) else 0.0
        return values / length if length > 0.0 else np.zeros_like(values)

    def as_truth(self, answer: F64) -> F64 | int:
        """The direction as it is."""
        return answer

    def compare(self, answer: F64, truth: F64 | int) -> EmbeddingRecord:
        """Compares with FP32's direction, or notes the label.

        Raises:
            DataError: embeddings of two lengths.
        """
        if isinstance(truth, int):
            return EmbeddingRecord(None, answer, truth)
        if answer.shape != truth.shape:
            problem = f"have {len(answer)} and {len(truth)} numbers"
            raise DataError("embeddings", problem, "Compare models of one network")
        cosine = float(np.sum(answer * truth)) if np.any(truth) or np.any(answer) else None
        return EmbeddingRecord(cosine, answer, -1)

    def figures(self, records: Sequence[EmbeddingRecord]) -> dict[str, float]:
        """``cosine``, ``least_cosine``, and with labels ``verification``."""
        cosines = [one.cosine for one in records if one.cosine is not None]
        labelled = [one for one in records if one.label >= 0]
        found: dict[str, float | None] = {
            "cosine": mean(cosines),
            "least_cosine": min(cosines, default=None),
            "verification": self._verified(labelled) if len(labelled) > 1 else None,
        }
        return told(found)

    def _verified(self, records: Sequence[EmbeddingRecord]) -> float | None:
        """Balanced share of the pairs that are told right; None without pairs of both kinds."""
        table = np.stack([one.direction for one in records])
        labels = np.array([one.label for one in records])
        edges = np.linspace(-1.0, 1.0, _STEPS + 1) if self.threshold is None else np.array([self.threshold])
        same, other = np.zeros(len(edges) + 1, np.int64), np.zeros(len(edges) + 1, np.int64)
        for row in range(len(table) - 1):
            place = _places(table[row + 1 :] @ table[row], edges)
            alike = labels[row + 1 :] == labels[row]
            same += np.bincount(place[alike], minlength=len(same))
            other += np.bincount(place[~alike], minlength=len(same))
        if not same.sum() or not other.sum():
            return None
        missed, kept = np.cumsum(same)[:-1] / same.sum(), np.cumsum(other)[:-1] / other.sum()
        return float(np.max(0.5 * (1.0 - missed + kept)))


def _places(cosines: F64, edges: F64) -> I64:
    """How many thresholds each cosine reaches."""
    return np.asarray(np.searchsorted(edges, cosines, side="right"), np.int64)


def find_embedding(names: Sequence[str], outputs: Sequence[Array]) -> EmbeddingJudge:
    """The first output that is one row of numbers.

    Raises:
        UsageError: there is none.
    """
    for index, array in enumerate(outputs):
        if array.dtype.kind == "f" and array.size >= 2 and array.size == max(array.shape):
            return EmbeddingJudge(index)
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    cure = "From Python give an EmbeddingJudge with the index of the output, or a judge of your own"
    raise UsageError(
        parameter("task", "embed"), f"outputs {listed}: none is one row of numbers per sample", cure
    )
