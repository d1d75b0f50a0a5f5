"""EQ as Tengine's quantizer does it (its algorithm 4): scales of weights by the cosine of outputs.

    zooms    1.3/200 · (n + 1),  n = 0, 20 … 180        0.0065, 0.1365 … 1.1765 times max|W| / 127
    cosine   Σ y ŷ / √(Σ y² · Σ ŷ²)                     per output channel, over all its outputs seen
    choice   the first zoom with the largest cosine, if it is above −1

y is the layer's float output, activation included; ŷ is that of coded inputs and coded weights, coded itself.
Its flaws are kept: 1.0 is not among the zooms, so no channel keeps the scale it had, however good that was;
and a cosine does not see a channel that comes out too large or too small as a whole. ``equalize_outputs`` has
neither.

Some things differ: the coded input is that of the float model, not of the layers quantized before, and of
large layers only some positions are looked at. Rows that share a scale choose by their mean cosine; no scale
gets too small for the bias, no pair of codes too large for the target. At most 50 samples count, as there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8._core import second_order
from calib8.model.graph import constant
from calib8.model.layer import Layer
from calib8.model.runtime import Arrays
from calib8.model.taps import Taps
from calib8.passes.place import activation_behind, clip_limits
from calib8.progress import SampleCounter
from calib8.qparams import QParams, QuantSpec, dequantize, quantize
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import coded_layers
from calib8.repair.layer_rows import Floats, LayerRows, layer_rows, shared_costs, with_rows
from calib8.repair.moments import in_sets, source_name
from calib8.repair.windows import columns, to_rows

TENGINE_ZOOMS: Final = tuple(1.3 / 200 * (number + 1) for number in range(0, 200, 20))
MOST_SAMPLES: Final = 50
POSITIONS: Final = 64
"""Output positions looked at per sample, at most."""


def equalize_outputs_like_tengine(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Scales of all int8 layers as Tengine's EQ chooses them.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    graph = candidate.quantized()
    layers = {layer.node: layer for layer in coded_layers(candidate, graph)}
    runs = data.runs[:MOST_SAMPLES]
    sets = list(in_sets(list(layers), lambda node: _bytes_of_columns(node, len(runs))))
    counter = SampleCounter("comparing outputs", len(sets) * len(runs), data.progress)
    changed: dict[str, LayerRows] = {}
    for some in sets:
        inputs_of_all = _inputs(candidate.model, some, runs, data.threads, counter)
        for node, inputs in zip(some, inputs_of_all, strict=True):
            layer = layer_rows(layers[node], candidate.scheme)
            scales = layer.zoomed(layer.plain, tengine_zooms(layer, inputs, graph.qparams, data.threads))
            if np.any(scales != layer.scales):
                changed[layer.name] = replace(layer, scales=scales, codes=layer.rounded(scales))
    return with_rows(candidate, changed), RepairReport(tuple(changed))


def _bytes_of_columns(node: ir.Node, runs: int) -> int:
    rows = to_rows(Layer(node), Layer(node).array)
    size: int = rows.shape[2]
    return 8 * len(rows) * size * POSITIONS * max(runs, 1)


def _inputs(
    model: ir.Model, nodes: list[ir.Node], runs: tuple[Arrays, ...], threads: int, counter: SampleCounter
) -> Iterator[Floats]:
    """Float inputs of layers as columns [groups, d, n], layer by layer."""
    taps = Taps(model, [source_name(node) for node in nodes], threads)
    parts: list[list[npt.NDArray[np.float32]]] = [[] for _ in nodes]
    for run, feeds in enumerate(runs):
        arrays = taps.values(feeds)
        for node, found in zip(nodes, parts, strict=True):
            found.append(columns(Layer(node), arrays[source_name(node)], POSITIONS, run))
        counter(1)
    del taps
    for found in parts:
        yield np.concatenate(found, axis=2).astype(np.float64)
        found.clear()


def tengine_zooms(layer: LayerRows, inputs: Floats, qparams: Mapping[str, QParams], threads: int) -> Floats:
    """The zoom of every row, [groups, rows].

    Args:
        layer: weights.
        inputs: float columns [groups, d, n].
        qparams: tensor → code; that of the layer's output, if there is one, rounds ŷ.
        threads: for the products; the result does not depend on it.
    """
    spec = layer.scheme.activations
    code = qparams[source_name(layer.node)]
    coded = dequantize(_integers(inputs, code, spec), code.scale, code.zero_point).astype(np.float64)
    expected = _outputs(layer, layer.weights, inputs, threads)
    best = np.full(layer.scales.shape, TENGINE_ZOOMS[-1])
    largest = np.full(layer.scales.shape, -1.0)
    for zoom in TENGINE_ZOOMS:
        scales = layer.zoomed(layer.plain, zoom)
        outputs = _outputs(layer, scales[..., None] * layer.rounded(scales), coded, threads)
        result = qparams.get(_last(layer.node).outputs[0].name or "")
        if result is not None:
            codes = _integers(outputs, result, spec)
            outputs = dequantize(codes, result.scale, result.zero_point).astype(np.float64)
        cosines = _cosines(expected, outputs)
        cosines = shared_costs(layer, cosines) / shared_costs(layer, np.ones(cosines.shape))
        better = cosines > largest
        best, largest = np.where(better, zoom, best), np.where(better, cosines, largest)
    return best


def _integers(values: Floats, code: QParams, spec: QuantSpec) -> npt.NDArray[np.integer]:
    found: npt.NDArray[np.integer] = quantize(values, code.scale, code.zero_point, spec).astype(np.int64)
    return found


def _last(node: ir.Node) -> ir.Node:
    """The activation that is fused behind a layer, or the layer."""
    return activation_behind(node) or node


def _outputs(layer: LayerRows, weights: Floats, inputs: Floats, threads: int) -> Floats:
    """Outputs [groups, rows, n] of a layer with these weights, its activation included."""
    result = second_order.multiply(weights, inputs, threads)
    bias = constant(layer.layer.bias)
    if bias is not None:
        every = np.broadcast_to(bias.astype(np.float64).reshape(-1), layer.scales.size)
        result += every.reshape(layer.scales.shape)[..., None]
    fused = activation_behind(layer.node)
    low, high = (-math.inf, math.inf) if fused is None else clip_limits(fused)
    return np.clip(result, low, high)


def _cosines(left: Floats, right: Floats) -> Floats:
    """Cosine of every row, 0 where one is all zero."""
    lengths = np.sqrt(np.sum(left * left, axis=2) * np.sum(right * right, axis=2))
    products = np.sum(left * right, axis=2)
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0.0))
