"""Statistics of batch normalizations as text: what a repaired int8 model tells of its float function.

    {output of the normalization: {"mean": [μ_c …], "variance": [σ²_c …]}}      nine digits: float32 exactly

An int8 model made with statistics that are not those of the file computes another function than the file;
with them put into the file it is the same one again.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import ModelError
from calib8.json_texts import parse_json
from calib8.model.graph import Names, constant
from calib8.ops.questions import normalizes
from calib8.passes.fold_affine import batch_norm_affine

BATCH_NORMS: Final = "batch_norms"
"""Key of the metadata that hold them."""

_PLACES: Final = {"mean": 3, "variance": 4}
"""Inputs of a BatchNormalization."""


def statistics_text(model: ir.Model) -> str:
    """The statistics of all batch normalizations with constant parameters, as JSON."""
    return json.dumps(
        {
            node.outputs[0].name: {key: _digits(node.inputs[index]) for key, index in _PLACES.items()}
            for node in model.graph
            if normalizes(node) and batch_norm_affine(node) is not None
        }
    )


def _digits(value: ir.Value | None) -> list[float]:
    return [float(f"{one:.9g}") for one in np.asarray(constant(value), np.float32)]


def put_statistics(model: ir.Model, text: str, source: str) -> int:
    """Gives a model, in place, the statistics that ``statistics_text`` wrote.

    Args:
        model: as it was loaded.
        text: the statistics.
        source: name of the model that has stored them.

    Returns:
        How many batch normalizations got statistics.

    Raises:
        ModelError: the text is broken, or tells of normalizations that the model does not have.
    """
    found = _read(text, source)
    names = Names(model.graph)
    for node in model.graph:
        name = node.outputs[0].name or ""
        if not normalizes(node) or name not in found:
            continue
        statistics = found.pop(name)
        for key, index in _PLACES.items():
            old = constant(node.inputs[index])
            if old is None or old.shape != statistics[key].shape:
                raise _another(source, name)
            node.replace_input_with(index, names.constant(f"{name}/{key}", statistics[key].astype(old.dtype)))
    if found:
        raise _another(source, next(iter(found)))
    return len(_read(text, source))


def _read(text: str, source: str) -> dict[str, dict[str, npt.NDArray[Any]]]:
    try:
        found = {
            str(name): {key: np.asarray(statistics[key], np.float32) for key in _PLACES}
            for name, statistics in parse_json(text).items()
        }
        sound = all(
            array.ndim == 1 and bool(np.all(np.isfinite(array)))
            for one in found.values()
            for array in one.values()
        ) and all(bool(np.all(one["variance"] >= 0.0)) for one in found.values())
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        sound = False
    if not sound:
        raise ModelError(source, f"its metadata '{BATCH_NORMS}' are broken", "Quantize it again")
    return found


def _another(source: str, name: str) -> ModelError:
    problem = f"has statistics of a batch normalization '{name}' that the float model does not have"
    return ModelError(source, problem, "Give the float model that it was made from")
