"""Weights rounded so that the outputs of their layer change least: GPTQ's order, then single codes moved.

    loss of a row    e H eᵀ,   e = s·q − w           H: mean products of the layer's coded inputs
    shrinkage        H' = (1 − a) H + a diag(H)      a = d / (d + n) for d inputs and n columns
    damping          H' + λ · mean(diag H') · I
    in turn          H' = L D Lᵀ;   q_k = clip(rint((w_k − Σ_{i>k} e_i L_ik) / s))
    descent          q_k += rint(−(e H')_k / (s H'_kk))        one code after the other, while any moves

The scale stays what it was. An input that is always zero has no products: its weights are rounded plainly
(GPTQ sets them to 0, which is wrong as soon as another image brings it to life). A row that would not gain
by H' keeps the codes it had.

Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ", 2022: their factor of the inverse of H gives the same codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from calib8._core import second_order
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.layer_rows import Floats, LayerRows, rounded_layers, row_costs, with_rows
from calib8.repair.moments import Moments

NAME: Final = "round"
DAMPING: Final = 0.01
"""Share of the mean diagonal entry that is added to all."""

SWEEPS: Final = 8
"""Most times that each row is gone through after rounding in turn."""


def second_order_rounding(
    candidate: Candidate,
    data: RepairData,
    *,
    damping: float = DAMPING,
    sweeps: int = SWEEPS,
) -> tuple[Candidate, RepairReport]:
    """Rounds the weights of all int8 layers anew.

    Args:
        candidate: see ``Candidate``; scales of its corrections are kept.
        data: what the layers' inputs are taken from.
        damping: λ, > 0.
        sweeps: of the descent, 0 for none.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    changed: dict[str, LayerRows] = {}
    shares: list[float] = []
    for layer, moments in rounded_layers(candidate, data):
        products = damped_products(moments, damping)
        factors = second_order.factor(products, data.threads)
        codes = second_order.round_in_turn(layer.weights, layer.scales, factors, layer.limit, data.threads)
        codes = second_order.descend(
            layer.weights, layer.scales, products, codes, layer.limit, sweeps, data.threads
        )
        old = row_costs(layer, layer.scales, layer.codes, products, data.threads)
        new = row_costs(layer, layer.scales, codes, products, data.threads)
        better = new < old
        if np.any(better):
            kept = np.where(better[..., None], codes, layer.codes)
            changed[layer.name] = replace(layer, codes=kept)
            shares.append(float(np.sum(np.minimum(new, old)) / np.sum(old)))
    notes = (f"mean error of a layer by its weights: {np.mean(shares):.0%} of what it was",) if shares else ()
    return with_rows(candidate, changed), RepairReport(NAME, tuple(changed), notes)


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
