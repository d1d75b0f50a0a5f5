"""A PyTorch module made ready for training with its quantization simulated."""

from __future__ import annotations

import copy
import difflib
import operator
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, fx, nn

from calib8.calibration.source import tensors_to_calibrate
from calib8.errors import TableError, UnsupportedModelError, UsageError
from calib8.model.graph import graph_inputs, model_hash
from calib8.modules.example_inputs import checked_inputs, given_tensors
from calib8.modules.export import export_traced
from calib8.modules.modes import OWNER
from calib8.modules.tracing import input_names, trace, unwrapped
from calib8.modules.wide_linear import split_wide_linears
from calib8.parameters import one_of
from calib8.passes.place import place
from calib8.passes.prepare import PreparedModel, refuse_unsupported
from calib8.passes.prepare import prepare as prepare_graph
from calib8.passes.resolve_ranges import FIXED_LIMITS
from calib8.scheme import QuantScheme, target_scheme
from calib8.table import GIVEN, CalibrationTable
from calib8.training.build import build
from calib8.training.call_form import call_form
from calib8.training.plan import plan_simulation
from calib8.training.simulated_model import TAKEN, SimulatedModel, folded_layers, keep_norms_frozen
from calib8.training.simulation import BATCH_NORMS, RANGES, PlacedGraph, Recipe, Simulation

DEFAULT_TARGET = "onnxruntime"


class TableWarning(UserWarning):
    """A table has the tensors of a model, and was made for another state of it."""


def prepare(
    model: nn.Module,
    example_inputs: Tensor | Sequence[Tensor],
    scheme: str | QuantScheme = "default",
    table: CalibrationTable | None = None,
    *,
    activations: str | None = None,
    weights: str | None = None,
    keep_float: Sequence[str] = (),
    batch_norm: str = "corrected",
    ranges: str | None = None,
    decay: float = 0.99,
    delay: int = 0,
) -> SimulatedModel:
    """Copies a module and simulates in the copy what its int8 form will round.

    The places are those that ``calib8.quantize`` would quantize: the module is traced and exported, and the
    placement of the exported graph carried back.

    Args:
        model: float32, on any device; not changed. Its training mode is kept.
        example_inputs: what it is called with, a tensor or a tuple of tensors; only shapes matter.
        scheme: name of a target, ``default`` for ONNX Runtime, or a scheme of your own.
        table: ranges to start from: those that ``calib8.calibrate`` found for this module.
        activations: ``uint8``, ``int8`` or ``int8-symmetric``; None: what the target prefers.
        weights: ``per-channel`` or ``per-tensor``; None: as the scheme says.
        keep_float: what stays float: names of modules (all that they hold) or of nodes of the traced graph.
        batch_norm: ``corrected``: statistics of the batch, weights rounded as with the moving ones, until
            ``freeze``; ``frozen``: folded with the moving statistics from the start.
        ranges: ``moving`` (averages of the extremes of batches), ``fixed`` (those of the table), ``trained``
            (bounds with gradients), ``lsq`` (scales with gradients, of the weights too); all but the first
            need a table. None: ``fixed`` with a table, else ``moving``.
        decay: weight of what was seen before in a moving average.
        delay: so many batches are trained with activations in float.

    Raises:
        UsageError: an option that does not fit, or example inputs that the module does not take.
        UnsupportedModelError: the module cannot be traced or simulated, every place is listed; or it holds
            recurrent layers that are not kept in float.
        TableError: the table is not of this module.
    """
    chosen = _scheme(scheme, activations, weights)
    recipe = _recipe(ranges, batch_norm, decay, delay, table)
    if isinstance(keep_float, str):
        raise UsageError("keep_float", "is one string", f"Give a list: keep_float=[{keep_float!r}]")
    module = unwrapped(model)
    _check_names(module)
    _refuse_recurrent(module, keep_float)
    traced = trace(_copied(module), example=given_tensors(example_inputs))
    inputs = checked_inputs(traced, example_inputs)
    split_wide_linears(traced, inputs)
    placed = place_traced(traced, inputs, chosen, keep_float)
    if table is not None:
        _check_table(table, placed)
    plan = plan_simulation(traced, placed.model, placed.placement, chosen)
    simulation = Simulation(plan, placed, recipe, table, _leaders(placed, table, recipe))
    graph = build(traced, simulation)
    kept = tuple(one.detach().cpu() for one in inputs)
    form = call_form(module, tuple(input_names(module, None)))
    simulated = SimulatedModel(traced, graph, simulation, kept, form)
    simulation.to(next((one.device for one in module.parameters()), torch.device("cpu")))
    if table is not None:
        _start(simulated, table)
    simulation.refresh()
    simulation.train(module.training)
    keep_norms_frozen(simulated)
    return simulated


