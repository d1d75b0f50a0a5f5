"""The native kernels of second-order rounding: slow definitions, a published vector, equal bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calib8._core import available_isas, second_order

SIZES = (1, 5, 63, 64, 65, 130)


def form(size: int, *, groups: int = 2, columns: int = 300, seed: int = 0) -> np.ndarray:
    """Products of correlated columns."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((groups, size, size)) @ rng.standard_normal((groups, size, columns))
    return np.ascontiguousarray(mixed @ mixed.transpose(0, 2, 1) / columns + 0.01 * np.eye(size))


def layer(size: int, *, groups: int = 2, rows: int = 37) -> tuple[np.ndarray, np.ndarray]:
    weights = np.random.default_rng(size).standard_normal((groups, rows, size))
    return weights, np.max(np.abs(weights), axis=2) / 7.0


def costs(weights: np.ndarray, scales: np.ndarray, products: np.ndarray, codes: np.ndarray) -> np.ndarray:
    errors = scales[..., None] * codes - weights
    return np.einsum("gri,gij,grj->gr", errors, products, errors)


def plain(weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(weights / scales[..., None]), -127, 127).astype(np.int8)


def gptq(weights: np.ndarray, scale: float, products: np.ndarray) -> list[int]:
    """One row as published: columns from first to last, with the upper Cholesky factor of H⁻¹."""
    upper = np.linalg.cholesky(np.linalg.inv(products)).T
    left, codes = weights.copy(), []
    for k in range(len(weights)):
        codes.append(int(np.clip(np.rint(left[k] / scale), -127, 127)))
        left[k:] -= (left[k] - scale * codes[-1]) / upper[k, k] * upper[k, k:]
    return codes


def test_the_published_example() -> None:
    products = np.array([[[2.0, 1.8], [1.8, 2.0]]])
    weights, scales = np.array([[[0.12, 0.14]]]), np.array([[0.2]])  # from the last column to the first
    codes = second_order.round_in_turn(weights, scales, second_order.factor(products), 127)
    assert codes.tolist() == [[[0, 1]]]
    assert costs(weights, scales, products, codes)[0, 0] == pytest.approx(0.01008)
    assert costs(weights, scales, products, plain(weights, scales))[0, 0] == pytest.approx(0.03728)


@pytest.mark.parametrize("size", SIZES)
def test_factors_multiply_to_the_form(size: int) -> None:
    products = form(size)
    found = second_order.factor(products)
    lower = np.tril(found, -1) + np.eye(size)
    diagonal = np.einsum("gii->gi", found)
    again = lower * diagonal[:, None, :] @ lower.transpose(0, 2, 1)
    assert again == pytest.approx(products, rel=1e-9, abs=1e-9 * np.max(products))


@pytest.mark.parametrize("size", SIZES)
def test_rounding_in_turn_is_gptq_backwards(size: int) -> None:
    products = form(size)
    weights, scales = layer(size)
    codes = second_order.round_in_turn(weights, scales, second_order.factor(products), 127)
    for group in range(2):
        for row in (0, 36):
            turned = products[group, ::-1, ::-1]
            expected = gptq(weights[group, row, ::-1], scales[group, row], turned)[::-1]
            assert codes[group, row].tolist() == expected


@pytest.mark.parametrize("size", SIZES[1:])
def test_both_steps_lessen_the_loss(size: int) -> None:
    products = form(size)
    weights, scales = layer(size)
    rounded = plain(weights, scales)
    in_turn = second_order.round_in_turn(weights, scales, second_order.factor(products), 127)
    moved = second_order.descend(weights, scales, products, in_turn, 127, 8)
    before, between, after = (costs(weights, scales, products, q) for q in (rounded, in_turn, moved))
    assert np.all(after <= between * (1 + 1e-12))
    assert np.sum(after) <= np.sum(between) < 0.7 * np.sum(before)


