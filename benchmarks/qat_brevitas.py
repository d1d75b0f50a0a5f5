"""The peer Brevitas: its graph quantization, scales from a first pass and learned from there."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from brevitas.graph.calibrate import calibration_mode
from brevitas.graph.quantize import (
    COMPUTE_LAYER_MAP,
    QUANT_ACT_MAP,
    QUANT_IDENTITY_MAP,
    preprocess_for_quantize,
    quantize,
)
from brevitas.quant import Int8WeightPerChannelFloat
from torch import nn


def prepared(network: nn.Module, example: torch.Tensor) -> nn.Module:
    """The simulated network in training mode; BatchNorm folded, weights per channel, uint8 after ReLU.

    Its scales come from the example inputs. Plain tensors flow between the layers: Brevitas's own tensor
    type cannot be sliced.
    """
    plain = preprocess_for_quantize(copy.deepcopy(network).eval(), relu6_to_relu=False)
    weighted = {"weight_quant": Int8WeightPerChannelFloat, "bias_quant": None}
    simulated = quantize(
        plain,
        quant_identity_map=with_options(QUANT_IDENTITY_MAP, {}),
        compute_layer_map=with_options(
            {layer: COMPUTE_LAYER_MAP[layer] for layer in (nn.Conv2d, nn.Linear)}, weighted
        ),
        quant_act_map=with_options(QUANT_ACT_MAP, {}),
    ).eval()
    with torch.no_grad(), calibration_mode(simulated):
        simulated(example)
    return simulated.train()


def with_options(made: Mapping[Any, Any], options: Mapping[str, Any]) -> dict[Any, Any]:
    """What takes the place of what, with other options and plain tensors as outputs."""
    return {
        key: (layer, {**given, **options, "return_quant_tensor": False})
        for key, (layer, given) in made.items()
    }


def freeze(network: nn.Module) -> None:
    """Nothing is left to freeze: BatchNorm is folded, scales are parameters."""


def converted(network: nn.Module) -> nn.Module:
    """The simulated network in eval mode."""
    return network.eval()
