"""What a benchmark feeds: a model, inputs that are like its own, and how much there is to multiply."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.engine.plan_file import ANY_MODEL, claims_to_be_plan, is_plan_file
from calib8.errors import UsageError
from calib8.files import check_model_file
from calib8.model.made_up import made_up_input
from calib8.parameters import entry, flag_of, parameter
from calib8.program.magic import is_program_file
from calib8.session import InferenceSession
from calib8.tensors import MOST_ELEMENTS, TensorSpec, is_too_large
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.magic import claims_to_be_tmfile

if TYPE_CHECKING:  # plans need neither models nor what reads them
    import onnx_ir as ir

Array = npt.NDArray[Any]
Limits = Mapping[str, tuple[float, float]]
Shapes = Mapping[str, Sequence[int]]
Form = Literal[
    "float", "quantized", "program", "plan",
    "TFLite model", "float TFLite model", "Tengine model", "float Tengine model",
]  # fmt: skip

SEED: Final = 0

MOST_FED_BYTES: Final = 1 << 29
"""Of all inputs together: 800 images of 3×224×224 in float32. Refused before any value is drawn."""

CODES: Final = {"uint8": (0, 255), "int8": (-128, 127)}
"""Smallest and largest code."""


@dataclass(frozen=True, eq=False)
class Workload:
    """One model with the inputs that every runtime gets.

    Attributes:
        path: of the file.
        form: a float ONNX model, a quantized one, a program of calib8, a plan compiled of one, a quantized
            TFLite model, or one of float activations, a quantized model of Tengine, or a float one.
        feeds: input name → array.
        batch: samples per run, the size of axis 0 of the first input.
        macs: multiply-accumulates per run, None where a size is unknown.
    """

    path: str
    form: Form
    feeds: Mapping[str, Array]
    batch: int
    macs: int | None


def open_workload(
    path: str | os.PathLike[str], batch: int | None = None, shapes: Shapes | None = None
) -> Workload:
    """Reads a model and makes its inputs.

    Args:
        path: a float or quantized .onnx, .tflite or .tmfile, a saved program or a plan.
        batch: size of axis 0 of all inputs where it is free; None for 1.
        shapes: input name → sizes, for other free axes.

    Raises:
        ModelError: the file cannot be read.
        UsageError: the batch or a shape does not fit or is too large, or an axis is left free.
    """
    name = os.fspath(path)
    check_model_file(name, ANY_MODEL)
    if claims_to_be_plan(name):
        session = InferenceSession(name, state={})
        feeds = _feeds(name, session.inputs, batch, shapes or {}, {})
        return Workload(name, "plan", feeds, _batch(feeds), sum(session.plan.step_macs))
    if is_program_file(name):
        from calib8.program import costs

        session = InferenceSession(name, runtime="reference", state={})
        feeds = _feeds(name, session.inputs, batch, shapes or {}, {})
        counts = [costs.macs(session.program, step) for step in session.program.instructions]
        return Workload(name, "program", feeds, _batch(feeds), _total(counts))
    if claims_to_be_tflite(name):
        return _of_tflite(name, batch, shapes or {})
    if claims_to_be_tmfile(name):
        return _of_tmfile(name, batch, shapes or {})
    return _of_model(name, batch, shapes or {})


def _of_tflite(name: str, batch: int | None, shapes: Shapes) -> Workload:
    from calib8.analysis import tflite_inspect
    from calib8.tflite.kinds import kind
    from calib8.tflite.ports import port_specs
    from calib8.tflite.read import read_tflite
    from calib8.tflite.resize import frees_more_than_batch, known_shapes, resized

    graph = read_tflite(name)
    inputs = port_specs(graph, graph.inputs)
    feeds = _feeds(name, inputs, batch, {**known_shapes(graph, batch), **shapes}, {})
    samples = _batch(feeds)
    if any(frees_more_than_batch(graph.tensors[place]) for place in graph.inputs):
        fed = {port: array.shape for port, array in feeds.items()}
        macs = tflite_inspect.macs(resized(graph, fed, name))
    else:
        stored = inputs[0].shape[0] if inputs and inputs[0].shape else 1
        macs = tflite_inspect.macs(graph) * (samples if stored is None else 1)
    form: Form = "TFLite model" if kind(graph) == "quantized" else "float TFLite model"
    return Workload(name, form, feeds, samples, macs)


def _of_tmfile(name: str, batch: int | None, shapes: Shapes) -> Workload:
    from calib8.analysis import tmfile_inspect
    from calib8.tmfile.kinds import kind
    from calib8.tmfile.nchw import as_nchw
    from calib8.tmfile.ports import port_specs
    from calib8.tmfile.read import read_tmfile

    graph = read_tmfile(name)
    form: Form = "Tengine model" if kind(graph) == "quantized" else "float Tengine model"
    inputs = port_specs(as_nchw(graph), graph.input_tensors())
    feeds = _feeds(name, inputs, batch, shapes, {})
    return Workload(name, form, feeds, _batch(feeds), tmfile_inspect.macs(graph))


def _of_model(name: str, batch: int | None, shapes: Shapes) -> Workload:
    from calib8.model.graph import graph_inputs
    from calib8.model.load import load_model
    from calib8.model.work import macs
    from calib8.quantization.qdq import holds_codes, nodes, readable_copy

    model = readable_copy(load_model(name))
    feeds = _feeds(name, graph_inputs(model), batch, shapes, _limits(model))
    _fix_shapes(model, feeds)
    form: Form = "quantized" if holds_codes(model) else "float"
    return Workload(name, form, feeds, _batch(feeds), _total(map(macs, nodes(model))))


def _fix_shapes(model: ir.Model, feeds: Mapping[str, Array]) -> None:
    """Gives the inputs the sizes of the arrays and infers all shapes again."""
    import onnx_ir as ir

    from calib8.model.infer_shapes import infer_shapes

    for value in model.graph.inputs:
        if value.name is not None and value.name in feeds:
            value.shape = ir.Shape(feeds[value.name].shape)
    for node in model.graph:
        for value in node.outputs:
            value.shape = None
    infer_shapes(model)


def _total(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def _batch(feeds: Mapping[str, Array]) -> int:
    first = next(iter(feeds.values()), np.empty(()))
    return first.shape[0] if first.ndim else 1


def _feeds(
    name: str, specs: Sequence[TensorSpec], batch: int | None, shapes: Shapes, limits: Limits
) -> dict[str, Array]:
    unknown = shapes.keys() - {spec.name for spec in specs}
    if unknown:
        takes = ", ".join(map(str, specs))
        raise UsageError(f"shape of '{min(unknown)}'", f"{name} has no such input", f"It takes {takes}")
    rng = np.random.default_rng(SEED)
    sized = [replace(spec, shape=_sizes(name, spec, batch, shapes)) for spec in specs]
    cure = f"Give a smaller {parameter('batch')} or {parameter('shapes')}"
    for spec in sized:
        if is_too_large(spec.shape or ()):
            raise UsageError(name, f"its input '{spec}' has more than {MOST_ELEMENTS:,} elements", cure)
    needed = sum(_elements(spec) * spec.dtype.itemsize for spec in sized)
    if needed > MOST_FED_BYTES:
        takes = ", ".join(map(str, sized))
        problem = f"its inputs '{takes}' take {needed:,} bytes, a benchmark feeds {MOST_FED_BYTES:,} at most"
        raise UsageError(name, problem, cure)
    try:
        return {spec.name: _values(spec, limits, rng) for spec in sized}
    except MemoryError as error:
        takes = ", ".join(map(str, sized))
        raise UsageError(name, f"its inputs '{takes}' do not fit in memory", cure) from error


def _elements(spec: TensorSpec) -> int:
    return math.prod(size for size in spec.shape or () if isinstance(size, int))


def _sizes(name: str, spec: TensorSpec, batch: int | None, shapes: Shapes) -> tuple[int, ...]:
    """Sizes of an input without a free axis."""
    given = shapes.get(spec.name)
    if given is not None:
        if spec.shape is not None and not _fits(given, spec.shape):
            text = "×".join(map(str, given))
            raise UsageError(f"shape of '{spec.name}'", f"{text} does not fit {name}", f"It takes {spec}")
        if batch is not None and batch != given[0]:
            problem = f"{parameter('shapes')} gives '{spec.name}' {given[0]} samples"
            raise UsageError(parameter("batch", batch), problem, "Give one of the two, or the same number")
        return tuple(given)
    if spec.shape == ():
        return ()
    first, *others = (None, None) if spec.shape is None else spec.shape
    fixed = [size for size in others if isinstance(size, int)]
    if len(fixed) < len(others):
        cure = f"Give its sizes with {entry('shapes', spec.name, '…')}"
        raise UsageError(name, f"its input '{spec}' has free axes besides the batch", cure)
    if isinstance(first, int):
        if batch is not None and batch != first:
            problem = f"{name} takes {spec}"
            raise UsageError(parameter("batch", batch), problem, _cure_of_batch(name, spec, batch))
        return (first, *fixed)
    return (batch or 1, *fixed)


def _cure_of_batch(name: str, spec: TensorSpec, batch: int) -> str:
    if not (is_plan_file(name) or is_program_file(name)):
        return f"Leave {parameter('batch')} out, or free the axis in the model"
    assert spec.shape is not None
    sizes = ",".join(map(str, (batch, *spec.shape[1:])))
    command = "calib8 compile" if is_plan_file(name) else f"calib8 inspect {flag_of('program')}"
    again = f"{command} {flag_of('shapes')} {spec.name}={sizes}"
    return f"Leave {parameter('batch')} out, or make it again with {again}"


def _fits(sizes: Sequence[int], takes: Sequence[int | str | None]) -> bool:
    return len(sizes) == len(takes) and all(
        not isinstance(fixed, int) or size == fixed for size, fixed in zip(sizes, takes, strict=True)
    )


def _values(spec: TensorSpec, limits: Limits, rng: np.random.Generator) -> Array:
    """Random numbers: evenly over what the codes can hold, or normal ones where nothing tells the range."""
    assert spec.shape is not None
    shape = [size for size in spec.shape if isinstance(size, int)]
    if spec.dtype.name in CODES:
        codes: type[np.uint8 | np.int8] = np.uint8 if spec.dtype == np.uint8 else np.int8
        return rng.integers(*CODES[spec.dtype.name], shape, codes, endpoint=True)
    if spec.dtype.kind != "f":
        return made_up_input(spec)
    low, high = limits.get(spec.name, (0.0, 0.0))
    made: type[np.float32 | np.float64] = np.float64 if spec.dtype == np.float64 else np.float32
    values = rng.random(shape, made) if low < high else rng.standard_normal(shape, made)
    if low < high:
        values *= high - low
        values += low
    return values.astype(spec.dtype, copy=False)


def _limits(model: ir.Model) -> Limits:
    """Smallest and largest value that an input's quantizer can tell apart from others."""
    import onnx_ir as ir

    from calib8.ops.questions import quantizes
    from calib8.quantization.qdq import codes_of

    found = {}
    for value in model.graph.inputs:
        for use in value.uses():
            if quantizes(use.node) and value.name is not None:
                codes = codes_of(use.node)
                if codes.per_tensor and codes.scale is not None and codes.zero_point is not None:
                    low, high = CODES["int8" if codes.dtype == ir.DataType.INT8 else "uint8"]
                    scale, zero = codes.scale.item(), codes.zero_point.item()
                    found[value.name] = (scale * (low - zero), scale * (high - zero))
    return found