def test_descent_ends_where_no_single_code_can_gain() -> None:
    products = form(20)
    weights, scales = layer(20)
    codes = second_order.descend(weights, scales, products, plain(weights, scales), 127, 1000)
    least = costs(weights, scales, products, codes)
    for k in range(20):
        for step in (-1, 1):
            other = codes.copy()
            other[..., k] += step
            assert np.all(costs(weights, scales, products, other) >= least * (1 - 1e-9))


def test_no_sweep_changes_nothing() -> None:
    weights, scales = layer(9)
    codes = plain(weights, scales)
    assert np.array_equal(second_order.descend(weights, scales, form(9), codes, 127, 0), codes)


def test_codes_stay_within_the_limit() -> None:
    products = form(40)
    weights, scales = layer(40)
    codes = second_order.round_in_turn(weights, scales, second_order.factor(products), 5)
    assert np.max(np.abs(codes)) == 5
    assert np.max(np.abs(second_order.descend(weights, scales, products, codes, 5, 8))) == 5


def test_a_singular_form_is_no_obstacle() -> None:
    ones = np.ones((1, 6, 6))
    found = second_order.factor(ones)
    assert np.all(np.isfinite(found)) and found[0, 0, 0] == 1.0 and np.all(found[0, 1:, 0] == 1.0)
    assert not np.any(np.tril(found[0, 1:, 1:], -1))
    dead = np.zeros((1, 6, 6))
    weights, scales = layer(6, groups=1, rows=3)
    codes = second_order.round_in_turn(weights, scales, second_order.factor(dead), 127)
    assert np.array_equal(codes, plain(weights, scales))
    assert np.array_equal(second_order.descend(weights, scales, dead, codes, 127, 3), codes)


@pytest.mark.parametrize(("rows", "size", "columns"), [(1, 1, 1), (5, 300, 9), (33, 17, 70)])
def test_products_of_matrices(rows: int, size: int, columns: int) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((3, rows, size)), rng.standard_normal((3, size, columns))
    assert second_order.multiply(left, right) == pytest.approx(left @ right, abs=1e-12 * size)


def everything(threads: int) -> bytes:
    """Bytes of all results for one odd size."""
    products, (weights, scales) = form(150), layer(150)
    factors = second_order.factor(products, threads)
    codes = second_order.round_in_turn(weights, scales, factors, 127, threads)
    moved = second_order.descend(weights, scales, products, codes, 127, 8, threads)
    product = second_order.multiply(weights, products, threads)
    return b"".join(array.tobytes() for array in (factors, codes, moved, product))


def test_threads_leave_no_trace() -> None:
    single = form(150, groups=1)
    assert everything(1) == everything(2) == everything(5)
    assert np.array_equal(second_order.factor(single, 1), second_order.factor(single, 3))


def test_instruction_sets_leave_no_trace() -> None:
    script = "import sys, test_second_order_kernels as t; sys.stdout.buffer.write(t.everything(1))"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "CALIB8_ISA": isa, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for isa in {available_isas()[0], "reference"}
    }
    assert found == {everything(2)}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"limit": 128}, "limit"),
        ({"threads": 0}, "threads"),
        ({"scales": np.zeros((2, 37))}, "not positive"),
        ({"scales": np.ones((2, 36))}, "scale per row"),
        ({"factors": np.ones((2, 8, 9))}, "square"),
        ({"factors": np.ones((1, 9, 9))}, "as many"),
        ({"factors": np.ones((2, 8, 8))}, "one size"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict, problem: str) -> None:
    weights, scales = layer(9)
    given = {"weights": weights, "scales": scales, "factors": form(9), "limit": 127, "threads": 1} | change
    with pytest.raises(ValueError, match=problem):
        second_order.round_in_turn(**given)


def test_codes_of_another_shape_are_refused() -> None:
    weights, scales = layer(9)
    with pytest.raises(ValueError, match="code per weight"):
        second_order.descend(weights, scales, form(9), np.zeros((2, 37, 8), np.int8), 127, 1)
    with pytest.raises(ValueError, match="sweeps"):
        second_order.descend(weights, scales, form(9), plain(weights, scales), 127, -1)
    with pytest.raises(ValueError, match="as long as"):
        second_order.multiply(weights, form(8))
