"""By how much the channels of two forms of one model differ: what equalization did, found from the constants.

    W'[o, i] = W[o, i] · f_o / f_i        b'[o] = b[o] · f_o        f_i of the channels that the layer reads

A tensor behind a layer is ``f`` times what it was, as far as the ops between let factors through. What a Mul
yields that only the new form has (``passes/function_factors``) is as many times what it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import ModelError
from calib8.passes.channel_paths import channel_path
from calib8.passes.fold_affine import Vector
from calib8.passes.function_factors import multiplied_by
from calib8.passes.layer_channels import LayerChannels, layer_channels

CHANNEL_FACTORS: Final = "channel_factors"
"""Key of the metadata that hold them."""

TOLERANCE: Final = 1e-5
"""Of the largest magnitude: float32 rounding of the constants stays far below it."""


@dataclass(frozen=True)
class ChannelFactors:
    """How tensors of a model differ from those of the model it was made from.

    Attributes:
        factors: tensor → what its channels are times the old ones, float64 [channels]; others are equal.
        others: tensors that differ in another way.
    """

    factors: Mapping[str, Vector] = field(default_factory=dict)
    others: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """As it is stored with a model: tensors of one path together, six digits."""
        paths: dict[tuple[float, ...], list[str]] = {}
        for name, found in self.factors.items():
            paths.setdefault(tuple(float(f"{one:.6g}") for one in found), []).append(name)
        listed = [{"tensors": names, "factors": list(found)} for found, names in paths.items()]
        return json.dumps({"paths": listed, "others": sorted(self.others)})


def parse_factors(text: str, source: str) -> ChannelFactors:
    """The opposite of ``to_json``.

    Raises:
        ModelError: it is something else; ``source`` names the model.
    """
    try:
        document = json.loads(text)
        factors = {
            str(name): np.asarray(path["factors"], np.float64)
            for path in document["paths"]
            for name in path["tensors"]
        }
        others = frozenset(str(name) for name in document["others"])
        sound = all(
            found.ndim == 1 and np.all(np.isfinite(found) & (found > 0.0)) for found in factors.values()
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        sound = False
    if not sound:
        raise ModelError(source, f"its metadata '{CHANNEL_FACTORS}' are broken", "Quantize it again")
    return ChannelFactors(factors, others)


def channel_factors(before: ir.Model, after: ir.Model) -> ChannelFactors:
    """What became of the channels between layers.

    Args:
        before, after: prepared graphs with the same nodes; constants of layers may differ, and the second
            may have a Mul more where ``passes/function_factors`` put one.
    """
    old = {node.name: layer_channels(node) for node in before.graph}
    there = {value.name for node in before.graph for value in node.outputs}
    factors: dict[str, Vector] = {}
    others: set[str] = set()
    for node in after.graph:
        if (
            node.name not in old
            and node.outputs[0].name in there
            and (added := multiplied_by(node)) is not None
        ):
            factors[node.outputs[0].name or ""] = added
        new, was = layer_channels(node), old.get(node.name)
        if new is None or was is None:
            continue
        source = node.inputs[0]
        read = factors.get("" if source is None else source.name or "")
        found = _output_factors(was if read is None else was.scaled(inputs=1.0 / read), new)
        if found is not None and np.all(found == 1.0):
            continue
        path = channel_path(node)
        names = tuple(value.name or "" for value in node.outputs) if path is None else path.names
        if found is None:
            others.update(names)
        else:
            factors.update(dict.fromkeys(names, found))
    return ChannelFactors(factors, frozenset(others))


def _output_factors(was: LayerChannels, new: LayerChannels) -> Vector | None:
    """Factors on the output channels, exactly 1 where nothing changed; None where that is not all."""
    if was.weight.shape != new.weight.shape:
        return None
    rows, changed = (layer.weight.reshape(layer.outputs, -1) for layer in (was, new))
    largest = np.argmax(np.abs(rows), axis=1)[:, None]
    top, now = (np.take_along_axis(array, largest, axis=1)[:, 0] for array in (rows, changed))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors: Vector = np.where(top == 0.0, 1.0, now / top)
    factors[np.abs(factors - 1.0) <= TOLERANCE] = 1.0
    scaled = was.scaled(outputs=factors)
    same = _equal(scaled.weight, new.weight) and _equal(_bias(scaled), _bias(new))
    return factors if same and np.all(factors > 0.0) else None


def _bias(layer: LayerChannels) -> Vector:
    return np.zeros(layer.outputs) if layer.bias is None else layer.bias


def _equal(left: Vector, right: Vector) -> bool:
    reach = max(float(np.max(np.abs(left), initial=0.0)), float(np.max(np.abs(right), initial=0.0)))
    return bool(np.max(np.abs(left - right), initial=0.0) <= TOLERANCE * reach)
