"""Equalization by groups: channels of tensors that are added, joined or split get factors together.

    A ─► t ─┐                               A·s, B·s write s·t and s·u, their sum is s·v,
             Add ─► v ─┬─► C                C/s and D/s read it: the function stays what it is
    B ─► u ─┘          └─► D

``passes/channel_classes`` tells which channels have one factor; ``channel_noise`` says which factors make
the rounding noise of codes and weights together least. Unlike ``equalize_activations`` it looks at layers of
any kind behind a tensor, not only at depthwise ones, whose weights have a scale for each channel.

Only for weights with a scale per output channel; what has one scale for all wants ``cross_layer``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.model.graph import rank
from calib8.passes.channel_classes import FIXED, ChannelClasses, ClassedLayer, channel_classes
from calib8.passes.fold_affine import Vector
from calib8.passes.place import place
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import ChannelExtremes, channel_extremes
from calib8.repair.channel_noise import ORDER, LayerTerm, LeastNoise, TensorTerm, least_noise
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN

WORTH_DB: Final = 3.0
"""What the noise must fall by, as far as it can be foreseen; about half of it is seen."""

MOST_ROWS: Final = 256
"""Output channels of a layer that are looked at, evenly spread."""

QUIET: Final = 1e-3
"""Share of a layer's mean power that every output channel is taken to have at least."""

FLOAT32_TINY: Final = float(np.finfo(np.float32).tiny)


