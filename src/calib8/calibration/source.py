"""What a calibration starts from: a prepared model, the tensors to look at, and data or saved statistics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

import onnx_ir as ir

from calib8.calibration.statistics import Statistics
from calib8.calibration.streaming import opened_for
from calib8.data.batches import batches
from calib8.data.differing import preprocess_difference
from calib8.data.fit import fit_preprocess, image_shapes
from calib8.data.framing import FRAMING
from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.data.reading import NOTHING_READ, Reading
from calib8.data.samples import Dataset
from calib8.data.shards import Shard, one_shard
from calib8.errors import TableError, UnsupportedModelError, UsageError
from calib8.model.fix_inputs import with_fixed
from calib8.model.fix_sizes import fits, fix_sizes
from calib8.model.graph import graph_inputs, model_hash
from calib8.model.load import ModelSource, load_model, naming_file
from calib8.model.made_up import made_up_input
from calib8.model.metadata import write_metadata
from calib8.model.runtime import Arrays
from calib8.model.states import are_told, states_of, write_states
from calib8.ops.groups import RECURRENT, WEIGHTED_OPS
from calib8.parameters import parameter
from calib8.passes.branches import telling_of_branches
from calib8.passes.decisions import NodeDecision
from calib8.passes.place import calibration_tensors, place
from calib8.passes.prepare import PreparedModel, prepare, refuse_unsupported
from calib8.scheme import QuantScheme
from calib8.tensors import TensorSpec, checked_sizes

Shapes = Mapping[str, Sequence[int]]
Model = ModelSource


@dataclass(frozen=True)
class Source:
    """What is calibrated, and with what.

    Attributes:
        prepared: the float graph.
        tensors: names of the tensors to look at.
        dataset: the samples, None where there are statistics instead.
        sizes: of one sample, for the inputs of which model and preprocessing say all of them.
    """

    prepared: PreparedModel
    tensors: tuple[str, ...]
    dataset: Dataset | None
    sizes: dict[str, tuple[int, ...]]


def open_data(
    model: Model, reading: Reading, *, keep_float: Sequence[str] = (), shard: Shard | None = None
) -> tuple[Source, Dataset]:
    """The model, prepared, and its data.

    Raises:
        Calib8Error: what can be wrong with model, data or options.
    """
    original = load_model(with_fixed(model, reading.fix))
    with naming_file(original):
        refuse_unsupported(original)
    found = opened_for(original, reading, elsewhere=True)
    if found.elsewhere is not None and reading.labels is not None:
        problem = "are not for data that other machines calibrate with"
        raise UsageError(parameter("labels"), problem, "Leave them out")
    part = one_shard(found, shard)
    with telling_of_branches(original):
        sample = first_sample(part)
    with naming_file(original):
        prepared = prepare(original, sample)
        if part.carried or are_told(original, reading.state):  # data with states of their own are no streams
            write_states(prepared.model, states_of(original, reading.state))
        if part.framing is not None:
            write_metadata(prepared.model, {FRAMING: part.framing.to_json()})
        tensors = tensors_to_calibrate(prepared.model, prepared.nodes_called(keep_float))
    return Source(prepared, tensors, part, _known_sizes(original, part.preprocess)), part


def open_statistics(
    model: Model,
    statistics: Statistics | str | os.PathLike[str],
    reading: Reading,
    *,
    keep_float: Sequence[str] = (),
) -> tuple[Source, Statistics]:
    """The model, prepared, and what of the statistics is needed for it.

    Raises:
        UsageError: the preprocessing is not that of the statistics, which is known unless arrays went in.
        Calib8Error: what can be wrong with the model.
        TableError: the statistics cannot be read, or were made for another model or for other tensors.
    """
    name = "statistics" if isinstance(statistics, Statistics) else str(statistics)
    found = statistics if isinstance(statistics, Statistics) else Statistics.load(statistics)
    stored = None if found.preprocess is None else Preprocess.from_json(found.preprocess, name)
    original, prepared = prepare_for_table(model, replace(reading, preprocess=stored or reading.preprocess))
    if found.model_hash != model_hash(prepared.model):
        raise TableError(name, "were made for another model", "Gather statistics of this model")
    with naming_file(original):
        tensors = tensors_to_calibrate(prepared.model, prepared.nodes_called(keep_float))
    missing = [tensor for tensor in tensors if tensor not in found.tensors]
    if missing:
        problem = f"lack {len(missing)} of {len(tensors)} tensors, such as '{missing[0]}'"
        raise TableError(
            name, problem, f"Gather them with the same {parameter('keep_float')}, or with less of it"
        )
    unknown = sorted(found.tensors.keys() - set(calibration_tensors(prepared.model)))
    if unknown:
        problem = f"hold '{unknown[0]}', which carries no codes in this model"
        raise TableError(name, problem, "Gather statistics of this model with this version of calib8")
    _check_preprocess(found, reading.preprocess, prepared.model, name)
    needed = replace(found, tensors={tensor: found.tensors[tensor] for tensor in tensors})
    return Source(prepared, tensors, None, _known_sizes(original, stored)), needed


def _known_sizes(original: ir.Model, p: Preprocess | None) -> dict[str, tuple[int, ...]]:
    """Sizes that hold for every sample, whatever the data are and however they are cut; a free batch is 1."""
    specs = graph_inputs(original)
    images, known = image_shapes(specs, p), {}
    for spec in specs:
        stated = images.get(spec.name, spec.shape) or ()
        sizes = tuple(
            1 if axis == 0 and not isinstance(size, int) else size for axis, size in enumerate(stated)
        )
        numbers = tuple(size for size in sizes if isinstance(size, int))
        if spec.shape is not None and len(numbers) == len(sizes):
            known[spec.name] = numbers
    return known


def _check_preprocess(found: Statistics, wanted: Preprocess | str | None, model: ir.Model, name: str) -> None:
    if wanted is None or found.preprocess is None:
        return
    fitted = fit_preprocess(wanted, graph_inputs(model), "preprocessing").to_json()
    if fitted != found.preprocess:
        difference = preprocess_difference(fitted, found.preprocess)
        cure = "Leave it out, theirs is known; or gather statistics with this one"
        raise UsageError("preprocessing", f"is not that of {name} ({difference})", cure)


def prepare_for_table(
    model: Model,
    reading: Reading = NOTHING_READ,
    *,
    known: Shapes = MappingProxyType({}),
    invent: bool = False,
) -> tuple[ir.Model, PreparedModel]:
    """The model as it was loaded, and prepared: what a table is put onto.

    Without data the two are compared on made-up inputs.

    Args:
        model: see ``calib8.quantize``.
        reading: what is read; without data its shapes are those of the inputs that the model leaves open.
        known: sizes of an earlier run, for what the shapes do not say; what does not fit is passed over.
        invent: sizes that nothing says are made up, where no size matters.

    Raises:
        UnsupportedModelError: an axis other than the batch is free, and nothing says how long it is.
        Calib8Error: what can be wrong with model or data.
    """
    original = load_model(with_fixed(model, reading.fix))
    with naming_file(original):
        refuse_unsupported(original)
    specs, made_up = graph_inputs(original), reading.data is None
    carried = made_up  # nothing tells of other data
    if made_up:
        images = image_shapes(specs, known_preprocess(reading.preprocess))
        with naming_file(original):
            sizes = {**images, **_fitting(known, specs), **checked_sizes(reading.shapes)}
            invented = {spec.name: made_up_input(spec).shape for spec in specs if spec.shape and invent}
            sample = _made_up(original, {**invented, **sizes})
    else:
        data = opened_for(original, replace(reading, labels=None))
        with telling_of_branches(original):
            sample, carried = dict(first_sample(data)), data.carried
    with naming_file(original):
        prepared = prepare(original, sample, made_up=made_up)
        if carried or are_told(original, reading.state):
            write_states(prepared.model, states_of(original, reading.state))
    return original, prepared


def _made_up(original: ir.Model, shapes: Shapes) -> Arrays:
    """Inputs of one sample."""
    sized = original.clone()
    fix_sizes(sized, shapes)
    return {spec.name: made_up_input(spec) for spec in graph_inputs(sized)}


def _fitting(known: Shapes, specs: Sequence[TensorSpec]) -> dict[str, tuple[int, ...]]:
    """The sizes that the inputs may have: a table is put onto other models too."""
    return {spec.name: tuple(known[spec.name]) for spec in specs if fits(known.get(spec.name), spec.shape)}


def tensors_to_calibrate(model: ir.Model, keep_float: frozenset[str]) -> tuple[str, ...]:
    """The tensors that any target would quantize; there may be none of a model whose layers are recurrent.

    Raises:
        UnsupportedModelError: the model has no layer with constant weights that could be quantized.
    """
    layers = _layers(model, QuantScheme("any", recurrent="hybrid"), keep_float)
    if not any(layer.quantized for layer in layers):
        problem = "has no convolution, matrix product or recurrent layer with constant weights to quantize"
        if layers:
            problem += f" ({_told(layers[0])})"
        raise UnsupportedModelError(
            model.graph.name or "model", problem, "Give a float32 network of such layers"
        )
    return calibration_tensors(model, keep_float)


def refuse_recurrent_alone(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> None:
    """Refuses a model whose layers are all recurrent where the target has these in float.

    Args:
        model: prepared.
        scheme: the target.
        keep_float: names of nodes that stay float.

    Raises:
        UnsupportedModelError: nothing of the model would become codes.
    """
    layers = _layers(model, scheme, keep_float)
    recurrent = [layer for layer in layers if layer.op_type in RECURRENT]
    if not recurrent or any(layer.quantized for layer in layers):
        return
    problem = f"has no layer that the target '{scheme.name}' computes from codes ({_told(recurrent[0])})"
    cure = f"Use {parameter('target', 'calib8')}, whose recurrent layers have int8 weights"
    if scheme.name == "calib8":
        cure = f"Leave out {parameter('recurrent')}" if scheme.recurrent == "integer" else "Leave it in float"
    else:
        forms = [form for form in scheme.takes_recurrent if form not in ("float", scheme.recurrent)]
        for form in forms:
            if any(layer.quantized for layer in _layers(model, scheme.with_recurrent(form), keep_float)):
                cure += f", or {parameter('recurrent', form)}"
    raise UnsupportedModelError(model.graph.name or "model", problem, cure)


def _layers(model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str]) -> list[NodeDecision]:
    """What is decided of the nodes with weights."""
    decisions = place(model, scheme, keep_float).decisions
    return [decision for decision in decisions if decision.op_type in WEIGHTED_OPS | RECURRENT]


def _told(layer: NodeDecision) -> str:
    return f"{layer.op_type} '{layer.node}': {layer.reason}"


def first_sample(dataset: Dataset) -> Arrays:
    """Inputs of the first sample that can be read, of the first several for a model with a fixed batch."""
    with closing(batches(dataset, 1, 1)) as pieces:
        return next(pieces).inputs
