"""Signals, such as enhanced frames of sound or masks of their spectra: how near to FP32's they are.

    sqnr_db      10 log10( Σ r² / Σ (r − y)² )               r of FP32, y of INT8, over all frames
    si_sdr_db    10 log10( Σ (k·r)² / Σ (k·r − y)² ),  k = Σ r·y / Σ r²      loudness does not count

With e = y − r the sums of all frames follow from those of each, without a loss of digits:

    k = 1 + Σ r·e / Σ r²        Σ (k·r)² = k²·Σ r²        Σ (k·r − y)² = Σ e² − (Σ r·e)² / Σ r²
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.figures import LARGEST_DB
from calib8.tasks.judges.interface import F64, Array, output_of, told
from calib8.tensors import shape_text


@dataclass(frozen=True)
class SignalRecord:
    """Sums over a frame: Σ r², Σ e², Σ r·e, see the top of the file; not finite where a number is not."""

    signal: float
    noise: float
    common: float


@dataclass(frozen=True)
class SignalJudge:
    """Judges signals.

    Attributes:
        output: index of the output.
    """

    output: int = 0
    task: ClassVar[str] = "enhance"

    def __post_init__(self) -> None:
        """Checks types."""
        fit_fields(self)

    def read(self, outputs: Sequence[Array], name: str) -> F64:
        """The numbers of a frame, float64 [n]; see ``Judge``."""
        array = output_of(outputs, self.output, name, "Give a SignalJudge that says which output it is")
        if array.dtype.kind != "f":
            problem = f"output {self.output} is {array.dtype} {shape_text(array.shape)}, no signal"
            raise DataError(name, problem, "Give a SignalJudge that says which output is one")
        return array.reshape(-1).astype(np.float64)

    def as_truth(self, answer: F64) -> F64:
        """The numbers as they are."""
        return answer

    def compare(self, answer: F64, truth: F64) -> SignalRecord:
        """The sums of a frame.

        Raises:
            DataError: signals of two lengths.
        """
        if answer.shape != truth.shape:
            problem = f"have {len(answer)} and {len(truth)} numbers in a frame"
            raise DataError("signals", problem, "Compare models of one network")
        with np.errstate(invalid="ignore", over="ignore"):
            error = answer - truth
            sums = (truth * truth, error * error, truth * error)
            return SignalRecord(*(float(one.sum()) for one in sums))

    def figures(self, records: Sequence[SignalRecord]) -> dict[str, float]:
        """``sqnr_db`` and ``si_sdr_db``, −120 … 120; none where FP32 is silent in all frames."""
        sums = [[getattr(one, name) for one in records] for name in ("signal", "noise", "common")]
        if not all(math.isfinite(value) for one in sums for value in one):
            return {"sqnr_db": -LARGEST_DB, "si_sdr_db": -LARGEST_DB} if records else {}
        signal, noise, common = map(math.fsum, sums)
        if signal <= 0.0:
            return {}
        k = 1.0 + common / signal
        rest = max(noise - common * common / signal, 0.0)
        return told({"sqnr_db": _decibels(signal, noise), "si_sdr_db": _decibels(k * k * signal, rest)})


def _decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise), −120 … 120."""
    limit = 10.0 ** (LARGEST_DB / 10.0)
    if noise * limit <= signal:
        return LARGEST_DB
    return 10.0 * math.log10(max(signal / noise, 1.0 / limit))


def find_signal(names: Sequence[str], outputs: Sequence[Array]) -> SignalJudge:
    """The only float output.

    Raises:
        UsageError: there is none, or several.
    """
    floats = [index for index, array in enumerate(outputs) if array.dtype.kind == "f"]
    if len(floats) == 1:
        return SignalJudge(floats[0])
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    which = "none is a signal" if not floats else "several may be the signal"
    cure = f"Name the others unused with {parameter('branches')}, or from Python give a SignalJudge"
    raise UsageError(parameter("task", "enhance"), f"outputs {listed}: {which}", cure)