def equalize_groups(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Gives all channels between layers the factors of least noise.

    Tensors with a range that the user gave stay as they are, and so do channels that were zero throughout.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: all its samples count.

    Returns:
        The candidate with the new model and ranges, and what was done.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    if candidate.scheme.weight_granularity != "per-channel":
        return candidate, RepairReport(())
    classes = channel_classes(candidate.model)
    scene = _Scene(candidate, classes, _quantized(candidate))
    free = scene.free()
    if not np.any(free):
        return candidate, RepairReport(())
    seen = channel_extremes(candidate.model, scene.tensors(), data, every_sample=True, power=True)
    free &= ~scene.silent(seen)
    found = least_noise([*scene.tensor_terms(seen, free), *scene.layer_terms(seen)], free)
    gain = 10.0 * math.log10(found.before / found.after) if found.after > 0.0 else 0.0
    if gain < WORTH_DB:
        return candidate, RepairReport(())
    return _applied(candidate, data, found, gain)


def _applied(
    candidate: Candidate, data: RepairData, found: LeastNoise, gain: float
) -> tuple[Candidate, RepairReport]:
    """The candidate with the factors in its layers and ranges that fit."""
    model = candidate.model.clone()
    classes, layers = channel_classes(model), []
    for layer in classes.layers:
        if np.any(found.factors[layer.read] != 1.0) or np.any(found.factors[layer.written] != 1.0):
            layer.scaled(found.factors).write(model.graph)
            layers.append(layer.channels.node.name or "")
    changed = [name for name, of in classes.tensors.items() if np.any(found.factors[of] != 1.0)]
    kept, notes = without_corrections(candidate, layers)
    result = refitted(kept, model, changed, data)
    told = f"channels equalized in groups: {int(np.sum(found.factors != 1.0))}"
    return result, RepairReport(tuple(layers), (told, f"noise of codes should fall by {gain:.1f} dB", *notes))


def _quantized(candidate: Candidate) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the nodes that compute on codes, and of the tensors with codes."""
    placement = place(candidate.model, candidate.scheme, candidate.keep_float)
    return placement.quantized_nodes(), frozenset(placement.readers) & candidate.table.entries.keys()


@dataclass(frozen=True)
class _Scene:
    """What the terms of the noise are made from.

    Attributes:
        candidate: what is repaired.
        classes: of its model.
        quantized: nodes and tensors with codes.
    """

    candidate: Candidate
    classes: ChannelClasses
    quantized: tuple[frozenset[str], frozenset[str]]

    def free(self) -> npt.NDArray[np.bool_]:
        """Classes that may have a factor, bool [classes]: those of known, coded, not given tensors."""
        coded = np.zeros(self.classes.count, np.bool_)
        kept = np.zeros(self.classes.count, np.bool_)
        kept[FIXED] = True
        for name, found in self.classes.tensors.items():
            entry = self.candidate.table.entries.get(name)
            if entry is not None and entry.method == GIVEN:
                kept[found] = True
            if name in self.quantized[1]:
                coded[found] = True
        for layer in self.classes.layers:
            if layer.channels.layer.stacks and rank(layer.channels.node.outputs[0]) != 2:
                kept[layer.read] = kept[layer.written] = True
        return coded & ~kept

    def tensors(self) -> dict[str, int]:
        """Tensors to look at → number of axes: those with codes, and all that layers read and yield."""
        around = [
            value
            for layer in self.classes.layers
            for value in (layer.channels.layer.input, layer.channels.node.outputs[0])
        ]
        names = dict.fromkeys([*(value.name or "" for value in around if value), *sorted(self.quantized[1])])
        values = {value.name: value for node in self.candidate.model.graph for value in node.outputs}
        axes = {name: rank(values[name]) for name in names if name in values}
        return {name: count for name, count in axes.items() if count is not None and count > 1}

    def silent(self, seen: Mapping[str, ChannelExtremes]) -> npt.NDArray[np.bool_]:
        """Classes of channels that were zero throughout, bool [classes]."""
        result = np.zeros(self.classes.count, np.bool_)
        for name, found in seen.items():
            of = self.classes.along_channels(name, found.maximum.size)
            if of is not None:
                result[of[(found.minimum == 0.0) & (found.maximum == 0.0)]] = True
        return result

    def tensor_terms(
        self, seen: Mapping[str, ChannelExtremes], free: npt.NDArray[np.bool_]
    ) -> list[TensorTerm]:
        """One per tensor with codes of which a channel is free."""
        importance = self._importance(seen)
        terms = []
        for name in sorted(self.quantized[1] & seen.keys()):
            found = seen[name]
            of = self.classes.along_channels(name, found.maximum.size)
            if of is None or not np.any(free[of]):
                continue
            heard = importance[of]
            heard[of == FIXED] = np.mean(heard[of != FIXED])
            heard[(found.minimum == 0.0) & (found.maximum == 0.0)] = 0.0
            above, below = np.maximum(found.maximum, 0.0), np.maximum(-found.minimum, 0.0)
            terms.append(TensorTerm(of, above, below, heard))
        return terms

    def layer_terms(self, seen: Mapping[str, ChannelExtremes]) -> list[LayerTerm]:
        """One per layer with coded weights that reads channels with a factor."""
        terms = []
        for layer in self.classes.layers:
            node, weight = layer.channels.node, layer.channels.weight
            source = seen.get((node.inputs[0].name or "") if node.inputs[0] is not None else "")
            power = self._output_power(layer, seen)
            if (
                node.name not in self.quantized[0]
                or not np.any(layer.read)
                or source is None
                or power is None
            ):
                continue
            groups, outputs, inputs, taps = weight.shape
            heard = _spread(source.power, groups * inputs)
            if heard is None or layer.channels.depthwise:
                continue
            rows = np.unique(np.linspace(0, outputs - 1, min(outputs, MOST_ROWS)).astype(np.int64))
            largest: Vector = np.max(np.abs(weight[:, rows]), axis=3)
            top = max(float(np.max(largest, initial=0.0)), FLOAT32_TINY)
            share = taps * (top / 127.0) ** 2 / 12.0 / power.reshape(groups, outputs)[:, rows]
            terms.append(
                LayerTerm(
                    layer.read.reshape(groups, inputs), (largest / top) ** ORDER,
                    heard.reshape(groups, inputs), share / share.size,
                )
            )  # fmt: skip
        return terms

    def _importance(self, seen: Mapping[str, ChannelExtremes]) -> Vector:
        """What noise on a channel does to all layers that read it, float64 [classes]."""
        total: Vector = np.zeros(self.classes.count)
        for layer in self.classes.layers:
            power = self._output_power(layer, seen)
            if power is None:
                continue
            groups, outputs = layer.channels.weight.shape[:2]
            gains = np.sum(layer.channels.weight**2, axis=3) / power.reshape(groups, outputs, 1)
            np.add.at(total, layer.read, gains.sum(axis=1).reshape(-1) / power.size)
        return total

    def _output_power(self, layer: ClassedLayer, seen: Mapping[str, ChannelExtremes]) -> Vector | None:
        """Mean square of every output channel, none next to nothing, float64 [outputs]; None if unknown."""
        found = seen.get(layer.channels.node.outputs[0].name or "")
        power = None if found is None else found.power
        if power is None or power.size != layer.channels.outputs or not np.any(power):
            return None
        return np.maximum(power, QUIET * np.mean(power))


def _spread(power: Vector | None, channels: int) -> Vector | None:
    """Mean squares of so many channels, where a reshape made several of one; None where that is not it."""
    if power is None or power.size == 0 or channels % power.size:
        return None
    return np.repeat(power, channels // power.size)
