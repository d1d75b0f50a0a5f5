"""Weights rounded so that the outputs of their layer change least: GPTQ's order, then single codes moved.

    loss of a row    e H eᵀ,   e = s·q − w           H: mean products of the layer's coded inputs
    shrinkage        H' = (1 − a) H + a diag(H)      a = d / (d + n) for d inputs and n columns
    damping          H' + λ · mean(diag H') · I
    in turn          H' = L D Lᵀ;   q_k = clip(rint((w_k − Σ_{i>k} e_i L_ik) / s))
    descent          q_k += rint(−(e H')_k / (s H'_kk))        one code after the other, while any moves

The scale stays what it was. An input that is always zero has no products: its weights are rounded plainly
(GPTQ sets them to 0, which is wrong as soon as another image brings it to life). A row that would not gain
by H' keeps the codes it had. With ``centered``, H holds the products of deviations from the
mean: right where a bias correction follows, which takes the mean error away.

Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ", 2022: their factor of the inverse of H gives the same codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8._core import second_order
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.layer_rows import LayerRows, rounded_layers, row_costs, with_rows
from calib8.repair.moments import Moments

NAME: Final = "round"
DAMPING: Final = 0.01
"""Share of the mean diagonal entry that is added to all."""

SWEEPS: Final = 8
"""Most times that each row is gone through after rounding in turn."""

Floats = npt.NDArray[np.float64]


def second_order_rounding(
    candidate: Candidate,
    data: RepairData,
    *,
    centered: bool = False,
    damping: float = DAMPING,
    largest_first: bool = False,
    sweeps: int = SWEEPS,
) -> tuple[Candidate, RepairReport]:
    """Rounds the weights of all int8 layers anew.

    Args:
        candidate: see ``Candidate``; scales of its corrections are kept.
        data: what the layers' inputs are taken from.
        centered: a bias correction follows.
        damping: λ, > 0.
        largest_first: inputs of most energy are rounded first, GPTQ's act-order; else the last ones.
        sweeps: of the descent, 0 for none.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    changed: dict[str, LayerRows] = {}
    before = after = 0.0
    for layer, moments in rounded_layers(candidate, data):
        products = damped_products(moments, centered=centered, damping=damping)
        codes = rounded_in_turn(layer, products, data.threads, largest_first=largest_first)
        codes = second_order.descend(
            layer.weights, layer.scales, products, codes, layer.limit, sweeps, data.threads
        )
        old = row_costs(layer, layer.scales, layer.codes, products, data.threads)
        new = row_costs(layer, layer.scales, codes, products, data.threads)
        better = new < old
        if np.any(better):
            kept = np.where(better[..., None], codes, layer.codes)
            changed[layer.name] = replace(layer, codes=kept)
            before, after = before + 1, after + float(np.sum(np.minimum(new, old)) / np.sum(old))
    notes = (f"error energy of the layers' outputs by weights: {after / before:.0%}",) if before else ()
    return with_rows(candidate, changed), RepairReport(NAME, tuple(changed), notes)


def damped_products(moments: Moments, *, centered: bool, damping: float) -> Floats:
    """H of a layer, shrunk and damped, [groups, d, d]; its diagonal is positive."""
    products = moments.products(centered=centered)
    size = products.shape[1]
    diagonal = np.maximum(np.einsum("gdd->gd", products), 0.0)
    products *= moments.count / (size + moments.count)
    mean = np.mean(diagonal, axis=1, keepdims=True)
    added = damping * np.where(mean > 0.0, mean, 1.0)
    index = np.arange(size)
    products[:, index, index] = diagonal + added
    return products


def rounded_in_turn(
    layer: LayerRows, products: Floats, threads: int, *, largest_first: bool = False
) -> npt.NDArray[np.int8]:
    """Codes [groups, rows, d] of a layer that carry errors on; see the top of the file."""

    def in_turn(weights: Floats, products: Floats) -> npt.NDArray[np.int8]:
        factors = second_order.factor(products, threads)
        return second_order.round_in_turn(weights, layer.scales, factors, layer.limit, threads)

    if not largest_first:
        return in_turn(layer.weights, products)
    order = np.argsort(np.einsum("gdd->gd", products), axis=1, kind="stable")
    turned = np.take_along_axis(np.take_along_axis(products, order[:, :, None], 1), order[:, None, :], 2)
    weights = np.take_along_axis(layer.weights, order[:, None, :], 2)
    codes = in_turn(np.ascontiguousarray(weights), np.ascontiguousarray(turned))
    result = np.empty_like(codes)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], codes.shape), codes, 2)
    return result
