"""Weights rounded so that the outputs of their layer change least: GPTQ's order, then single codes moved.

    loss of a row    e H eᵀ,   e = s·q − w           H: mean products of the layer's coded inputs
    shrinkage        H' = (1 − a) H + a diag(H)      a = d / (d + n) for d inputs and n columns
    damping          H' + λ · mean(diag H') · I
    in turn          H' = L D Lᵀ;   q_k = clip(rint((w_k − Σ_{i>k} e_i L_ik) / s))
    descent          q_k += rint(−(e H')_k / (s H'_kk))        one code after the other, while any moves

All of it once per zoom of the scale, if there are several. Pairs of codes beyond the limit of the target are
brought back to it (``LayerRows.allowed``). An input that is always zero has no products:
its weights are rounded plainly (GPTQ sets them to 0, which is wrong as soon as another image brings it to
life). A row that would not gain by H' keeps the codes it had.

Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ", 2022: their factor of the inverse of H gives the same codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from calib8._core import second_order
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import coded_layers
from calib8.repair.layer_rows import (
    Floats,
    LayerRows,
    passed_over,
    rounded_layers,
    row_costs,
    shared_costs,
    with_rows,
)
from calib8.repair.moments import Moments

DAMPING: Final = 0.01
"""Share of the mean diagonal entry that is added to all."""

SWEEPS: Final = 8
"""Most times that each row is gone through after rounding in turn."""


def second_order_rounding(
    candidate: Candidate,
    data: RepairData,
    *,
    zooms: Sequence[float] = (1.0,),
    damping: float = DAMPING,
    sweeps: int = SWEEPS,
) -> tuple[Candidate, RepairReport]:
    """Rounds the weights of all int8 layers anew.

    Args:
        candidate: see ``Candidate``; its corrections' scales are what zooms start from.
        data: what the layers' inputs are taken from.
        zooms: factors of the scales to round with; each row takes that of least loss, the first at a tie.
        damping: λ, > 0.
        sweeps: of the descent, 0 for none.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    changed: dict[str, LayerRows] = {}
    shares: list[float] = []
    graph = candidate.quantized()
    layers = coded_layers(candidate, graph)
    for layer, moments in rounded_layers(candidate, graph, layers, data):
        products = damped_products(moments, damping)
        found, old, new = _least(layer, products, zooms, sweeps, data.threads)
        if np.any(new < old):
            changed[layer.name] = found
            shares.append(float(np.sum(new) / np.sum(old)))
    notes = (
        (f"rounding errors of weights: {np.mean(shares):.0%} of the error that plain rounding leaves",)
        if shares
        else ()
    )
    report = RepairReport(tuple(changed), (*notes, *passed_over(layers)))
    return with_rows(candidate, changed), report


def _least(
    layer: LayerRows, products: Floats, zooms: Sequence[float], sweeps: int, threads: int
) -> tuple[LayerRows, Floats, Floats]:
    """The layer with the best codes found row by row, what its rows cost before, and what they cost now."""
    factors = second_order.factor(products, threads)
    plain = row_costs(layer, layer.scales, layer.codes, products, threads)
    best, old = layer, shared_costs(layer, plain)
    least = old
    for zoom in zooms:
        scales = layer.zoomed(layer.scales, zoom)
        codes = second_order.round_in_turn(layer.weights, scales, factors, layer.limit, threads)
        codes = second_order.descend(layer.weights, scales, products, codes, layer.limit, sweeps, threads)
        codes = layer.allowed(codes, scales)
        costs = row_costs(layer, scales, codes, products, threads)
        worse = (scales == layer.scales) & (costs >= plain)
        codes = np.where(worse[..., None], layer.codes, codes)
        costs = shared_costs(layer, np.where(worse, plain, costs))
        better = costs < least
        best = replace(
            best,
            scales=np.where(better, scales, best.scales),
            codes=np.where(better[..., None], codes, best.codes),
        )
        least = np.minimum(costs, least)
    return best, old, least


def damped_products(moments: Moments, damping: float = DAMPING) -> Floats:
    """H of a layer, shrunk and damped, [groups, d, d]; its diagonal is positive."""
    products = moments.products()
    size = products.shape[1]
    diagonal = np.maximum(np.einsum("gdd->gd", products), 0.0)
    products *= moments.count / (size + moments.count)
    mean = np.mean(diagonal, axis=1, keepdims=True)
    added = damping * np.where(mean > 0.0, mean, 1.0)
    index = np.arange(size)
    products[:, index, index] = diagonal + added
    return products
