"""The whole flow on one page: load → prepare → collect → choose ranges → quantize."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

import onnx
import onnx_ir as ir

from calib8.calibration.choose import choose_table, range_method
from calib8.calibration.collect import collect
from calib8.calibration.statistics import Statistics
from calib8.data.batches import batches
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset, DataSource, open_dataset
from calib8.errors import UnsupportedModelError, UsageError
from calib8.formats.bind import Binding, bind, without_range
from calib8.formats.table_file import TableFile
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.made_up import made_up_input
from calib8.model.metadata import write_metadata
from calib8.model.runtime import Arrays
from calib8.model.save import save_model
from calib8.passes.place import Placement, calibration_tensors, place
from calib8.passes.prepare import PreparedModel, prepare
from calib8.passes.resolve_ranges import resolve_ranges
from calib8.progress import Progress, SampleCounter, check_positive, silent
from calib8.qparams import QParams
from calib8.quantization.insert import insert_quantizers, keep_layers_float
from calib8.scheme import WEIGHTED_OPS, QuantScheme, activation_type, target_scheme
from calib8.table import CalibrationTable

DEFAULT_METHOD: Final = "mse"

Model = str | os.PathLike[str] | onnx.ModelProto


@dataclass(frozen=True)
class Calibration:
    """What ``calibrate`` found.

    Attributes:
        prepared: the float graph that the table belongs to.
        statistics: the counts; other methods can be tried on them without the data.
        table: the chosen ranges.
        dataset: the data as it was read (``skipped`` names the bad images).
    """

    prepared: PreparedModel
    statistics: Statistics
    table: CalibrationTable
    dataset: Dataset


@dataclass(frozen=True)
class Quantization:
    """What ``quantize`` made.

    Attributes:
        model: the QDQ model.
        placement: which nodes are quantized, and why the others are not.
        qparams: tensor name → scale and zero point.
        table: the ranges behind them.
        prepared: the float graph it was made from, with its largest difference to the original.
        calibration: how the table came about, None if it was given.
        caution: what to know of this activation type in this target, empty if there is nothing.
        binding: which names of a given table were used, None if there were data.
    """

    model: ir.Model
    placement: Placement
    qparams: dict[str, QParams]
    table: CalibrationTable
    prepared: PreparedModel
    calibration: Calibration | None
    caution: str
    binding: Binding | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the QDQ model.

        Raises:
            OutputError: the file cannot be written; an old file stays intact.
        """
        save_model(self.model, path)


