"""Repairs as they were asked for: by effort (``by_effort``) or by name (``by_name``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx_ir as ir

from calib8.autorange.samples import ChosenSamples
from calib8.progress import Progress, silent
from calib8.repair.by_effort import repair_by_effort
from calib8.repair.by_name import repair_by_name
from calib8.repair.candidate import Candidate
from calib8.repair.result import Repaired
from calib8.repair.wanted import Repairs
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning


def repaired(
    candidate: Candidate,
    samples: ChosenSamples | None,
    wanted: Repairs,
    *,
    tables: Mapping[str, CalibrationTable] = MappingProxyType({}),
    original: ir.Model | None = None,
    meaning: Meaning | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> Repaired:
    """Carries out what is wanted; the arguments are those of ``repair_by_effort`` and ``repair_by_name``.

    Raises:
        Calib8Error: a model cannot be run.
    """
    if wanted.effort and samples is not None:
        return repair_by_effort(
            candidate,
            samples,
            wanted.effort,
            tables=tables,
            meaning=meaning,
            mixed=wanted.mixed,
            threads=threads,
            progress=progress,
        )
    return repair_by_name(
        candidate,
        samples,
        wanted.names,
        original=original,
        meaning=meaning,
        threads=threads,
        progress=progress,
    )
