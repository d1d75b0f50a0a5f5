"""Gradients of what is learned: scales (LSQ) and the bounds of ranges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gradients import gradient, noise
from torch import Tensor

from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec
from calib8.table import Range
from calib8.training.fake_quantizer import FakeQuantizer
from calib8.training.functional import (
    fake_quantize_lsq,
    fake_quantize_range,
)

# Learned scales.


def lsq_gradient(
    x: Tensor,
    scale: Tensor,
    zero_point: int,
    qmin: int,
    qmax: int,
    axis: int | None = None,
    grad: Tensor | None = None,
) -> Tensor:
    return gradient(lambda s: fake_quantize_lsq(x, s, zero_point, qmin, qmax, axis), scale, grad)


def test_the_learned_step_of_one_value() -> None:
    """v = x / s; with N = 1 and 1 step the factor is 1."""
    scale = torch.tensor(0.5)
    for v, slope in ((0.3, -0.3), (0.75, 0.25), (-0.75, -0.25), (1.0, 0.0), (1.25, 1.0), (-9.0, -1.0)):
        x = torch.tensor(v * 0.5)
        assert float(lsq_gradient(x, scale, 0, -1, 1)) == pytest.approx(slope, abs=1e-6)
        dx = gradient(lambda x: fake_quantize_lsq(x, scale, 0, -1, 1), x)
        assert float(dx) == (1.0 if abs(v) <= 1 else 0.0)


def test_the_slope_is_divided_by_the_root_of_values_times_steps() -> None:
    x = torch.tensor([[100.0, 100.0, -100.0], [100.0, 0.0, 0.0]])
    assert float(lsq_gradient(x, torch.tensor(0.1), 0, -128, 127)) == pytest.approx(
        (3 * 127 - 128) / (6 * 128) ** 0.5
    )
    assert float(lsq_gradient(x, torch.tensor(0.1), 23, 0, 255)) == pytest.approx(
        (3 * 232 - 23) / (6 * 232) ** 0.5
    )
    rows = lsq_gradient(x, torch.tensor([0.1, 0.1]), 0, -7, 7, axis=0)
    assert rows.tolist() == pytest.approx([7 / 21**0.5, 7 / 21**0.5])


def slope_by_loop(x: float, scale: float, low: int, high: int) -> float:
    v = x / scale
    return low if v < low else high if v > high else round(v) - v


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_learned_step_is_the_sum_of_a_plain_loop(
    axis: int | None, memory_format: torch.memory_format
) -> None:
    x, grad = noise(3, 3, 4, 5), noise(3, 3, 4, 5, seed=1)
    scale = torch.tensor(0.2) if axis is None else torch.tensor([0.1, 0.2, 0.3])
    wanted = np.zeros(scale.shape)
    for index in np.ndindex(*x.shape):
        at = () if axis is None else (index[axis],)
        slope = slope_by_loop(float(x[index]), float(scale[at]), -8 - 1, 7 - 1)
        wanted[at] += float(grad[index]) * slope / (x.numel() / scale.numel() * 9) ** 0.5
    given_x = x.to(memory_format=memory_format)
    np.testing.assert_allclose(
        lsq_gradient(given_x, scale, 1, -8, 7, axis, grad).numpy(), wanted, rtol=1e-5, atol=1e-6
    )


def test_the_learned_step_is_that_of_pytorch() -> None:
    """Away from the half step beyond the last code: there PyTorch asks the code, not the real value."""
    v = noise(1000) * 6
    x = v[(v < -8) | (v > 7) | ((v > -7.4) & (v < 6.4))] * 0.25
    for zero_point in (0, 1):
        low, high = -7 - zero_point, 7 - zero_point
        inside = x[
            (x <= high * 0.25) & (x >= low * 0.25) | (x > high * 0.25 + 0.13) | (x < low * 0.25 - 0.13)
        ]
        grad, scale = noise(len(inside), seed=2), torch.tensor([0.25], requires_grad=True)
        factor = (len(inside) * max(-low, high)) ** -0.5
        foreign = torch._fake_quantize_learnable_per_tensor_affine(
            inside, scale, torch.tensor([float(zero_point)]), -7, 7, factor
        )
        (wanted,) = torch.autograd.grad(foreign, scale, grad)
        found = lsq_gradient(inside, torch.tensor(0.25), zero_point, -7, 7, grad=grad)
        assert float(found) == pytest.approx(float(wanted), rel=1e-4)


def test_the_learned_step_is_the_derivative_of_its_surrogate() -> None:
    """Inside, y = s · (x/s + r) with the rounding r held; numerically, in float64."""
    x, scale = noise(500).double() * 3, 0.25
    v = x / scale
    held = torch.round(v) - v

    def surrogate(s: float) -> float:
        return float((s * torch.where((v < -8) | (v > 7), v.clamp(-8, 7), x / s + held)).sum())

    numeric = (surrogate(scale + 1e-5) - surrogate(scale - 1e-5)) / 2e-5
    found = lsq_gradient(x, torch.tensor(scale, dtype=torch.float64), 0, -8, 7)
    assert float(found) * (500 * 8) ** 0.5 == pytest.approx(numeric, rel=1e-6)


def test_gradcheck_of_a_learned_step_beyond_all_codes() -> None:
    scale = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    for far in (9.0, -9.0):
        x = torch.tensor(far, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, s: fake_quantize_lsq(x, s, 0, -1, 1).square(), (x, scale))


def test_a_scale_that_fell_below_zero_finds_back() -> None:
    x, scale = noise(1000), torch.nn.Parameter(torch.tensor(-0.5))
    optimizer = torch.optim.SGD([scale], lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        (fake_quantize_lsq(x, scale, 0, -8, 7) - x).square().mean().backward()
        optimizer.step()
    assert 0.2 < scale.item() < 0.6


# Trained ranges.


def range_gradients(
    x: Tensor, ends: tuple[float, float], grad: Tensor, symmetric: bool = False
) -> list[Tensor]:
    qmin = -128 if symmetric else 0
    inputs = [value.requires_grad_() for value in (x.clone(), torch.tensor(ends[0]), torch.tensor(ends[1]))]
    y = fake_quantize_range(*inputs, qmin, qmin + 255, symmetric)
    return list(torch.autograd.grad(y, inputs, grad))


def test_the_worked_gradients_of_a_range() -> None:
    dx, below, above = range_gradients(torch.tensor([-2.0, -0.5, 0.3, 3.0]), (-1.0, 1.0), torch.ones(4))
    assert dx.tolist() == [0, 1, 1, 0]
    assert (float(below), float(above)) == (1.0, 1.0)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1.5), (-0.3, 0.9), (0.2, 1.0), (-1.0, 0.0), (0.0, 0.0)])
def test_each_bound_gets_the_sum_of_what_lies_beyond(ends: tuple[float, float], symmetric: bool) -> None:
    x, grad = noise(2, 3, 10, 10), noise(2, 3, 10, 10, seed=1)
    reach = fake_quantize_range(
        torch.tensor([-99.0, 99.0]),
        *map(torch.tensor, ends),
        -128 * symmetric,
        255 - 128 * symmetric,
        symmetric,
    )
    low, high = reach
    for given_x in (x, x.to(memory_format=torch.channels_last)):
        dx, below, above = range_gradients(given_x, ends, grad, symmetric)
        assert torch.equal(dx, torch.where((low <= x) & (x <= high), grad, 0.0))
        assert float(below) == pytest.approx(float(grad[x < low].sum()), abs=1e-4)
        assert float(above) == pytest.approx(float(grad[x > high].sum()), abs=1e-4)


def test_a_side_without_clipped_values_gets_exactly_nothing() -> None:
    x, grad = noise(5000).abs(), noise(5000, seed=1) * 1e4
    _, below, above = range_gradients(x, (-0.1, 1.0), grad)
    assert float(below) == 0.0
    assert float(above) != 0.0


def test_gradcheck_of_the_bound_that_values_meet() -> None:
    """A range that starts at 0 ends at its maximum, one that ends at 0 starts at its minimum."""
    zero, one = torch.tensor(0.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    options = {"eps": 1e-2, "atol": 1e-4}
    assert torch.autograd.gradcheck(
        lambda x, top: fake_quantize_range(x, zero, top, 0, 255), (x, one.clone().requires_grad_()), **options
    )
    assert torch.autograd.gradcheck(
        lambda x, end: fake_quantize_range(-x, end, zero, 0, 255), (x, (-one).requires_grad_()), **options
    )


def test_a_range_learns_to_cover_its_values() -> None:
    x = noise(2000)
    ends = [torch.nn.Parameter(torch.tensor(-0.1)), torch.nn.Parameter(torch.tensor(0.1))]
    optimizer = torch.optim.SGD(ends, lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        (fake_quantize_range(x, *ends, 0, 255) - x).square().mean().backward()
        optimizer.step()
    assert ends[0].item() < -1.5
    assert ends[1].item() > 1.5


@pytest.mark.parametrize("spec", [UINT8, INT8, INT8_SYMMETRIC], ids=["uint8", "int8", "symmetric"])
def test_a_learned_scale_counts_by_its_magnitude(spec: QuantSpec) -> None:
    """A step of the optimizer may take it below zero: the range that it stands for stays one."""
    x = torch.linspace(-3.0, 3.0, 101)
    found = []
    for sign in (1.0, -1.0):
        quantizer = FakeQuantizer(spec)
        quantizer.active = True
        quantizer.learn(Range(-2.0, 2.0), "lsq")
        with torch.no_grad():
            quantizer.step.fill_(0.02 * sign)  # type: ignore[union-attr]
        low, high = quantizer.bounds()
        assert low <= 0.0 < high
        assert high - low == pytest.approx(0.02 * (spec.qmax - spec.qmin))
        found.append((low, high, quantizer.coded(x).tolist()))
    assert found[0] == found[1]
