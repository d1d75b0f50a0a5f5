"""From a trained simulated model to the int8 model that it simulated."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch
from torch import Tensor, fx, nn

from calib8.data.preprocess import Preprocess
from calib8.data.presets import known_preprocess
from calib8.errors import ModelError, UsageError
from calib8.int8_model import int8_model
from calib8.model.graph import constant
from calib8.model.layer import Layer
from calib8.ops.questions import dequantizes
from calib8.outcomes import Quantization
from calib8.passes.prepare import PreparedModel
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate
from calib8.training.layers import SimulatedLayer
from calib8.training.preparing import prepared_graph
from calib8.training.simulated_model import SimulatedModel, folded_layers, keep_norms_frozen

Codes: TypeAlias = npt.NDArray[Any]

STATISTICS: Final = ("running_mean", "running_var", "minimum", "maximum")
"""Buffers that training moves."""

UNCHANGED: Final = 1e-4
"""Factors of a layer that no node behind it has changed differ by roundings of float32 alone."""


def freeze(model: nn.Module) -> None:
    """Fixes ranges and BatchNorms: from here on the model computes what its int8 form computes.

    BatchNorms are folded with their moving statistics, every scale and zero point is the one that the
    quantized graph gets. Weights can be trained on. To be called in the last third of the training, at the
    latest before ``convert``.

    Args:
        model: what ``prepare`` gave, also wrapped: for several processes, compiled, averaged.

    Raises:
        UsageError: the model is another one.
        CalibrationError: no range is known yet.
        ModelError: a parameter is NaN or infinite.
    """
    simulated = unwrapped(model)
    _settled(simulated)
    keep_norms_frozen(simulated)


def convert(model: nn.Module, *, preprocess: Preprocess | str | None = None) -> Quantization:
    """The int8 model: the QDQ graph that ``calib8.quantize`` would make of the trained weights and ranges.

    A model that is not frozen yet is frozen.

    Args:
        model: what ``prepare`` gave, also wrapped: for several processes, compiled, averaged.
        preprocess: how images become its inputs, or the name of a preset; it is stored in the model.

    Raises:
        UsageError, CalibrationError, ModelError: as ``freeze``.
    """
    simulated = unwrapped(model)
    candidate, prepared = _settled(simulated)
    keep_norms_frozen(simulated)
    return int8_model(candidate, None, prepared, known_preprocess(preprocess), {})


def unwrapped(model: nn.Module) -> SimulatedModel:
    """The simulated model itself.

    Raises:
        UsageError: it is none.
    """
    inner: object = model
    while not isinstance(inner, SimulatedModel):
        wrapped = getattr(inner, "_orig_mod", None)  # of torch.compile
        if wrapped is None:
            wrapped = getattr(inner, "module", None)  # for several processes, of averaged weights
        if not isinstance(wrapped, nn.Module):
            break
        inner = wrapped
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
    _check_finite(model)
    table, placed = simulation.table(), simulation.graph
    prepared = prepared_graph(_float_model(model), model.example_inputs)
    simulation.in_float = frozenset()
    simulation.frozen = True
    simulation.refresh()
    factors = _factors(model, prepared.model)
    corrections = _learned(model, prepared.model, factors)
    candidate = Candidate(
        prepared.model, table, placed.scheme, placed.keep_float, simulation.power_of_two, corrections
    )
    graph = candidate.coded
    simulation.put_in_force(graph.qparams)
    coded = graph.placement.quantized_nodes()
    layers = {plan.result: plan.node for plan in simulation.plan.layers}
    absent = {name for name, _ in simulation.all_quantizers() if name not in graph.qparams}
    simulation.in_float = frozenset(absent | {name for name, node in layers.items() if node not in coded})
    _take_scales(model, graph.model, factors)
    simulation.refresh()
    return candidate, prepared


def _check_finite(model: SimulatedModel) -> None:
    """Refuses parameters and statistics that training has spoilt; buffers may be masks with −∞."""
    learned = {name for name, _ in model.named_parameters()}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        own = name in learned or name.rpartition(".")[2] in STATISTICS
        if bool((~value.isfinite() if own else value.isnan()).any()):
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


def _factors(model: SimulatedModel, prepared: ir.Model) -> dict[str, Tensor]:
    """Node of a layer with constants folded behind it → what they multiply each channel with, float64 [C].

    Of layers that are ``whole`` those alone that a node behind them, such as x · 2, has changed.
    """
    whole = {plan.node: plan.whole for plan in model.calib8.plan.layers}
    layers = _layers(model)
    found = {}
    for node in prepared.graph:
        if node.name not in whole or node.name not in layers or constant(node.inputs[1]) is None:
            continue
        layer, weight = layers[node.name]
        if layer.product is None:
            continue  # a BatchNorm alone
        stored = constant(node.inputs[1])
        assert stored is not None
        if _is_transposed(node, layer, stored):
            stored = stored.T
        ours = weight.detach().double().movedim(layer.axis, 0).flatten(1)
        folded = torch.from_numpy(np.array(stored, np.float64)).to(ours.device).reshape(weight.shape)
        squares = (ours * ours).sum(1)
        factors = (ours * folded.movedim(layer.axis, 0).flatten(1)).sum(1) / squares
        factors = torch.where(squares == 0.0, 1.0, factors)
        if not whole[node.name] or bool((factors - 1.0).abs().max() > UNCHANGED):
            found[node.name] = factors
    return found


def _is_transposed(node: ir.Node, layer: SimulatedLayer, stored: Codes) -> bool:
    """Whether the graph has the weight of a matrix product the other way round."""
    return Layer(node).output_axis(stored.ndim) != layer.axis and layer.groups == 1 and stored.ndim == 2


def _learned(
    model: SimulatedModel, prepared: ir.Model, factors: Mapping[str, Tensor]
) -> dict[str, LayerCorrection]:
    """Codes and scales of weights whose scales were learned."""
    found = {}
    layers = _layers(model)
    for node in prepared.graph:
        layer, weight = layers.get(node.name or "", (None, None))
        if layer is None or weight is None or layer.step is None:
            continue
        codes, scale = layer.codes(weight), layer.scale_of(weight).detach()
        factor = factors.get(node.name or "")
        if factor is not None:
            shape = [-1 if axis == layer.axis else 1 for axis in range(codes.dim())]
            codes = codes * torch.sign(factor).to(codes.dtype).view(shape)
            scale = torch.where(factor == 0.0, scale.double(), scale.double() * factor.abs()).float()
        stored = constant(node.inputs[1])
        assert stored is not None
        kept = codes.cpu().numpy()
        kept = np.ascontiguousarray(kept.T if _is_transposed(node, layer, kept) else kept)
        kept = kept.reshape(stored.shape)
        entries: int = kept.shape[Layer(node).output_axis(kept.ndim)]
        scales = np.broadcast_to(scale.cpu().numpy(), entries).astype(np.float32)
        found[node.name or ""] = LayerCorrection(weight=kept, weight_scale=scales)
    return found


def _take_scales(model: SimulatedModel, quantized: ir.Model, factors: Mapping[str, Tensor]) -> None:
    """Tells the layers which scales of the quantized graph are larger than their weights ask for."""
    layers = _layers(model)
    for node in quantized.graph:
        layer, weight = layers.get(node.name or "", (None, None))
        source = None if layer is None or node.inputs[1] is None else node.inputs[1].producer()
        if layer is None or weight is None or source is None or not dequantizes(source):
            continue
        scale = constant(source.inputs[1])
        assert scale is not None
        layer.least.zero_()
        plain = layer.scale_of(weight).detach()
        actual = torch.from_numpy(np.array(scale, np.float32)).to(plain).reshape(layer.least.shape)
        factor = factors.get(node.name or "")
        if factor is not None:  # as if the constants were not there; equal up to the last digit is equal
            apart = (actual / factor.abs()).float()
            actual = torch.where((factor == 0.0) | (apart <= plain * (1.0 + 1e-6)), plain, apart)
        layer.least.copy_(torch.where(actual > plain, actual, torch.zeros_like(actual)))