def _check_names(module: nn.Module) -> None:
    """Refuses modules whose parts have the names that the simulation needs for itself."""
    name = type(module).__name__
    if isinstance(module, SimulatedModel):
        raise UsageError(name, "simulates quantization already", "Give the float module")
    held = (*module._modules, *module._parameters, *module._buffers)
    taken = [one for one in TAKEN if one in held]
    if taken:
        problem = f"calls a part of itself '{taken[0]}', which its simulation needs for itself"
        raise UnsupportedModelError(name, problem, "Give that part another name")


def _refuse_recurrent(module: nn.Module, keep_float: Sequence[str]) -> None:
    """Refuses recurrent layers that are not kept in float: nothing simulates what their int8 form rounds."""
    kept = tuple(f"{name}." for name in keep_float)
    found = {
        path: type(one).__name__
        for path, one in module.named_modules()
        if isinstance(one, nn.RNNBase | nn.RNNCellBase) and not f"{path}.".startswith(kept)
    }
    if not found:
        return
    listed = ", ".join(f"'{path}' ({kind})" for path, kind in found.items())
    problem = f"holds recurrent layers, whose int8 form training does not simulate: {listed}"
    names = ", ".join(repr(path) for path in found)
    cure = (
        f"Train what is around them (keep_float=[{names}]), or train in float and give the module to"
        " calib8.quantize, which makes hybrid layers of them for the target calib8"
    )
    raise UnsupportedModelError(type(module).__name__, problem, cure)


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError) as error:
        said = str(error).partition("\n")[0]
        raise UsageError(
            type(module).__name__, f"cannot be copied ({said})", "Make copy.deepcopy(model) possible"
        ) from error


def _scheme(scheme: str | QuantScheme, activations: str | None, weights: str | None) -> QuantScheme:
    if not isinstance(scheme, (str, QuantScheme)):
        raise UsageError("scheme", f"is of type {type(scheme).__name__}", "Give the name of a target")
    if isinstance(scheme, str):
        scheme = target_scheme(DEFAULT_TARGET if scheme == "default" else scheme)
    if activations is not None:
        scheme = scheme.with_activations(activations)
    if weights is not None:
        scheme = scheme.with_weights(weights)
    if scheme.activations.bits != 8:
        problem = f"has activations of {scheme.activations.bits} bits, which ONNX's quantizers do not have"
        raise UsageError(f"scheme '{scheme.name}'", problem, "Use 8 bits; weights may have fewer")
    if scheme.weights.bits > 8 or not scheme.weights.symmetric:
        raise UsageError(
            f"scheme '{scheme.name}'",
            "has weights that are not symmetric of 2 … 8 bits",
            "Use QuantSpec(8, True, True)",
        )
    if scheme.activation_name not in scheme.takes:
        raise UsageError(
            f"scheme '{scheme.name}'",
            f"cannot run activations of type {scheme.activation_name}",
            f"Use {scheme.takes[0]}",
        )
    return scheme


def _recipe(
    ranges: str | None, batch_norm: str, decay: float, delay: int, table: CalibrationTable | None
) -> Recipe:
    wanted = ranges or ("moving" if table is None else "fixed")
    kinds = [kind for kind in RANGES if kind == wanted]
    norms = [kind for kind in BATCH_NORMS if kind == batch_norm]
    if not kinds:
        raise UsageError(f"ranges={ranges!r}", "unknown", one_of(ranges, RANGES))
    if not norms:
        raise UsageError(f"batch_norm={batch_norm!r}", "unknown", one_of(batch_norm, BATCH_NORMS))
    if table is None and wanted != "moving":
        raise UsageError(
            f"ranges={wanted!r}", "needs ranges to start from", "Give table=calib8.calibrate(model, …).table"
        )
    if table is not None and not isinstance(table, CalibrationTable):
        raise UsageError("table", f"is of type {type(table).__name__}", "Give a calib8.CalibrationTable")
    if not isinstance(decay, (int, float)) or not 0.0 <= decay < 1.0:
        raise UsageError(f"decay={decay!r}", "is not in 0 … 1", "Use 0.9 … 0.999")
    if not isinstance(delay, int) or delay < 0:
        raise UsageError(f"delay={delay!r}", "is not a number of batches", "Give 0 or more")
    return Recipe(kinds[0], norms[0], float(decay), delay)


