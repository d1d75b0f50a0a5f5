"""Candidates for repairs from small networks: prepared, calibrated, with the runs they were calibrated on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from calib8.autorange.check import Expected, check_model, float_outputs
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


def scaled(model: onnx.ModelProto, layer: str, index: int, place: object, factor: float) -> None:
    """Multiplies a part of a constant of a layer."""
    name = next(node.input[index] for node in model.graph.node if node.name == layer)
    tensor = next(one for one in model.graph.initializer if one.name == name)
    values = numpy_helper.to_array(tensor).copy()
    values[place] *= np.float32(factor)
    tensor.CopyFrom(numpy_helper.from_array(values, name))


def quality(candidate: Candidate, runs: Sequence[Arrays]) -> float:
    """SQNR of the outputs in dB, without anything of the flow."""
    expected = Expected.of(float_outputs(candidate.model, runs, 1), None)
    return check_model("", candidate.coded.model, runs, expected, 1).sqnr_db
