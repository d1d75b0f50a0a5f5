"""Layers as rows of weights, scales and codes: what methods of rounding work on, and the way back.

A row is all that one output channel multiplies (see ``windows``); a group of a grouped layer has rows of its
own. The rows start from the codes that the int8 graph has, and what is chosen for them keeps to its rules, so
that nothing chosen is dropped when it is written:

    scales     at least what the bias needs; one for all rows where the target takes no more, one for the
               groups of a ConvTranspose
    codes      in −limit … limit; where the target has a limit for pairs, no pair beyond it

The way back is a ``LayerCorrection`` that keeps the bias it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import second_order
from calib8.model.layer import Layer
from calib8.qparams import INT16, QParams, QuantSpec, activation_qparams, representable_range
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.pairs import within_limit
from calib8.quantization.quantize import QuantizedGraph
from calib8.quantization.weights import plain_scales
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.coded_layers import CodedLayer
from calib8.repair.moments import Moments, layer_moments
from calib8.repair.windows import from_rows, to_rows
from calib8.scheme import QuantScheme

MOST_INPUTS: Final = 8192
"""Layers that sum more inputs are passed over: the moments of one would take more than half a gigabyte."""

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class LayerRows:
    """One layer on its way to other codes.

    Attributes:
        layer: whose weights they are.
        scheme: what the target takes.
        weights: float64 [groups, rows, d].
        scales: float32 values in float64, [groups, rows].
        codes: int8 [groups, rows, d].
        plain: scales of plain rounding, as ``scales``.
        least: smallest scales that the bias allows, as ``scales``.
    """

    layer: Layer
    scheme: QuantScheme
    weights: Floats
    scales: Floats
    codes: Codes
    plain: Floats
    least: Floats

    @property
    def node(self) -> ir.Node:
        """The layer in its graph."""
        return self.layer.node

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.node.name or ""

    @property
    def limit(self) -> int:
        """Largest magnitude of a code."""
        return self.scheme.weights.magnitude_levels - 1

    def zoomed(self, scales: Floats, zooms: Floats | float) -> Floats:
        """Scales [groups, rows] times zooms (one, or [groups, rows]), float32 values; at least ``least``."""
        return np.maximum((scales * zooms).astype(np.float32).astype(np.float64), self.least)

    def rounded(self, scales: Floats) -> Codes:
        """Plainly rounded codes for other scales."""
        codes = np.rint(self.weights.astype(np.float32) / scales[..., None].astype(np.float32))
        return self.allowed(np.clip(codes, -self.limit, self.limit).astype(np.int8), scales)

    def allowed(self, codes: Codes, scales: Floats) -> Codes:
        """The codes, pairs beyond the limit of the target brought back to it."""
        limit = self.scheme.pair_limit
        if limit is None:
            return codes
        shape = self.layer.array.shape
        exact = from_rows(self.layer, self.weights / scales[..., None], shape)
        found = within_limit(self.layer, from_rows(self.layer, codes, shape), exact, limit)
        return np.ascontiguousarray(to_rows(self.layer, found))


def row_costs(layer: LayerRows, scales: Floats, codes: Codes, products: Floats, threads: int) -> Floats:
    """e H eᵀ of every row, [groups, rows]: the error energy of its output in squared steps of its input.

    Args:
        layer: whose weights.
        scales: [groups, rows].
        codes: [groups, rows, d].
        products: H, [groups, d, d].
        threads: for the product; the result does not depend on it.
    """
    errors = scales[..., None] * codes - layer.weights
    return np.asarray(np.sum(errors * second_order.multiply(errors, products, threads), axis=2))


def shared_costs(layer: LayerRows, costs: Floats) -> Floats:
    """Costs [groups, rows] that choose a scale: those of rows that share it add up."""
    if layer.scheme.weight_granularity == "per-tensor":
        return np.full(costs.shape, costs.sum())
    if not layer.layer.transposed:
        return costs
    together: Floats = np.broadcast_to(costs.sum(axis=0), costs.shape)
    return together


def rounded_layers(
    candidate: Candidate, graph: QuantizedGraph, layers: Sequence[CodedLayer], data: RepairData
) -> Iterator[tuple[LayerRows, Moments]]:
    """Layers with the moments of their coded inputs, in graph order.

    Those of more than ``MOST_INPUTS`` inputs are not among them.

    Args:
        candidate, graph: what was quantized, and its int8 form.
        layers: its ``coded_layers``.
        data: what the inputs are taken from.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    small = {layer.node: layer for layer in layers if _inputs(layer) <= MOST_INPUTS}
    spec = candidate.scheme.activations
    codes = {name: _in_8_bits(code, spec) if name in graph.spots.taken else code
             for name, code in graph.qparams.items()}  # fmt: skip
    for node, moments in layer_moments(candidate.model, list(small), codes, spec, data):
        yield layer_rows(small[node], candidate.scheme), moments


def _in_8_bits(code: QParams, spec: QuantSpec) -> QParams:
    """The code of the same range: products of 16-bit codes would not be exact, nor choose other weights."""
    low, high = representable_range(code, INT16)
    return activation_qparams(low, high, spec)


def passed_over(layers: Sequence[CodedLayer]) -> tuple[str, ...]:
    """Notes on the layers that ``rounded_layers`` leaves out for their size."""
    return tuple(
        f"'{layer.name}' sums {_inputs(layer)} inputs, more than {MOST_INPUTS}: left as it was"
        for layer in layers
        if _inputs(layer) > MOST_INPUTS
    )


def _inputs(layer: CodedLayer) -> int:
    """Inputs that an output of a layer is summed over."""
    size: int = to_rows(layer.layer, layer.codes).shape[2]
    return size


def layer_rows(layer: CodedLayer, scheme: QuantScheme) -> LayerRows:
    """A layer with the codes that the int8 graph has of it."""
    of, weight = layer.layer, layer.exact
    least = np.broadcast_to(layer.least, layer.scale.shape)
    return LayerRows(
        of,
        scheme,
        weights=np.ascontiguousarray(to_rows(of, weight), np.float64),
        scales=_by_row(of, layer.scale),
        codes=np.ascontiguousarray(to_rows(of, layer.codes)),
        plain=_by_row(of, plain_scales(of, weight, scheme, least)),
        least=_by_row(of, _one_for_all(least, scheme)),
    )


def _one_for_all(least: npt.NDArray[np.float32], scheme: QuantScheme) -> npt.NDArray[np.float32]:
    return np.full_like(least, np.max(least)) if scheme.weight_granularity == "per-tensor" else least


def _by_row(layer: Layer, scale: npt.NDArray[np.float32]) -> Floats:
    """Scales of the entries of a layer's channel axis as [groups, rows]."""
    every = np.tile(scale, layer.sharing)
    return np.ascontiguousarray(every.reshape(layer.groups, -1), np.float64)


def with_rows(candidate: Candidate, changed: Mapping[str, LayerRows]) -> Candidate:
    """The candidate with the codes and scales of these layers, by name; itself where there are none."""
    if not changed:
        return candidate
    corrections = dict(candidate.corrections)
    for name, layer in changed.items():
        scales = layer.scales[0] if layer.layer.transposed else layer.scales.reshape(-1)
        corrections[name] = replace(
            corrections.get(name, LayerCorrection()),
            weight=np.ascontiguousarray(from_rows(layer.layer, layer.codes, layer.layer.array.shape)),
            weight_scale=scales.astype(np.float32),
        )
    return replace(candidate, corrections=corrections)