def place_traced(
    traced: fx.GraphModule, inputs: tuple[Tensor, ...], scheme: QuantScheme, keep_float: Sequence[str]
) -> PlacedGraph:
    """The float graph of a traced module as ``calib8.quantize`` prepares it, and its placement.

    Raises:
        UnsupportedModelError: nothing in it can be quantized.
        UsageError: ``keep_float`` names what is not there.
    """
    prepared = prepared_graph(traced, inputs)
    floats = prepared.nodes_called(_nodes_called(traced, keep_float, prepared.names))
    tensors_to_calibrate(prepared.model, floats)
    placement = place(prepared.model, scheme, floats)
    return PlacedGraph(prepared.model, placement, scheme, floats)


def prepared_graph(traced: fx.GraphModule, inputs: tuple[Tensor, ...]) -> PreparedModel:
    """The exported float graph, prepared and compared with the export on the example inputs."""
    original = ir.from_proto(export_traced(traced, inputs))
    refuse_unsupported(original)
    names = [spec.name for spec in graph_inputs(original)]
    arrays = {
        name: np.ascontiguousarray(one.detach().cpu().numpy())
        for name, one in zip(names, inputs, strict=True)
    }
    return prepare_graph(original, arrays)


def _nodes_called(traced: fx.GraphModule, names: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Names of nodes of the graph for names of modules and of traced nodes.

    A traced node that became several nodes is all of them, whose values are called ``node/Operator``.

    Raises:
        UsageError: one names nothing.
    """
    paths = {
        node.name: _path_of(node)
        for node in traced.graph.nodes
        if node.op in ("call_module", "call_function", "call_method")
    }
    found: list[str] = []
    for name in names:
        calls = [node for node, path in paths.items() if path == name or path.startswith(f"{name}.")]
        inside = [
            one for call in calls or [name] for one in known if one == call or one.startswith(f"{call}/")
        ]
        if not inside:
            near = difflib.get_close_matches(name, [*paths.values(), *known], n=1, cutoff=0.0)
            cure = (
                f"Give modules or nodes of the traced graph, such as '{near[0]}'" if near else "Leave it out"
            )
            raise UsageError(f"keep_float={name!r}", "no module and no node that is left is called so", cure)
        found += inside
    return found


def _path_of(node: fx.Node) -> str:
    """The module that a call belongs to; what takes one result of several belongs to who gives them."""
    source = node.args[0] if node.target is operator.getitem else None
    if isinstance(source, fx.Node) and source.op == "call_module":
        return str(source.target)
    return str(node.target if node.op == "call_module" else node.meta.get(OWNER, ""))


def _check_table(table: CalibrationTable, placed: PlacedGraph) -> None:
    """Refuses a table of another model before anything is built."""
    missing = [name for name in placed.placement.readers if name not in table.entries]
    if missing:
        raise TableError(
            f"tensor '{missing[0]}'",
            f"is not in the table, which lacks {len(missing)} of {len(placed.placement.readers)} tensors",
            "Calibrate this very module: calib8.calibrate(model, data, example_inputs=…).table",
        )
    if table.model_hash not in ("", model_hash(placed.model)):
        problem = "the table was made for other weights, or by another release of PyTorch"
        warnings.warn(TableWarning(f"{problem}; calibrate again if its ranges do not fit"), stacklevel=3)


def _leaders(placed: PlacedGraph, table: CalibrationTable | None, recipe: Recipe) -> dict[str, str]:
    """Tensor → the first one that it shares its scale with, where scales are learned."""
    if table is None or recipe.ranges not in ("lsq", "trained"):
        return {}
    first: dict[int, str] = {}
    return {name: first.setdefault(id(found), name) for name, found in placed.ranges(table).items()}


def _start(model: SimulatedModel, table: CalibrationTable) -> None:
    """Puts the ranges of a table in force."""
    simulation = model.calib8
    ranges = simulation.graph.ranges(table)
    for name, quantizer in simulation.all_quantizers():
        quantizer.minimum.fill_(table.entries[name].range.min)
        quantizer.maximum.fill_(table.entries[name].range.max)
    simulation.ranged = True
    simulation.put_in_force(simulation.graph.codes(table))
    if simulation.recipe.ranges not in ("lsq", "trained"):
        return
    fixed = {node.outputs[0].name for node in simulation.graph.model.graph if node.op_type in FIXED_LIMITS}
    fixed |= {name for name in ranges if table.entries[name].method == GIVEN}
    fixed = {simulation.leaders.get(name or "", name) for name in fixed}
    for name, quantizer in simulation.all_quantizers():
        if name not in fixed:
            quantizer.learn(ranges[name], simulation.recipe.ranges)
    if simulation.recipe.ranges == "lsq":
        for layer, weight, _ in folded_layers(model):
            layer.learn(weight)
