"""What repairs leave to quantize."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from calib8.repair.candidate import Candidate
from calib8.repair.held_back import Held
from calib8.repair.step import Step
from calib8.table import CalibrationTable


@dataclass(frozen=True)
class Repaired:
    """What is left to quantize.

    Attributes:
        candidate: model, ranges and corrections.
        table: the ranges chosen for the model as it was before repairs.
        steps: all that was tried, in that order; of two searches what the better one tried, and the other
            one as a whole.
        effort: what was asked for, empty where repairs were named.
        held_back: runs that judged.
        shared: those that judged are those that repaired: what a step gained on them proves nothing.
        warning: why the effort tried no repair, and the cure; empty where it did.
        estimated: the float model as it would be loaded where repairs changed what it is meant to compute,
            None where they did not.
        reference: the same, prepared.
        held: the runs that judged; None where none did, or nobody asks any more.
    """

    candidate: Candidate
    table: CalibrationTable
    steps: tuple[Step, ...]
    effort: str
    held_back: int
    shared: bool = False
    warning: str = ""
    estimated: ir.Model | None = None
    reference: ir.Model | None = None
    held: Held | None = None
