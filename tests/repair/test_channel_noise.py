"""The noise that factors are chosen by: its formula in loops, its derivative, and minima known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.repair.channel_noise import ORDER, LayerTerm, TensorTerm, least_noise, noise_of

CHANNELS, GROUPS, OUTPUTS = 6, 2, 5


def tensor_term(random: np.random.Generator) -> TensorTerm:
    classes = np.array([0, 3, 1, 4, 2, 5])
    above, below = (np.abs(random.normal(size=CHANNELS)) for _ in range(2))
    return TensorTerm(classes, above, below, np.abs(random.normal(size=CHANNELS)))


def layer_term(random: np.random.Generator) -> LayerTerm:
    inputs = CHANNELS // GROUPS
    weight = np.abs(random.normal(size=(GROUPS, OUTPUTS, inputs)))
    power, share = (np.abs(random.normal(size=shape)) for shape in ((GROUPS, inputs), (GROUPS, OUTPUTS)))
    return LayerTerm(np.array([[1, 0, 3], [2, 5, 4]]), weight**ORDER, power, share)


def norm(values: list[float]) -> float:
    return float(sum(value**ORDER for value in values)) ** (1 / ORDER)


def test_noise_of_a_tensor_is_the_formula() -> None:
    random = np.random.default_rng(1)
    term, factors = tensor_term(random), np.exp(random.normal(size=CHANNELS))
    s = [factors[one] for one in term.classes]
    width = sum(norm([a * b for a, b in zip(s, side, strict=True)]) for side in (term.above, term.below))
    heard = sum(i / f**2 for i, f in zip(term.importance, s, strict=True))
    assert noise_of([term], factors)[0] == pytest.approx((width / 255) ** 2 / 12 * heard)


def test_noise_of_a_layer_is_the_formula() -> None:
    random = np.random.default_rng(2)
    term, factors = layer_term(random), np.exp(random.normal(size=CHANNELS))
    total = 0.0
    for group in range(GROUPS):
        s = [factors[one] for one in term.classes[group]]
        heard = sum(m * f * f for m, f in zip(term.power[group], s, strict=True))
        for output in range(OUTPUTS):
            row = term.magnitudes[group, output] ** (1 / ORDER)
            step = norm([w / f for w, f in zip(row, s, strict=True)])
            total += term.share[group, output] * step**2 * heard
    assert noise_of([term], factors)[0] == pytest.approx(total)


@pytest.mark.parametrize("make", [tensor_term, layer_term])
def test_the_derivative_is_that_of_small_steps(make: object) -> None:
    random = np.random.default_rng(3)
    term, x = make(random), random.normal(size=CHANNELS)  # type: ignore[operator]
    slopes = noise_of([term], np.exp(x))[1]
    for index in range(CHANNELS):
        step = np.eye(CHANNELS)[index] * 1e-6
        high, low = (noise_of([term], np.exp(x + sign * step))[0] for sign in (1, -1))
        expected = (high - low) / 2e-6
        assert slopes.rising[index] - slopes.falling[index] == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert np.all(slopes.rising >= 0.0) and np.all(slopes.falling >= 0.0)


def test_channels_of_one_tensor_become_alike() -> None:
    """Without weights, all that matters is that every channel fills the range: s = c / reach."""
    reach = np.array([1.0, 0.5, 0.01, 4.0, 0.1])
    term = TensorTerm(np.arange(1, 6), reach, np.zeros(5), reach**-2)
    found = least_noise([term], np.array([False, True, True, True, True, True]))
    even = found.factors[1:] * reach
    assert np.max(even) / np.min(even) < 2**0.26
    assert found.factors[0] == 1.0 and found.after < found.before / 100


def test_weights_hold_back() -> None:
    """With codes of activations that cost nothing, rows of weights become alike: s = |W|."""
    sizes = np.array([1.0, 0.1, 8.0])
    layer = LayerTerm(
        np.array([[1, 2, 3]]), (sizes**ORDER)[None, None], 1.0 / sizes[None] ** 2, np.ones((1, 1))
    )
    found = least_noise([layer], np.array([False, True, True, True]))
    even = found.factors[1:] / sizes
    assert np.max(even) / np.min(even) < 2**0.26


def test_what_is_not_free_stays_and_factors_are_eighths_of_powers_of_two() -> None:
    random = np.random.default_rng(4)
    free = np.array([False, True, False, True, True, True])
    found = least_noise([tensor_term(random), layer_term(random)], free)
    assert np.all(found.factors[~free] == 1.0) and np.any(found.factors[free] != 1.0)
    parts = np.log2(found.factors) * 8
    np.testing.assert_allclose(parts, np.round(parts), atol=1e-9)
    assert found.after < found.before
