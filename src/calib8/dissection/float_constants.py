"""What layers compute with in the float model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant
from calib8.model.layer import layer_of


@dataclass(frozen=True)
class FloatConstants:
    """What a layer computes with in the float model.

    Attributes:
        weight: float32, in the layer's own layout.
        bias: float32, None where the float layer has none.
    """

    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None


def layer_constants(model: ir.Model) -> dict[str, FloatConstants]:
    """Label of every layer of a float graph with constant weights → what it computes with."""
    found = {}
    for layer in filter(None, map(layer_of, model.graph)):
        weight = constant(layer.weight)
        if weight is not None:
            found[layer.name] = FloatConstants(weight, constant(layer.bias))
    return found
