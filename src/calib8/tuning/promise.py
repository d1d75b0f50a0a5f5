"""What the tuned model has to keep, and until when it may be looked for.

agreement   share of samples whose best class is the float model's, in percent; at least
drop        top-1 of the float model less that of the int8 one, in percentage points; at most
sqnr        10 log10( Σ r² / Σ (r − y)² ) over all float outputs, in dB; at least

of a task, see calib8.tasks.judges, all of them 0 … 1 and at least (``si_sdr``: dB, ``score``: any number):

map_ratio   mean average precision over that of the float model; labels, else its boxes are the truth
recall      share of the float model's boxes that are found
precision   share of the boxes found that the float model has as well; 0 where none is found
iou         mean IoU of masks with the float model's
cosine      mean cosine of embeddings with the float model's
lines       share of samples with the float model's line of text
oks         mean similarity of keypoints with the float model's
decisions   share of frames with the float model's decision
si_sdr      scale-invariant ratio of the float model's signal to the difference from it, in dB
score       mean of what a function of the user says
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypedDict

from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.requests import Request

Kind: TypeAlias = Literal[
    "agreement", "drop", "sqnr", "map_ratio", "recall", "precision", "iou", "cosine", "lines", "oks",
    "decisions", "si_sdr", "score",
]  # fmt: skip

PARAMETERS: Final[dict[Kind, str]] = {
    "agreement": "min_agreement",
    "drop": "max_drop",
    "sqnr": "min_sqnr",
    "map_ratio": "min_map_ratio",
    "recall": "min_recall",
    "precision": "min_precision",
    "iou": "min_iou",
    "cosine": "min_cosine",
    "lines": "min_lines",
    "oks": "min_oks",
    "decisions": "min_decisions",
    "si_sdr": "min_si_sdr",
    "score": "min_score",
}

_EXAMPLES: Final = (("min_agreement", 99.5), ("max_drop", 0.1), ("min_sqnr", 25))

TASK_OF: Final[dict[Kind, str]] = {
    "map_ratio": "detect",
    "recall": "detect",
    "precision": "detect",
    "iou": "segment",
    "cosine": "embed",
    "lines": "ctc",
    "oks": "keypoints",
    "decisions": "speech",
    "si_sdr": "enhance",
}
"""Which task a promise is about."""

HIGHEST_DB: Final = 120.0
"""As good as equal; figures end here."""

_PART: Final = (0.0, 1.0, "", "Give a share of 1, such as 0.99")

_LIMITS: Final[dict[Kind, tuple[float, float, str, str]]] = {
    "agreement": (0.0, 100.0, "%", "Give a share of the samples, such as 99.5"),
    "drop": (0.0, 100.0, "points", "Give the percentage points that may be lost, such as 0.1"),
    "sqnr": (0.0, HIGHEST_DB, "dB", "Give decibels, such as 25"),
    "map_ratio": _PART,
    "recall": _PART,
    "precision": _PART,
    "iou": _PART,
    "cosine": _PART,
    "lines": _PART,
    "oks": _PART,
    "decisions": _PART,
    "si_sdr": (0.0, HIGHEST_DB, "dB", "Give decibels, such as 25"),
    "score": (-math.inf, math.inf, "", "Give a number"),
}

_NOUNS: Final[dict[Kind, str]] = {
    "agreement": "agreement",
    "drop": "drop",
    "sqnr": "SQNR",
    "map_ratio": "share of FP32's mAP",
    "recall": "recall",
    "precision": "precision",
    "iou": "mIoU",
    "cosine": "cosine",
    "lines": "equal lines",
    "oks": "OKS",
    "decisions": "equal decisions",
    "si_sdr": "SI-SDR",
    "score": "score",
}

_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Promise:
    """One figure, and where it has to stay.

    Attributes:
        kind: which figure, see the top of the file.
        value: in percent, percentage points or dB; of a task 0 … 1.
    """

    kind: Kind
    value: float

    def kept(self, figure: float) -> bool:
        """Whether a figure is on the right side."""
        return figure <= self.value if self.kind == "drop" else figure >= self.value

    def shortfall(self, figure: float) -> float:
        """How far a figure is on the wrong side, negative where it is on the right one; in its unit."""
        return figure - self.value if self.kind == "drop" else self.value - figure

    @property
    def noun(self) -> str:
        """Name of the figure."""
        return _NOUNS[self.kind]

    @property
    def unit(self) -> str:
        """Unit of the figure; empty of a task."""
        return _LIMITS[self.kind][2]

    @property
    def by_task(self) -> bool:
        """Whether a judge of a task, or the user's own, tells the figure."""
        return self.kind not in ("agreement", "drop", "sqnr")

    def shown(self, figure: float) -> str:
        """A figure with its unit, such as ``99.50 %``."""
        return f"{figure:.2f} {self.unit}" if self.unit else f"{figure:.4f}"

    @property
    def text(self) -> str:
        """Such as ``agreement of at least 99.5 %``."""
        if self.kind == "drop":
            return f"top-1 at most {self.value:g} points below the float model's"
        return f"{self.noun} of at least {self.value:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Promises(Request):
    """The one promise that is given; the others are None.

    Attributes:
        max_drop: top-1 at most so many percentage points below the float model's; needs labels.
        min_agreement: the best class is the float model's in so many percent of the samples.
        min_sqnr: SQNR of the outputs in dB, of the worst branch where they have several.
        min_map_ratio, min_recall, min_precision: of boxes, 0 … 1: mAP over that of the float model, by labels
            or else by the float model's boxes; share of the float model's boxes that are found; share of the
            boxes found that the float model has as well.
        min_iou, min_cosine, min_lines, min_oks: of masks, embeddings, lines of text and keypoints, 0 … 1, all
            beside the float model.
        min_decisions: of decisions per frame, 0 … 1, beside the float model.
        min_si_sdr: SI-SDR in dB of a signal beside the float model's.
        min_score: mean of the user's own judge.

    Raises:
        UsageError: none, more than one, a value that no model can have, or an agreement of more than 0 and at
            most 1 %, which is a share and not in per cent.
    """

    max_drop: float | None = None
    min_agreement: float | None = None
    min_sqnr: float | None = None
    min_map_ratio: float | None = None
    min_recall: float | None = None
    min_precision: float | None = None
    min_iou: float | None = None
    min_cosine: float | None = None
    min_lines: float | None = None
    min_oks: float | None = None
    min_decisions: float | None = None
    min_si_sdr: float | None = None
    min_score: float | None = None

    def __post_init__(self) -> None:
        """Checks that there is one."""
        super().__post_init__()
        self.promise()

    def promise(self) -> Promise:
        """The one that is given."""
        values = ((kind, getattr(self, name)) for kind, name in PARAMETERS.items())
        found = [Promise(kind, value) for kind, value in values if value is not None]
        if not found:
            some = (parameter(name, value) for name, value in _EXAMPLES)
            cure = f"Give {', '.join(some)}, or a figure of the task"
            raise UsageError("tune", "nothing is promised", cure)
        if len(found) > 1:
            both = " and ".join(parameter(PARAMETERS[one.kind]) for one in found[:2])
            raise UsageError(both, "are two promises", "Give the one that matters")
        [promise] = found
        _check_value(promise)
        return promise


