"""Decisions per frame, such as whether somebody speaks: how many are FP32's.

decision    number > threshold; where a frame has several numbers, such as one per kind of sound, each is one
decisions   share of the frames with the truth's decision; of several numbers the least of their shares
missed      share of the decisions "yes" of the truth that are "no"
made_up     share of the decisions "no" of the truth that are "yes"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.interface import Array, output_of, told
from calib8.tensors import shape_text

Heard = tuple[bool, ...]
"""A decision for each number of a frame."""

PROBABLE: Final = 0.5
"""The threshold of probabilities; numbers before their sigmoid have 0."""


@dataclass(frozen=True)
class DecisionRecord:
    """What is kept of a frame.

    Attributes:
        answer: the decisions of the model.
        truth: those that should have been made.
    """

    answer: Heard
    truth: Heard


@dataclass(frozen=True)
class SpeechJudge:
    """Judges decisions.

    Attributes:
        output: index of the output.
        threshold: above it a number says yes.
    """

    output: int = 0
    threshold: float = PROBABLE
    task: ClassVar[str] = "speech"

    def __post_init__(self) -> None:
        """Checks types."""
        fit_fields(self)

    def read(self, outputs: Sequence[Array], name: str) -> Heard:
        """The decisions; NaN says no. See ``Judge``."""
        array = output_of(outputs, self.output, name, "Give a SpeechJudge that says which output it is")
        if array.dtype.kind != "f" or not array.size:
            problem = f"output {self.output} is {array.dtype} {shape_text(array.shape)}, no numbers per frame"
            raise DataError(name, problem, "Give a SpeechJudge that says which output has some")
        return tuple(bool(value > self.threshold) for value in array.reshape(-1))

    def as_truth(self, answer: Heard) -> Heard:
        """The decisions as they are."""
        return answer

    def compare(self, answer: Heard, truth: Heard) -> DecisionRecord:
        """Both.

        Raises:
            DataError: as many decisions as the truth has are not made.
        """
        if len(answer) != len(truth):
            problem = f"has {len(answer)} decisions per frame, and the truth has {len(truth)}"
            raise DataError("speech", problem, "Compare models of one network, with a label for each frame")
        return DecisionRecord(answer, truth)

    def figures(self, records: Sequence[DecisionRecord]) -> dict[str, float]:
        """``decisions``, ``missed``, ``made_up``."""
        if not records or any(len(one.truth) != len(records[0].truth) for one in records):
            return {}
        answers, truths = (np.array([getattr(one, side) for one in records]) for side in ("answer", "truth"))
        yes, no = int(truths.sum()), int((~truths).sum())
        return told({
            "decisions": float((answers == truths).sum(axis=0).min()) / len(records),
            "missed": int((truths & ~answers).sum()) / yes if yes else None,
            "made_up": int((answers & ~truths).sum()) / no if no else None,
        })  # fmt: skip


def find_speech(
    names: Sequence[str], outputs: Sequence[Array], threshold: float | None = None
) -> SpeechJudge:
    """The float output with the fewest numbers.

    Args:
        names, outputs: see ``calib8.tasks.judges.find.find_judge``.
        threshold: of the decisions; None: ``PROBABLE`` for numbers between 0 and 1, 0 for others.

    Raises:
        UsageError: there is none.
    """
    sizes = {index: array.size for index, array in enumerate(outputs) if array.dtype.kind == "f"}
    if not sizes:
        listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
        cure = "From Python give a judge of your own"
        raise UsageError(parameter("task", "speech"), f"outputs {listed}: none has numbers", cure)
    place = min(sizes, key=lambda index: (sizes[index], index))
    array = outputs[place]
    usual = PROBABLE if array.min() >= 0.0 and array.max() <= 1.0 else 0.0
    return SpeechJudge(place, usual if threshold is None else threshold)
