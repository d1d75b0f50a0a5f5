"""From a trained simulated model to the int8 model that it simulated."""

from __future__ import annotations

import copy

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, fx, nn

from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.errors import ModelError, UsageError
from calib8.int8_model import int8_model
from calib8.model.graph import constant
from calib8.outcomes import Quantization
from calib8.passes.prepare import PreparedModel
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.weights import channel_axis
from calib8.repair.candidate import Candidate
from calib8.training.layers import SimulatedLayer
from calib8.training.preparing import prepared_graph
from calib8.training.simulated_model import SimulatedModel, folded_layers


def freeze(model: nn.Module) -> None:
    """Fixes ranges and BatchNorms: from here on the model computes what its int8 form computes.

    BatchNorms are folded with their moving statistics, every scale and zero point is the one that the
    quantized graph gets. Weights can be trained on. To be called in the last third of the training, at the
    latest before ``convert``.

    Args:
        model: what ``prepare`` gave, also wrapped for several processes.

    Raises:
        UsageError: the model is another one.
        CalibrationError: no range is known yet.
        ModelError: a parameter is NaN or infinite.
    """
    simulated = unwrapped(model)
    _settled(simulated)
    simulated.train(simulated.training)


def convert(model: nn.Module, *, preprocess: Preprocess | str | None = None) -> Quantization:
    """The int8 model: the QDQ graph that ``calib8.quantize`` would make of the trained weights and ranges.

    A model that is not frozen yet is frozen.

    Args:
        model: what ``prepare`` gave, also wrapped for several processes.
        preprocess: how images become its inputs, or the name of a preset; it is stored in the model.

    Raises:
        UsageError, CalibrationError, ModelError: as ``freeze``.
    """
    simulated = unwrapped(model)
    candidate, prepared = _settled(simulated)
    simulated.train(simulated.training)
    return int8_model(candidate, None, prepared, known_preprocess(preprocess), {})


def unwrapped(model: nn.Module) -> SimulatedModel:
    """The simulated model itself.

    Raises:
        UsageError: it is none.
    """
    inner = getattr(model, "module", model)
    if not isinstance(inner, SimulatedModel):
        raise UsageError(
            f"model of type {type(model).__name__}",
            "does not simulate quantization",
            "Give what calib8.training.prepare returned",
        )
    return inner


def _settled(model: SimulatedModel) -> tuple[Candidate, PreparedModel]:
    """Freezes the model in agreement with the graph that is quantized from it."""
    simulation = model.calib8
    table, placed = simulation.table(), simulation.graph
    _check_finite(model)
    prepared = prepared_graph(_float_model(model), model.example_inputs)
    simulation.in_float = frozenset()
    simulation.frozen = True
    simulation.refresh()
    corrections = _learned(model, prepared.model)
    candidate = Candidate(
        prepared.model, table, placed.scheme, placed.keep_float, simulation.power_of_two, corrections
    )
    graph = candidate.coded
    simulation.put_in_force(graph.qparams)
    coded = graph.placement.quantized_nodes()
    layers = {plan.result: plan.node for plan in simulation.plan.layers}
    absent = {name for name, _ in simulation.all_quantizers() if name not in graph.qparams}
    simulation.in_float = frozenset(absent | {name for name, node in layers.items() if node not in coded})
    _take_scales(model, graph.model)
    simulation.refresh()
    return candidate, prepared


def _check_finite(model: SimulatedModel) -> None:
    for name, value in model.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(
                f"parameter '{name}'", "holds NaN or infinite values", "Go back to a checkpoint before it did"
            )


def _float_model(model: SimulatedModel) -> fx.GraphModule:
    """The traced float module on the CPU, with the trained parameters."""
    copied = copy.deepcopy(model).cpu().eval()
    return fx.GraphModule(copied, copied.float_graph, model.name)


def _layers(model: SimulatedModel) -> dict[str, tuple[SimulatedLayer, Tensor]]:
    """Name of a layer's node → the layer and its folded weight."""
    nodes = {plan.result: plan.node for plan in model.calib8.plan.layers}
    names = [name for name, _ in model.calib8.all_layers()]
    return {
        nodes[name]: (layer, weight)
        for name, (layer, weight, _) in zip(names, folded_layers(model), strict=True)
    }


def _learned(model: SimulatedModel, prepared: ir.Model) -> dict[str, LayerCorrection]:
    """Codes and scales of weights whose scales were learned."""
    found = {}
    layers = _layers(model)
    for node in prepared.graph:
        layer, weight = layers.get(node.name or "", (None, None))
        if layer is None or weight is None or layer.step is None:
            continue
        codes, scale = layer.codes(weight).cpu().numpy(), layer.scale_of(weight).detach().cpu().numpy()
        stored = constant(node.inputs[1])
        assert stored is not None
        if channel_axis(node) != layer.axis and layer.groups == 1 and codes.ndim == 2:
            codes = np.ascontiguousarray(codes.T)
        codes = codes.reshape(stored.shape)
        scales = np.broadcast_to(scale, codes.shape[channel_axis(node)]).astype(np.float32)
        found[node.name or ""] = LayerCorrection(weight=codes, weight_scale=scales)
    return found


def _take_scales(model: SimulatedModel, quantized: ir.Model) -> None:
    """Tells the layers which scales of the quantized graph are larger than their weights ask for."""
    layers = _layers(model)
    for node in quantized.graph:
        layer, weight = layers.get(node.name or "", (None, None))
        source = None if layer is None or node.inputs[1] is None else node.inputs[1].producer()
        if layer is None or weight is None or source is None or source.op_type != "DequantizeLinear":
            continue
        scale = constant(source.inputs[1])
        assert scale is not None
        layer.least.zero_()
        plain = layer.scale_of(weight)
        actual = torch.from_numpy(np.array(scale, np.float32)).to(plain).reshape(layer.least.shape)
        layer.least.copy_(torch.where(actual > plain, actual, torch.zeros_like(actual)))