class PromiseWords(TypedDict, total=False):
    """The fields of ``Promises`` as keywords."""

    max_drop: float | None
    min_agreement: float | None
    min_sqnr: float | None
    min_map_ratio: float | None
    min_recall: float | None
    min_precision: float | None
    min_iou: float | None
    min_cosine: float | None
    min_lines: float | None
    min_oks: float | None
    min_decisions: float | None
    min_si_sdr: float | None
    min_score: float | None


def _check_value(promise: Promise) -> None:
    low, high, unit, cure = _LIMITS[promise.kind]
    subject = parameter(PARAMETERS[promise.kind], promise.value)
    if promise.by_task and 1.0 < promise.value <= 100.0 and high == 1.0:
        cure = f"Give {promise.value / 100.0:g} if you mean per cent"
    if not low <= promise.value <= high or math.isinf(promise.value):  # NaN is not either
        problem = f"no model can have that: it must be in {low:g} … {high:g} {unit}".rstrip()
        raise UsageError(subject, problem, cure)
    nothing = high if promise.kind == "drop" else low
    if promise.value == nothing and promise.kind not in ("sqnr", "si_sdr"):
        raise UsageError(subject, "promises nothing: any model will do", cure)
    if promise.kind == "agreement" and 0.0 < promise.value <= 1.0:
        problem = f"would be {promise.value:g} %: an agreement is given in per cent"
        cure = f"Give {100.0 * promise.value:g} if you mean that share of the samples"
        raise UsageError(subject, problem, cure)


def seconds_of(budget: str | float | None) -> float:
    """Seconds of a budget: a number of them, or ``90s``, ``10m``, ``1.5h``; None is as long as it takes.

    Raises:
        UsageError: no such text, or not above 0.
    """
    if budget is None:
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)\s*", str(budget).lower())
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if seconds <= 0.0:
        raise UsageError(parameter("budget", budget), "is not a time", "Give one such as 90s, 10m or 1h")
    return seconds
