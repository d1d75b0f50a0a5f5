"""Inputs that a user fixes: they become constants and are no inputs any more.

    x ──► If(sr == 16000) ──► y          with {"sr": 16000}          x ──► If(constant) ──► y
    sr ──┘

What depends on them alone is computed when the model is prepared, and a branch that they choose takes the
place of its node (``calib8.passes.branches``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.graph import tensor_spec
from calib8.model.load import ModelSource, load_model
from calib8.model.metadata import stored_names, write_metadata
from calib8.parameters import parameter
from calib8.tensors import TensorSpec, shape_text

Fixed: TypeAlias = Mapping[str, Any]
"""Input name → a number, or an array of them."""

FIXED: Final = "fixed"
"""Entry of the metadata: names of the inputs that were fixed, so that a second step does not miss them."""


def with_fixed(source: ModelSource, values: Fixed | None) -> ModelSource:
    """The model with some inputs fixed; itself where none is.

    Args:
        source: what ``load_model`` takes; a graph that it gave is not changed.
        values: input name → its value, a number or an array of the input's type and shape. A number fills an
            input of known sizes; a free axis of such an input counts as 1.

    Raises:
        UsageError: no such input, a value that its type does not hold or of another shape, or no input left.
        Calib8Error: what ``load_model`` raises.
    """
    if not values:
        return source
    model = load_model(source)
    done = stored_names(model, FIXED)
    wanted = {name: value for name, value in values.items() if name not in done}
    if not wanted:
        return model
    arrays = {name: _value(model, name, value) for name, value in wanted.items()}
    fixed = model.clone()
    fixed.meta.update(model.meta)
    for name, array in arrays.items():
        _fix(fixed.graph, name, array)
    if not fixed.graph.inputs:
        problem = "leaves no input of the model: it would always give the same"
        raise UsageError(parameter("fix"), problem, "Leave one input free")
    write_metadata(fixed, {FIXED: json.dumps([*done, *arrays])})
    return fixed


def _value(model: ir.Model, name: str, value: object) -> npt.NDArray[Any]:
    """The value as an array that fits the input."""
    subject = f"{parameter('fix')} of '{name}'"
    specs = {one.name or "": tensor_spec(one) for one in model.graph.inputs}
    if name not in specs:
        raise UsageError(subject, "is not an input", f"Inputs are {', '.join(specs)}")
    return _fitting(specs[name], value, subject)


def _fitting(spec: TensorSpec, value: object, subject: str) -> npt.NDArray[Any]:
    """The value with type and shape of an input.

    Raises:
        UsageError: it does not fit; ``subject`` is what to call it.
    """
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal length, tensors of other tools
        given = np.asarray(None)
    if given.dtype.kind not in "biuf":
        raise UsageError(subject, f"{value!r:.60} is no number", f"Give a number or an array, {spec}")
    sizes = spec.shape or ()
    if given.ndim == 0 and sizes:
        given = np.full([size if isinstance(size, int) else 1 for size in sizes], given)
    pairs = zip(sizes, given.shape, strict=False)
    free = spec.shape is None
    if not free and (given.ndim != len(sizes) or any(isinstance(a, int) and a != b for a, b in pairs)):
        raise UsageError(subject, f"has the shape {shape_text(given.shape)}", f"Give an array, {spec}")
    with np.errstate(over="ignore", invalid="ignore"):
        array = given.astype(spec.dtype)
        held = np.array_equal(array.astype(given.dtype), given, equal_nan=given.dtype.kind == "f")
    if not held and not (spec.dtype.kind == "f" and np.all(np.isfinite(array))):
        raise UsageError(subject, f"{value!r:.60} is no value of {spec.dtype}", f"Give an array, {spec}")
    return array


def _fix(graph: ir.Graph, name: str, array: npt.NDArray[Any]) -> None:
    """The input becomes a constant of the same name."""
    value = next(one for one in graph.inputs if one.name == name)
    graph.inputs.remove(value)
    value.const_value = ir.tensor(array, name=name)
    value.shape, value.dtype = ir.Shape(array.shape), value.const_value.dtype
    graph.register_initializer(value)