def calibrate(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preprocess | None = None,
    labels: str | os.PathLike[str] | None = None,
    method: str = DEFAULT_METHOD,
    activations: str = "uint8",
    percent: float | None = None,
    samples: int | None = None,
    batch: int = 1,
    threads: int = 2,
    skip_bad: bool = False,
    keep_float: Sequence[str] = (),
    progress: Progress = silent,
) -> Calibration:
    """Runs the float model over the data once and chooses a range for every activation.

    Args:
        model: path or ModelProto of the float model.
        data: images or arrays, see ``calib8.data.samples.open_dataset``.
        preprocess: how images become inputs; not needed for arrays.
        labels: the list to check an image folder against; calibration itself needs none.
        method: ``minmax``, ``percentile``, ``mse`` or ``entropy``.
        activations: ``uint8``, ``int8`` or ``int8-symmetric``: the type that the search assumes.
        percent: for ``percentile``: share of the values to keep, 50 … 100; None for its default.
        samples: at most so many.
        batch: samples per run; the result does not depend on it.
        threads: for decoding, the float model and counting; the result does not depend on it.
        skip_bad: pass over images that cannot be read.
        keep_float: names of nodes that will stay float: what only they need is not calibrated.
        progress: see ``Progress``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    range_method(method, percent)
    spec = activation_type(activations)
    check_positive("--batch", batch)
    check_positive("--threads", threads)
    original = load_model(model)
    dataset = open_dataset(
        data, graph_inputs(original), preprocess, labels=labels, samples=samples, skip_bad=skip_bad
    )
    prepared = prepare(original, first_sample(dataset))
    tensors = tensors_to_calibrate(prepared.model, frozenset(keep_float))
    seen = SampleCounter("calibrating", dataset.count, progress)
    feeds = (piece.inputs for piece in batches(dataset, batch, threads))
    statistics = collect(prepared.model, tensors, feeds, threads=threads, on_batch=seen)
    table = choose_table(statistics, spec, method, percent)
    return Calibration(prepared, statistics, table, dataset)


def quantize(
    model: Model,
    data: DataSource | None = None,
    *,
    table: CalibrationTable | TableFile | None = None,
    partial: bool = False,
    target: str = "onnxruntime",
    activations: str | None = None,
    preprocess: Preprocess | None = None,
    labels: str | os.PathLike[str] | None = None,
    method: str = DEFAULT_METHOD,
    percent: float | None = None,
    samples: int | None = None,
    batch: int = 1,
    threads: int = 2,
    skip_bad: bool = False,
    keep_float: Sequence[str] = (),
    progress: Progress = silent,
) -> Quantization:
    """Makes the INT8 model, from data or from a table.

    Args:
        model: path or ModelProto of the float model.
        data: calibration data; needed unless ``table`` is given.
        table: ranges of an earlier calibration of the same model, or a table of another tool, as
            ``calib8.formats.tables.read_table`` reads it.
        partial: with such a table: pass over names that the model does not have, and leave nodes in float
            whose tensors the table lacks.
        target: a key of ``calib8.scheme.TARGETS``.
        activations: activation type, None for the target's own.
        keep_float: names of nodes to keep in float.
        preprocess, labels, method, percent, samples, batch, threads, skip_bad, progress: see ``calibrate``.

    Raises:
        Calib8Error: what can be wrong with model, data, table or options, in one line each.
    """
    scheme = target_scheme(target)
    scheme = scheme if activations is None else scheme.with_activations(activations)
    calibration = None
    if table is None:
        if data is None:
            raise UsageError("quantize", "neither data nor a table was given", "Give --data or --table")
        calibration = calibrate(
            model,
            data,
            preprocess=preprocess,
            labels=labels,
            method=method,
            activations=scheme.activation_name,
            percent=percent,
            samples=samples,
            batch=batch,
            threads=threads,
            skip_bad=skip_bad,
            keep_float=keep_float,
            progress=progress,
        )
        prepared, table = calibration.prepared, calibration.table
        preprocess = calibration.dataset.preprocess
        return _quantize_prepared(prepared, table, scheme, frozenset(keep_float), preprocess, calibration)
    original, prepared = prepare_for_table(model, data, preprocess)
    file = TableFile("calib8", table) if isinstance(table, CalibrationTable) else table
    zero_points = not scheme.activations.symmetric
    binding = bind(file, prepared.model, original, partial=partial, zero_points=zero_points)
    floats = frozenset(keep_float)
    unranged = without_range(prepared.model, scheme, floats, binding, partial=partial)
    result = _quantize_prepared(prepared, binding.table, scheme, floats, preprocess, None, unranged)
    return replace(result, binding=binding)


def _quantize_prepared(
    prepared: PreparedModel,
    table: CalibrationTable,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    preprocess: Preprocess | None,
    calibration: Calibration | None,
    unranged: Mapping[str, str] = MappingProxyType({}),
) -> Quantization:
    """``unranged``: node that stays float for want of a range → reason."""
    _check_node_names(prepared.model, keep_float)
    overflowing = dict(unranged)
    while True:
        floats = keep_float | frozenset(overflowing)
        placement = place(prepared.model, scheme, floats)
        ranges = resolve_ranges(prepared.model, placement, table, scheme)
        result = insert_quantizers(prepared.model, placement, ranges, scheme)
        if not result.float_layers:
            break
        overflowing |= result.float_layers
    entries = {"version": version("calib8"), "target": scheme.name, "activations": scheme.activation_name}
    float_layers = {d.node for d in placement.decisions if d.op_type in WEIGHTED_OPS and not d.quantized}
    entries["keep_float"] = json.dumps(sorted(floats | float_layers))
    if preprocess is not None:
        entries["preprocess"] = preprocess.to_json()
    write_metadata(result.model, entries)
    placement = keep_layers_float(placement, overflowing)
    caution = scheme.cautions.get(scheme.activation_name, "")
    return Quantization(result.model, placement, result.qparams, table, prepared, calibration, caution)


def tensors_to_calibrate(model: ir.Model, keep_float: frozenset[str]) -> tuple[str, ...]:
    """The tensors that any target would quantize.

    Raises:
        UsageError: ``keep_float`` names no node of the graph.
        UnsupportedModelError: the model has no layer with constant weights that could be quantized.
    """
    _check_node_names(model, keep_float)
    layers = [d for d in place(model, QuantScheme("any"), keep_float).decisions if d.op_type in WEIGHTED_OPS]
    if not any(layer.quantized for layer in layers):
        problem = "has no convolution or matrix product with constant weights to quantize"
        if layers:
            problem += f" ({layers[0].op_type} '{layers[0].node}': {layers[0].reason})"
        raise UnsupportedModelError(
            model.graph.name or "model", problem, "Give a float32 convolutional network"
        )
    return calibration_tensors(model, keep_float)


def _check_node_names(model: ir.Model, names: frozenset[str]) -> None:
    unknown = names - {node.name for node in model.graph}
    if unknown:
        name = min(unknown)
        raise UsageError(
            "--keep-float", f"the prepared graph has no node '{name}'", "See `calib8 inspect` for the names"
        )


def first_sample(dataset: Dataset) -> Arrays:
    """Inputs of the first sample that can be read, of the first several for a model with a fixed batch."""
    with closing(batches(dataset, 1, 1)) as pieces:
        return next(pieces).inputs


def prepare_for_table(
    model: Model, data: DataSource | None = None, preprocess: Preprocess | None = None
) -> tuple[ir.Model, PreparedModel]:
    """The model as it was loaded, and prepared: what a table is put onto.

    Without data the two are compared on made-up inputs.

    Raises:
        Calib8Error: what can be wrong with model or data.
    """
    original = load_model(model)
    specs = graph_inputs(original)
    if data is None:
        sample = {spec.name: made_up_input(spec) for spec in specs}
    else:
        sample = dict(first_sample(open_dataset(data, specs, preprocess)))
    return original, prepare(original, sample)
