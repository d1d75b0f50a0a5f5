"""Layers as rows of weights, scales and codes: what methods of rounding work on, and the way back.

A row is all that one output channel multiplies (see ``windows``); a group of a grouped layer has rows of its
own. The way back is a ``LayerCorrection`` that keeps the bias it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import second_order
from calib8.model.graph import constant
from calib8.qparams import QuantSpec
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.quantize import QuantizedGraph
from calib8.quantization.weights import channel_axis, quantize_weight, weight_scales
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.moments import Moments, layer_moments
from calib8.repair.windows import from_rows, groups_of, to_rows
from calib8.scheme import WEIGHTED_OPS

MOST_INPUTS: Final = 8192
"""Layers that sum more inputs are passed over: the moments of one would take more than half a gigabyte."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerRows:
    """One layer on its way to other codes.

    Attributes:
        node: Conv, ConvTranspose, Gemm or MatMul.
        weights: float64 [groups, rows, d].
        scales: float32 values in float64, [groups, rows].
        codes: int8 [groups, rows, d].
        limit: largest magnitude of a code.
    """

    node: ir.Node
    weights: Floats
    scales: Floats
    codes: npt.NDArray[np.int8]
    limit: int

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.node.name or ""

    def rounded(self, scales: Floats) -> npt.NDArray[np.int8]:
        """Plainly rounded codes for other scales."""
        codes = np.rint(self.weights.astype(np.float32) / scales[..., None].astype(np.float32))
        return np.clip(codes, -self.limit, self.limit).astype(np.int8)


def row_costs(
    layer: LayerRows, scales: Floats, codes: npt.NDArray[np.int8], products: Floats, threads: int
) -> Floats:
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
    """Costs [groups, rows] that choose a scale: where groups share it, in a ConvTranspose, they add up."""
    if layer.node.op_type != "ConvTranspose":
        return costs
    together: Floats = np.broadcast_to(costs.sum(axis=0), costs.shape)
    return together


def rounded_layers(candidate: Candidate, data: RepairData) -> Iterator[tuple[LayerRows, Moments]]:
    """The int8 layers of the candidate with the moments of their coded inputs, in graph order.

    Those of more than ``MOST_INPUTS`` inputs are not among them.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    found, nodes = int8_layers(candidate)
    layers = [node for node in nodes if _inputs(node) <= MOST_INPUTS]
    spec = candidate.scheme.activations
    for node, moments in layer_moments(candidate.model, layers, found.qparams, spec, data):
        yield layer_rows(candidate, node), moments


def passed_over(candidate: Candidate) -> tuple[str, ...]:
    """Notes on the layers that ``rounded_layers`` leaves out for their size."""
    nodes = [node for node in candidate.model.graph if node.op_type in WEIGHTED_OPS]
    return tuple(
        f"'{node.name}' sums {_inputs(node)} inputs, more than {MOST_INPUTS}: left as it was"
        for node in nodes
        if _inputs(node) > MOST_INPUTS and node.name not in candidate.keep_float
    )


def _inputs(node: ir.Node) -> int:
    """Inputs that an output of a layer is summed over; 0 where its weight is computed or no matrix."""
    weight = constant(node.inputs[1])
    if weight is None or weight.ndim < 2:
        return 0
    size: int = to_rows(node, weight).shape[2]
    return size


def int8_layers(candidate: Candidate) -> tuple[QuantizedGraph, list[ir.Node]]:
    """The quantized candidate, and the nodes of its float model that are weighted layers with int8 weights.

    Raises:
        TableError: the table lacks a tensor.
    """
    found = candidate.quantized()
    chosen = found.placement.quantized_nodes()
    nodes = [node for node in candidate.model.graph if node.op_type in WEIGHTED_OPS and node.name in chosen]
    return found, nodes


def plain_scales(layer: LayerRows) -> Floats:
    """max|W| / 127 of every row, with what stands for it in dead ones: [groups, rows], float32 values."""
    weight = constant(layer.node.inputs[1])
    assert weight is not None
    axis = channel_axis(layer.node)
    spec = QuantSpec(bits=(layer.limit + 1).bit_length(), signed=True, symmetric=True)
    return _by_row(layer.node, weight_scales(weight.astype(np.float32), axis, spec))


def _by_row(node: ir.Node, scale: npt.NDArray[np.float32]) -> Floats:
    """Scales of the entries of a layer's channel axis as [groups, rows]."""
    groups = groups_of(node)
    every = np.tile(scale, groups) if node.op_type == "ConvTranspose" else scale
    return np.ascontiguousarray(every.reshape(groups, -1), np.float64)


def layer_rows(candidate: Candidate, node: ir.Node) -> LayerRows:
    """A layer with its present codes: those of its correction, or plainly rounded ones."""
    array = constant(node.inputs[1])
    assert array is not None
    weight, axis, spec = array.astype(np.float32), channel_axis(node), candidate.scheme.weights
    correction = candidate.correction(node.name or "")
    scale = correction.weight_scale
    scale = weight_scales(weight, axis, spec) if scale is None else scale
    codes = correction.weight
    codes = quantize_weight(weight, scale, axis, spec) if codes is None else codes
    return LayerRows(
        node,
        np.ascontiguousarray(to_rows(node, weight), np.float64),
        _by_row(node, scale),
        np.ascontiguousarray(to_rows(node, codes)),
        spec.magnitude_levels - 1,
    )


def with_rows(candidate: Candidate, changed: Mapping[str, LayerRows]) -> Candidate:
    """The candidate with the codes and scales of these layers, by name."""
    corrections = dict(candidate.corrections)
    for name, layer in changed.items():
        weight = constant(layer.node.inputs[1])
        assert weight is not None
        shared = layer.node.op_type == "ConvTranspose"
        scales = layer.scales[0] if shared else layer.scales.reshape(-1)
        corrections[name] = replace(
            corrections.get(name, LayerCorrection()),
            weight=np.ascontiguousarray(from_rows(layer.node, layer.codes, weight.shape)),
            weight_scale=scales.astype(np.float32),
        )
    return replace(candidate, corrections=corrections)
