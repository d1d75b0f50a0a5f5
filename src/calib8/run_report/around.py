"""What surrounds a result: its files, the command to go on with, the times of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from calib8.analysis.model_pair import Model
from calib8.run_report.told import Figure


@dataclass(frozen=True, eq=False)
class Around:
    """What a result itself does not know.

    Attributes:
        fp32: the float model; None where the result or nobody knows it.
        int8: the quantized model's file.
        next: the command to go on with; empty where there is none.
        cure: the command where something is lost; empty where there is none.
        bytes: sizes of both files; None where they are not known.
        timings: stage → seconds.
        environment: versions, processor.
    """

    fp32: Model | None = None
    int8: Path | None = None
    next: str = ""
    bytes: tuple[int | None, int | None] = (None, None)
    timings: tuple[tuple[str, float], ...] = ()
    environment: tuple[Figure, ...] = ()
    cure: str = ""


NOTHING_AROUND: Final = Around()
