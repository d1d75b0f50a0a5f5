"""Searched scales: what brute force finds, never worse by their own measure, groups that share one scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rounding_nets import candidate_and_data, noise, pictures, rows_and_moments, rows_of, same_codes

from calib8.qparams import QuantSpec
from calib8.repair.layer_rows import row_costs
from calib8.repair.second_order_rounding import damped_products
from calib8.repair.weight_scales import SHRINKING, ZOOMS, best_zooms, equalize_outputs, search_weight_scales


def test_the_grids() -> None:
    assert len(SHRINKING) == 51 and SHRINKING[0] == 1.0 and SHRINKING[-1] == 0.5
    assert len(ZOOMS) == 71 and ZOOMS[50] == 1.0 and ZOOMS[0] == 0.5 and ZOOMS[-1] == 1.2


def test_by_weights_finds_what_brute_force_finds() -> None:
    made, data = candidate_and_data()
    made = replace(made, scheme=replace(made.scheme, weights=QuantSpec(4, signed=True, symmetric=True)))
    found, report = search_weight_scales(made, data)
    assert report.layers
    moved = 0
    for node in made.model.graph:
        if node.op_type not in ("Conv", "Gemm"):
            continue
        layer, other = rows_of(made, node), rows_of(found, node)
        rows = layer.weights.reshape(-1, layer.weights.shape[2])
        for row, weights in enumerate(rows):
            scales = (np.float32(np.max(np.abs(weights)) / 7) * SHRINKING).astype(np.float32)
            codes = np.clip(np.rint(weights.astype(np.float32) / scales[:, None]), -7, 7)
            errors = np.sum((weights - scales[:, None].astype(np.float64) * codes) ** 2, axis=1)
            assert other.scales.reshape(-1)[row] == pytest.approx(scales[np.argmin(errors)], rel=1e-6)
            assert np.array_equal(other.codes.reshape(rows.shape)[row], codes[np.argmin(errors)])
            moved += int(np.argmin(errors) > 0)
    assert moved > 10


def test_eq_never_costs_a_channel_more_and_most_less() -> None:
    made, data = candidate_and_data()
    found, report = equalize_outputs(made, data)
    assert "channels got another scale" in report.notes[0]
    less = total = 0
    for layer, moments in rows_and_moments(made, data):
        products, other = damped_products(moments), rows_of(found, layer.node)
        old = row_costs(layer, layer.scales, layer.codes, products, 1)
        new = row_costs(layer, other.scales, other.codes, products, 1)
        if layer.node.op_type == "ConvTranspose":
            old, new = old.sum(axis=0), new.sum(axis=0)
            assert np.array_equal(other.scales[0], other.scales[1])
        assert np.all(new <= old)
        less, total = less + int(np.sum(new < old)), total + old.size
    assert less > 0.8 * total
    assert noise(found, pictures(20, seed=77)) < 0.8


def test_one_zoom_changes_nothing() -> None:
    made, data = candidate_and_data()
    for layer, moments in rows_and_moments(made, data):
        best = best_zooms(layer, damped_products(moments), np.array([1.0]), 1)
        assert np.all(best == 1.0)


def test_threads_leave_no_trace() -> None:
    made, data = candidate_and_data()
    first, _ = equalize_outputs(made, data)
    second, _ = equalize_outputs(made, replace(data, threads=3))
    assert same_codes(first, second)
