"""A repaired candidate as one file, so that what took minutes is not done again.

.npz: ``document`` (JSON: layers, steps, ranges), ``model`` where repairs changed the float graph, and the
arrays of the corrections as ``<number of the layer>.weight | weight_scale | bias``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from calib8.autorange.check import Check
from calib8.errors import TableError
from calib8.files import atomic_output
from calib8.model.save import model_bytes
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate
from calib8.repair.result import Repaired
from calib8.repair.step import Step
from calib8.table import CalibrationTable
from calib8.tasks.figures import BranchFigures

_FIELDS: Final = ("weight", "weight_scale", "bias")


def save_repaired(found: Repaired, start: Candidate, path: Path) -> None:
    """Writes the file.

    Args:
        found: what repairs left.
        start: what they were given; its model is not stored again where it is still the same.
        path: of the file.

    Raises:
        OutputError: it cannot be written.
    """
    corrections = found.candidate.corrections
    arrays: dict[str, npt.NDArray[Any]] = {}
    for index, correction in enumerate(corrections.values()):
        for name in _FIELDS:
            if (array := getattr(correction, name)) is not None:
                arrays[f"{index}.{name}"] = array
    if found.candidate.model is not start.model:
        arrays["model"] = np.frombuffer(model_bytes(found.candidate.model), np.uint8)
    document = {
        "layers": list(corrections),
        "spots": sorted(found.candidate.spots),
        "steps": [asdict(step) for step in found.steps],
        "effort": found.effort,
        "held_back": found.held_back,
        "shared": found.shared,
        "warning": found.warning,
        "ranges": found.candidate.table.to_json(),
        "table": found.table.to_json(),
    }
    text = json.dumps(document).encode()
    with atomic_output(path) as temporary, temporary.open("wb") as file:
        np.savez(file, document=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]


def load_repaired(start: Candidate, path: Path) -> Repaired:
    """Reads what ``save_repaired`` wrote for the same ``start``.

    Raises:
        TableError: the file is broken.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = dict(content)
        document = json.loads(arrays["document"].tobytes())
        corrections = {
            layer: LayerCorrection(**{name: arrays.get(f"{index}.{name}") for name in _FIELDS})
            for index, layer in enumerate(document["layers"])
        }
        model = start.model
        if "model" in arrays:
            model = ir.from_proto(onnx.load_model_from_string(arrays["model"].tobytes()))
        ranges, table = (CalibrationTable.from_json(document[key]) for key in ("ranges", "table"))
        spots = frozenset(map(str, document["spots"]))
        candidate = replace(start, model=model, table=ranges, corrections=corrections, spots=spots)
        steps = tuple(_step(step) for step in document["steps"])
        return Repaired(
            candidate, table, steps, str(document["effort"]), int(document["held_back"]),
            bool(document["shared"]), str(document["warning"]),
        )  # fmt: skip
    except Exception as error:  # a damaged archive: NumPy, zipfile and protobuf raise a dozen unrelated types
        raise TableError(str(path), f"is broken ({error})", "Remove it and tune again") from error


def _step(fields: dict[str, Any]) -> Step:
    return Step(
        **{
            **fields,
            "names": tuple(fields["names"]),
            "before": _check(fields["before"]),
            "after": _check(fields["after"]),
            "layers": tuple(fields["layers"]),
            "notes": tuple(fields["notes"]),
        }
    )


def _check(fields: dict[str, Any]) -> Check:
    branches = tuple(BranchFigures(**branch) for branch in fields["branches"])
    return Check(**{**fields, "branches": branches})
