"""By how much the channels of two forms of one model differ: what equalization did, found from the constants.

    W'[o, i] = W[o, i] · f_o / f_i        b'[o] = b[o] · f_o        f_i of the channels that the layer reads

A tensor behind a layer is ``f`` times what it was, as far as the ops between let factors through
(``passes/channel_classes``). What a Mul yields that only the new form has (``passes/function_factors``) is as
many times what it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.errors import ModelError
from calib8.json_texts import parse_json
from calib8.model.graph import rank
from calib8.passes.channel_classes import ChannelWalk, along_axis
from calib8.passes.channel_paths import channel_path
from calib8.passes.fold_affine import Vector
from calib8.passes.function_factors import multiplied_by
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.norm_factors import norm_scale

CHANNEL_FACTORS: Final = "channel_factors"
"""Key of the metadata that hold them."""

MOST_AXES: Final = 8
"""More than any tensor has that layers read."""

LARGEST: Final = 1e12
"""Far beyond the factors of any equalization."""

TOLERANCE: Final = 1e-5
"""Of the largest magnitude: float32 rounding of the constants stays far below it."""


@dataclass(frozen=True)
class ChannelFactors:
    """How tensors of a model differ from those of the model it was made from.

    Attributes:
        factors: tensor → what its channels are times the old ones, float64 [channels]; others are equal.
        others: tensors that differ in another way.
        axes: tensor → axis of its channels, where that is not 1: the last one of rows.
    """

    factors: Mapping[str, Vector] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    axes: Mapping[str, int] = field(default_factory=dict)

    def axis(self, name: str) -> int:
        """Of the channels of a tensor."""
        return self.axes.get(name, 1)

    def shaped(self, name: str, shape: Sequence[int]) -> Vector:
        """The factors of a tensor of this shape, to be multiplied with it.

        Raises:
            ModelError: it has another number of channels.
        """
        axis = self.axis(name)
        self.check_channels(name, shape[axis] if axis < len(shape) else 0)
        lengths = [1] * len(shape)
        lengths[axis] = -1
        return self.factors[name].reshape(lengths)

    def check_channels(self, name: str, channels: int) -> None:
        """Refuses factors that are more or fewer than the channels of a tensor.

        Raises:
            ModelError: they are.
        """
        if (count := self.factors[name].size) != channels:
            problem = f"the metadata '{CHANNEL_FACTORS}' have {count} factors for it, and {channels} channels"
            raise ModelError(f"tensor '{name}'", problem, "Quantize the model again")

    def to_json(self) -> str:
        """As it is stored with a model: tensors of one path together, six digits."""
        paths: dict[tuple[int, tuple[float, ...]], list[str]] = {}
        for name, found in self.factors.items():
            numbers = tuple(float(f"{one:.6g}") for one in found)
            paths.setdefault((self.axis(name), numbers), []).append(name)
        listed = [
            {"tensors": names, "factors": list(found), **({} if axis == 1 else {"axis": axis})}
            for (axis, found), names in paths.items()
        ]
        return json.dumps({"paths": listed, "others": sorted(self.others)})


def parse_factors(text: str, source: str) -> ChannelFactors:
    """The opposite of ``to_json``.

    Raises:
        ModelError: it is something else; ``source`` names the model.
    """
    try:
        document = parse_json(text)
        factors = {
            str(name): _vector(path["factors"])
            for path in document["paths"]
            for name in _list(path["tensors"])
        }
        others = frozenset(str(name) for name in _list(document["others"]))
        axes = {
            str(name): path["axis"]
            for path in document["paths"]
            if "axis" in path
            for name in path["tensors"]
        }
        sound = all(type(axis) is int and 0 <= axis < MOST_AXES for axis in axes.values())
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        sound = False
    if not sound:
        raise ModelError(source, f"its metadata '{CHANNEL_FACTORS}' are broken", "Quantize it again")
    return ChannelFactors(factors, others, axes)


def _list(found: object) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError("no list")
    return found


def _vector(found: object) -> Vector:
    """Factors as they are stored.

    Raises:
        ValueError: they are no numbers, or none that an equalization finds.
    """
    numbers = _list(found)
    if not all(type(one) in (int, float) and 1.0 / LARGEST <= one <= LARGEST for one in numbers):
        raise ValueError("no factors")
    return np.asarray(numbers, np.float64)


def channel_factors(before: ir.Model, after: ir.Model) -> ChannelFactors:
    """What became of the channels between layers.

    Args:
        before, after: prepared graphs with the same nodes; constants of layers may differ, and the second
            may have a Mul more where ``passes/function_factors`` put one.
    """
    old = {node.name: layer_channels(node) for node in before.graph}
    norms = {node.name: norm_scale(node) for node in before.graph}
    there = {value.name for node in before.graph for value in node.outputs}
    walk, of = ChannelWalk(through_limits=True), [np.ones(1)]
    others: set[str] = set()
    for node in after.graph:
        source = walk.of(node.inputs[0] if node.inputs else None)
        added = None if node.name in old else multiplied_by(node)
        if added is not None:
            read = np.concatenate(of)[source].reshape(-1)
            walk.give(node.outputs[0], 1, source.ndim, added.size)
            of.append(read * added)
            continue
        rows = _norm_factors(norms.get(node.name), node)
        if rows is not None:
            axes = rank(node.outputs[0]) or 0
            walk.give(node.outputs[0], axes - 1, axes, rows.size)
            of.append(rows)
            continue
        known = len(walk.layers)
        walk.visit(node)
        if len(walk.layers) == known:
            continue
        new, was = walk.layers[-1][0], old.get(node.name)
        read = np.concatenate(of)[walk.layers[-1][1]]
        found = None if was is None else _output_factors(was.scaled(inputs=1.0 / read), new)
        of.append(np.ones(new.outputs) if found is None else found)
        if was is not None and found is None:
            path = channel_path(node)
            others.update([node.outputs[0].name or ""] if path is None else path.names)
    return _told(walk, np.concatenate(of), there, others)


def _norm_factors(was: Vector | None, node: ir.Node) -> Vector | None:
    """Factors on what a normalization yields, float64 [C]; None where nothing changed, or not by factors."""
    now = norm_scale(node)
    if was is None or now is None or was.shape != now.shape or np.array_equal(was, now):
        return None
    factors: Vector = np.divide(now, was, out=np.ones(was.size), where=was != 0.0)
    return factors if np.all(factors > 0.0) else None


def _told(walk: ChannelWalk, of: Vector, there: Collection[str | None], others: set[str]) -> ChannelFactors:
    """Factors of all tensors that both graphs have; where they differ within a channel, it is another one."""
    factors: dict[str, Vector] = {}
    axes: dict[str, int] = {}
    for value, classes in walk.classes.items():
        found, name = of[classes], value.name or ""
        if value.name not in there or value.name in others or np.all(found == 1.0):
            continue
        axis = next((one for one in (1, *range(classes.ndim)) if along_axis(classes, one)), None)
        if axis is None:
            others.add(name)
            continue
        factors[name] = found.reshape(-1)
        if axis != 1:
            axes[name] = axis
    return ChannelFactors(factors, frozenset(others), axes)


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
