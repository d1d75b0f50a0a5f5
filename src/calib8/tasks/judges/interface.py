"""What every judge of a task is: outputs become an answer, answer and truth a record, records figures.

    outputs of one sample ── read ────► answer     boxes after NMS, a string, a map of classes, an embedding
    FP32's answer ─────────── as_truth ─► truth     what stands in for labels where there are none
    answer, truth ─────────── compare ──► record    small: what is kept of a sample
    records of all samples ── figures ──► {name: value}

Figures do not depend on the order in which samples came: records are taken in the order of the names of
files, or of the digests of arrays, and sums of real numbers are exact until their one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, UsageError
from calib8.number_texts import count
from calib8.parameters import parameter
from calib8.type_texts import a_type

Array: TypeAlias = npt.NDArray[Any]
F64: TypeAlias = npt.NDArray[np.float64]
I64: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

Answer = TypeVar("Answer")
Truth = TypeVar("Truth")
Record = TypeVar("Record")

TASKS: Final = ("detect", "segment", "classify", "embed", "ctc", "keypoints", "speech", "enhance")
"""Names of the tasks."""


FIGURES: Final[dict[str, tuple[str, bool]]] = {
    "recall": ("recall", True),
    "precision": ("precision", True),
    "map50": ("mAP@.5", True),
    "map": ("mAP@[.5:.95]", True),
    "map_small": ("small", True),
    "map_medium": ("medium", True),
    "map_large": ("large", True),
    "map_ratio": ("of FP32's mAP", True),
    "miou": ("mIoU", False),
    "dice": ("Dice", False),
    "pixels": ("pixels", True),
    "cosine": ("cosine", False),
    "least_cosine": ("least cosine", False),
    "verification": ("verification", True),
    "lines": ("equal lines", True),
    "character_error": ("character errors", True),
    "oks": ("OKS", False),
    "found": ("found", True),
    "agreement": ("agreement", True),
    "top1": ("top-1", True),
    "top5": ("top-5", True),
    "decisions": ("decisions", True),
    "missed": ("missed", True),
    "made_up": ("made up", True),
    "sqnr_db": ("signal SQNR dB", False),
    "si_sdr_db": ("SI-SDR dB", False),
    "si_sdr_input_db": ("of the input dB", False),
    "score": ("score", False),
    "least_score": ("least score", False),
}
"""Figure → what it is called, and whether it is a share, 0 … 1, that is shown in per cent."""


def output_of(outputs: Sequence[Array], place: int, name: str, cure: str) -> Array:
    """The output that a judge reads.

    Args:
        outputs: of the model for one sample.
        place: its index; negative ones count from the end.
        name: of the sample, subject of the error.
        cure: what to do where there is none.

    Raises:
        DataError: there is none.
    """
    if -len(outputs) <= place < len(outputs):
        return outputs[place]
    raise DataError(name, f"the model has {count(len(outputs), 'output')}, and no number {place}", cure)


def check_head(judge: object, head: object, kind: type) -> None:
    """Refuses what is no head of a judge.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(head, kind):
        cure = f"Give such as {type(judge).__name__}({kind.__name__}(…))"
        raise UsageError("head", f"is {a_type(head)}, not a {kind.__name__}", cure)


@dataclass(frozen=True)
class TaskFigures:
    """What a judge says of one model; names as in ``FIGURES``.

    Attributes:
        task: one of ``TASKS``, or ``judge`` for a function of the user.
        against_float: with FP32 as the truth; empty for FP32 itself, and where there is no float model.
        against_labels: with labels as the truth; empty without.
        samples: how many were judged.
    """

    task: str
    against_float: Mapping[str, float]
    against_labels: Mapping[str, float]
    samples: int


class Judge(Protocol[Answer, Truth, Record]):
    """How the outputs of one task are compared; see the top of the file."""

    @property
    def task(self) -> str:
        """One of ``TASKS``."""

    def read(self, outputs: Sequence[Array], name: str) -> Answer:
        """What the model says of one sample.

        Args:
            outputs: all outputs of the model for one sample, batch axis of length 1 included.
            name: of the sample, subject of errors.

        Raises:
            DataError: the outputs have not the shapes of the head.
        """

    def as_truth(self, answer: Answer) -> Truth:
        """FP32's answer as what the others are measured by."""

    def compare(self, answer: Answer, truth: Truth) -> Record:
        """What is kept of a sample."""

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Name → value; what cannot be told is left out."""


@dataclass(frozen=True)
class Kept:
    """Records by the name of their sample, or by the digest of what it holds.

    Attributes:
        records: in the order in which they came.
    """

    records: list[tuple[str, Any]]

    def in_order(self) -> list[Any]:
        """The records in the order of these."""
        return [record for _, record in sorted(self.records, key=lambda one: one[0])]


def mean(values: Iterable[float]) -> float | None:
    """Of at least one value, in whatever order they come; None of none."""
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def told(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Those figures that can be told."""
    return {name: value for name, value in figures.items() if value is not None}


def split_samples(outputs: Sequence[Array], names: Sequence[str]) -> list[list[Array]]:
    """The outputs of every sample of a batch, each with a batch axis of length 1.

    Raises:
        DataError: an output has no entry of axis 0 for each sample.
    """
    if len(names) == 1:
        return [list(outputs)]
    wrong = next((array for array in outputs if array.ndim == 0 or len(array) != len(names)), None)
    if wrong is not None:
        problem = f"an output of shape {list(wrong.shape)} cannot be told apart by the {len(names)} samples"
        raise DataError(f"{names[0]} …", problem, f"Run samples one by one: {parameter('batch', 1)}")
    return [[array[row : row + 1] for array in outputs] for row in range(len(names))]
