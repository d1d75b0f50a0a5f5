"""AdaRound: its functions against published values and differences, its result against all roundings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rounding_nets import candidate_and_data, rows_and_moments, rows_of, same_codes

from calib8.repair.ada_round import Adam, ada_round, first_values, learned_codes, soft, undecided_slope
from calib8.repair.layer_rows import LayerRows, row_costs
from calib8.repair.second_order_rounding import damped_products


def test_first_values_are_the_published_ones() -> None:
    fractions = np.array([0.48, 0.72, 0.96])
    assert first_values(fractions) == pytest.approx([-0.06669, 0.76913, 2.02438], abs=1e-5)
    assert soft(first_values(fractions))[0] == pytest.approx(fractions)
    assert soft(first_values(np.array([0.0, 1.0])))[0] == pytest.approx([0.0, 1.0])


def test_slopes_are_those_of_small_differences() -> None:
    values, step = np.linspace(-2.0, 2.0, 9), 1e-6
    difference = (soft(values + step)[0] - soft(values - step)[0]) / (2 * step)
    assert soft(values)[1] == pytest.approx(difference, rel=1e-5)
    assert np.all(soft(np.array([-5.0, 5.0]))[1] == 0.0)
    share = np.linspace(0.05, 0.95, 8)

    def undecided(h: np.ndarray, beta: float) -> np.ndarray:
        return 1.0 - np.abs(2.0 * h - 1.0) ** beta

    for beta in (20.0, 7.0, 2.0):
        difference = (undecided(share + step, beta) - undecided(share - step, beta)) / (2 * step)
        assert undecided_slope(share, beta) == pytest.approx(difference, rel=1e-4, abs=1e-8)


def test_adam_takes_steps_of_its_rate_and_finds_the_bottom() -> None:
    optimizer = Adam(np.array([3.0, -2.0]), rate=0.1)
    optimizer.step(np.array([10.0, -0.001]))
    assert optimizer.values == pytest.approx([2.9, -1.9], abs=1e-4)
    for _ in range(500):
        optimizer.step(2 * (optimizer.values - [1.0, 4.0]))
    assert optimizer.values == pytest.approx([1.0, 4.0], abs=0.05)


def tiny_layer() -> tuple[LayerRows, np.ndarray]:
    made, _ = candidate_and_data()
    node = next(node for node in made.model.graph if node.op_type == "MatMul")
    rng = np.random.default_rng(5)
    mixed = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 50)) + 0.1 * rng.standard_normal((8, 50))
    weights = rng.standard_normal((1, 6, 8))
    scales = np.max(np.abs(weights), axis=2) / 20.0
    blank = replace(rows_of(made, node), weights=weights, scales=scales)
    return replace(blank, codes=blank.rounded(scales)), (mixed @ mixed.T / 50)[None]


def test_few_of_all_roundings_up_and_down_are_better() -> None:
    layer, products = tiny_layer()
    found = learned_codes(layer, products, 1000, 1.0, 1)
    floor = np.floor(layer.weights / layer.scales[..., None])
    assert set(np.unique(found - floor)) == {0.0, 1.0}
    ups = np.array(list(product((0, 1), repeat=8)))
    mine = row_costs(layer, layer.scales, found, products, 1)[0]
    better = []
    for row in range(6):
        errors = layer.scales[0, row] * (floor[0, row] + ups) - layer.weights[0, row]
        every = np.einsum("ni,ij,nj->n", errors, products[0], errors)
        better.append(float(np.mean(every < mine[row] * (1 - 1e-9))))
    assert max(better) < 0.25 and np.mean(better) < 0.1


def test_layers_never_cost_more() -> None:
    made, data = candidate_and_data()
    found, report = ada_round(made, data, steps=300)
    assert report.layers
    old = new = 0.0
    for layer, moments in rows_and_moments(made, data):
        products, other = damped_products(moments), rows_of(found, layer.node)
        before = row_costs(layer, layer.scales, layer.codes, products, 1)
        after = row_costs(layer, layer.scales, other.codes, products, 1)
        assert np.all(after <= before)
        assert np.max(np.abs(other.codes - layer.weights / layer.scales[..., None])) < 1.0 + 1e-9
        old, new = old + float(np.mean(before / before.max())), new + float(np.mean(after / before.max()))
    assert new < 0.7 * old


def test_threads_leave_no_trace() -> None:
    made, data = candidate_and_data()
    first, _ = ada_round(made, data, steps=40)
    second, _ = ada_round(made, replace(data, threads=3), steps=40)
    assert same_codes(first, second)
