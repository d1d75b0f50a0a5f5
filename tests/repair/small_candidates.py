"""Candidates for repairs from small networks: prepared, calibrated, with the runs they were calibrated on."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from calib8.model.runtime import Arrays
from calib8.pipeline import calibrate
from calib8.repair.candidate import Candidate, RepairData
from calib8.scheme import QuantScheme, target_scheme


def candidate_of(
    model: onnx.ModelProto,
    runs: Sequence[Arrays],
    *,
    method: str = "mse",
    scheme: QuantScheme | None = None,
    **options: object,
) -> tuple[Candidate, RepairData]:
    """A candidate whose ranges were chosen on the runs; ``options`` are those of ``calibrate``."""
    found = calibrate(model, [dict(feeds) for feeds in runs], method=method, threads=1, **options)  # type: ignore[arg-type]
    target = scheme or target_scheme("onnxruntime")
    return Candidate(found.prepared.model, found.table, target), RepairData(tuple(runs), threads=1)
