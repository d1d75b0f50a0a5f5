"""Scales of weights searched channel by channel, from s₀ on, that of plain rounding (max|W| / 127 or more).

    by weights   s ∈ s₀ · (1 − k/100), k = 0 … 50        least  Σ (s·q − W)²
    EQ           s ∈ s₀ · linspace(0.5, 1.2, 71)         least  e H eᵀ,  e = s·q − W

H holds the mean products of the layer's coded inputs, so EQ compares the squared errors of a channel's
outputs on all of them. 1.0 is on both grids and wins where nothing is better: no channel gets worse by its
own measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import coded_layers
from calib8.repair.layer_rows import (
    Floats,
    LayerRows,
    layer_rows,
    passed_over,
    rounded_layers,
    row_costs,
    shared_costs,
    with_rows,
)
from calib8.repair.second_order_rounding import damped_products

SHRINKING: Final = 1.0 - np.arange(51) / 100.0
"""Of the search by weights."""

ZOOMS: Final = np.linspace(0.5, 1.2, 71)
"""Of EQ; index 50 is 1.0."""


def search_weight_scales(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Scales with the least squared error of the weights themselves; the data are not looked at.

    Layers whose codes a correction gives already are rounded plainly at the scales found.

    Raises:
        TableError: the table lacks a tensor.
    """
    del data
    layers = coded_layers(candidate, candidate.quantized())
    found = (layer_rows(layer, candidate.scheme) for layer in layers)
    return _searched(candidate, ((layer, None) for layer in found), SHRINKING, 1)


def equalize_outputs(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """EQ: scales with the least squared error of the layer's outputs.

    Args:
        candidate: see ``Candidate``.
        data: what the layers' inputs are taken from.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    graph = candidate.quantized()
    layers = coded_layers(candidate, graph)
    rows = rounded_layers(candidate, graph, layers, data)
    found = ((layer, damped_products(moments)) for layer, moments in rows)
    repaired, report = _searched(candidate, found, ZOOMS, data.threads)
    return repaired, replace(report, notes=(*report.notes, *passed_over(layers)))


def _searched(
    candidate: Candidate,
    layers: Iterator[tuple[LayerRows, Floats | None]],
    zooms: npt.NDArray[np.float64],
    threads: int,
) -> tuple[Candidate, RepairReport]:
    changed: dict[str, LayerRows] = {}
    channels = moved = 0
    for layer, products in layers:
        best = best_zooms(layer, products, zooms, threads)
        scales = layer.zoomed(layer.plain, best)
        other = scales != layer.plain
        channels, moved = channels + other.size, moved + int(np.sum(other))
        if np.any(other):
            changed[layer.name] = replace(layer, scales=scales, codes=layer.rounded(scales))
    notes = (f"{moved} of {channels} channels got another scale",)
    return with_rows(candidate, changed), RepairReport(tuple(changed), notes if changed else ())


def best_zooms(
    layer: LayerRows, products: Floats | None, zooms: npt.NDArray[np.float64], threads: int
) -> Floats:
    """For every row the zoom whose plainly rounded codes cost least, [groups, rows]; at a tie 1.0.

    Args:
        layer: the weights; rows that share a scale choose together.
        products: H; None: costs are squared errors of the weights.
        zooms: candidates; 1.0 is tried in any case.
        threads: for the products; the result does not depend on it.
    """

    def costs(zoom: float) -> Floats:
        scales = layer.zoomed(layer.plain, zoom)
        codes = layer.rounded(scales)
        if products is None:
            errors = scales[..., None] * codes - layer.weights
            found = np.asarray(np.sum(errors * errors, axis=2))
        else:
            found = row_costs(layer, scales, codes, products, threads)
        return shared_costs(layer, found)

    least = costs(1.0)
    best = np.ones(least.shape)
    for zoom in zooms:
        found = costs(float(zoom))
        better = found < least
        best, least = np.where(better, zoom, best), np.where(better, found, least)
    return best
