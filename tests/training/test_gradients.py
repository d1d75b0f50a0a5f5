"""Gradients through rounding: borders, sums, learned steps, trained ranges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calib8.qparams import FLOAT32_TINY
from calib8.training.functional import (
    fake_quantize,
    fake_quantize_lsq,
    fake_quantize_range,
    fake_quantize_weight,
)
from calib8.training.scales import weight_scale


def gradient(function: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor | None = None) -> Tensor:
    """What arrives at x for ``grad`` behind the function; ones by default."""
    x = x.detach().requires_grad_()
    y = function(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y) if grad is None else grad)
    return dx


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def neighbours(border: float) -> Tensor:
    """A float32 value between the one below and the one above."""
    at = np.float32(border)
    return torch.tensor([np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))])


# Straight through.


@pytest.mark.parametrize("scale", [0.1, 1.0 / 3.0, 6.0 / 255.0, 0.0043137254])
@pytest.mark.parametrize(
    ("qmin", "qmax", "zero_point"), [(0, 255, 23), (-128, 127, 0), (-128, 127, -127), (-7, 7, 0)]
)
def test_borders_let_the_gradient_through(scale: float, qmin: int, qmax: int, zero_point: int) -> None:
    step = np.float32(scale)
    low, high = neighbours(step * (qmin - zero_point)), neighbours(step * (qmax - zero_point))
    for given_scale, axis in ((scale, None), (torch.tensor(scale), None), (torch.tensor([scale]), 0)):

        def function(x: Tensor, given_scale: Tensor | float = given_scale, axis: int | None = axis) -> Tensor:
            return fake_quantize(x[None], given_scale, zero_point, qmin, qmax, axis)[0]

        assert gradient(function, low).tolist() == [0, 1, 1]
        assert gradient(function, high).tolist() == [1, 1, 0]


@pytest.mark.parametrize("flush", [False, True])
def test_zero_is_inside_where_it_is_the_border(flush: bool) -> None:
    x = torch.tensor([-FLOAT32_TINY, -0.0, 0.0, 0.1])
    torch.set_flush_denormal(flush)
    try:
        for scale, axis in ((torch.tensor(0.1), None), (torch.tensor([0.1]), 0)):
            dx = gradient(lambda x, s=scale, a=axis: fake_quantize(x[None], s, 0, 0, 255, a)[0], x)
            assert dx.tolist() == [0, 1, 1, 1]
    finally:
        torch.set_flush_denormal(False)


def test_the_gradient_passes_inside_and_nowhere_else() -> None:
    x, grad = noise(6, 3, 5, 4) * 20, noise(6, 3, 5, 4, seed=1)
    scale, zero_point = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([3, -128, 100])
    step, zero = scale.reshape(3, 1, 1), zero_point.reshape(3, 1, 1)
    inside = ((-128 - zero) * step <= x) & (x <= (127 - zero) * step)
    assert 0.1 < inside.float().mean() < 0.9
    dx = gradient(lambda x: fake_quantize(x, scale, zero_point, -128, 127, 1), x, grad)
    assert torch.equal(dx, torch.where(inside, grad, 0.0))
    first = gradient(lambda x: fake_quantize(x, scale[0], zero_point[0], -128, 127), x, grad)
    inside = ((-128 - 3) * scale[0] <= x) & (x <= (127 - 3) * scale[0])
    assert torch.equal(first, torch.where(inside, grad, 0.0))


def test_scales_that_are_not_learned_get_no_gradient() -> None:
    x, scale = noise(9).requires_grad_(), torch.tensor(0.1, requires_grad=True)
    (fake_quantize(x, scale, 0, -7, 7) + fake_quantize_weight(x, scale, 0, 7)).sum().backward()
    assert scale.grad is None
    assert x.grad is not None


def test_little_is_kept_for_the_backward_pass() -> None:
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    x = noise(100).bfloat16().requires_grad_()
    for function in (
        lambda: fake_quantize(x, 0.1, 3, 0, 255),
        lambda: fake_quantize_weight(x, torch.tensor(0.1), 0, 127),
        lambda: fake_quantize_range(x, torch.tensor(-1.0), torch.tensor(1.0), 0, 255),
    ):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            function()
        assert next(tensor for tensor in kept if tensor.numel() > 1) is x
        assert sum(tensor.numel() for tensor in kept) <= x.numel() + 2


# Weights.


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50), st.integers(2, 8))
def test_nothing_of_a_weight_is_clipped_by_its_own_scale(values: list[float], width: int) -> None:
    limit = 2 ** (width - 1) - 1
    w = torch.tensor([values, values[::-1]])
    for scale in (weight_scale(w, 0, limit), weight_scale(w, 0, limit, per_tensor=True)):
        assert gradient(lambda w, s=scale: fake_quantize_weight(w, s, 0, limit), w).eq(1).all()


def test_even_where_the_scale_was_rounded_down() -> None:
    w = noise(20000, 1).abs() + 1e-3
    scale = weight_scale(w, 0, 127)
    hidden = w[:, 0] > scale * 127
    assert 20 < hidden.sum() < 10000
    assert gradient(lambda w: fake_quantize_weight(w, scale, 0, 127), w).eq(1).all()
    following = torch.nextafter(w, torch.tensor(torch.inf))
    larger = weight_scale(following, 0, 127) > scale
    dx = gradient(lambda w: fake_quantize_weight(w, scale, 0, 127), following)[:, 0]
    assert torch.equal(dx, torch.where(larger, 0.0, 1.0))


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_beyond_their_codes_get_no_gradient(axis: int) -> None:
    w, grad = noise(4, 4, 3, 3), noise(4, 4, 3, 3, seed=1)
    shape = [1] * 4
    shape[axis] = 4
    for scale in (torch.tensor([0.1, 0.2, 0.3, 0.05]), torch.tensor(0.1)):
        dw = gradient(lambda w, s=scale: fake_quantize_weight(w, s, axis, 7), w, grad)
        reach = 7 * (scale.reshape(shape) if scale.ndim else scale)
        assert torch.equal(dw, torch.where(w.abs() <= reach, grad, 0.0))
        assert 0 < dw.count_nonzero() < dw.numel()


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


# The same for all.

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fake_quantize": lambda x, s: fake_quantize(x, s.max(), 3, 0, 255),
    "fake_quantize, all of it tensors": lambda x, s: fake_quantize(x, s, (s * 9).int(), 0, 255, 1),
    "weight": lambda x, s: fake_quantize_weight(x, s, 1, 127),
    "weight of its own scale": lambda x, _: fake_quantize_weight(x, weight_scale(x, 1, 127, True), 1, 127),
    "lsq": lambda x, s: fake_quantize_lsq(x, s.max(), 3, 0, 255),
    "lsq per channel": lambda x, s: fake_quantize_lsq(x, s, 0, -128, 127, 1),
    "lsq with a tensor for zero": lambda x, s: fake_quantize_lsq(x, s, (s * 9).int(), 0, 255, 1),
    "range": lambda x, s: fake_quantize_range(x, -s.max(), s.sum(), 0, 255),
    "symmetric range": lambda x, s: fake_quantize_range(x, -s.max(), s.sum(), -128, 127, True),
}
functions = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@functions
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_gradients_have_the_types_of_what_they_belong_to(
    function: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype
) -> None:
    x = noise(4, 3, 5).to(dtype).requires_grad_()
    scale = torch.tensor([0.01, 0.02, 0.03], requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = function(x, scale)
    assert y.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    y.square().sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype
    assert x.grad.count_nonzero() > 0
    assert scale.grad is None or (scale.grad.dtype == torch.float32 and bool(scale.grad.isfinite().all()))


@functions
def test_layouts_do_not_change_gradients(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, grad, scale = noise(4, 3, 5, 7), noise(4, 3, 5, 7, seed=1), torch.tensor([0.01, 0.02, 0.03])
    wanted = gradient(lambda x: function(x, scale), x, grad)
    last = x.to(memory_format=torch.channels_last)
    for given_x in (
        last,
        torch.empty(8, 3, 5, 14)[::2, :, :, 1::2].copy_(x),
        x.transpose(0, 3).contiguous().transpose(0, 3),
    ):
        for given_grad in (grad, grad.to(memory_format=torch.channels_last)):
            assert torch.equal(gradient(lambda x: function(x, scale), given_x, given_grad), wanted)
    both = gradient(lambda x: function(x, scale), last, grad.to(memory_format=torch.channels_last))
    assert both.is_contiguous(memory_format=torch.channels_last)
    ones = gradient(lambda x: function(x, scale), x, torch.ones(()).expand_as(x))
    assert torch.equal(ones, gradient(lambda x: function(x, scale), x, torch.ones_like(x)))


@functions
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_empty_tensors_have_empty_gradients(
    function: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    x, scale = torch.zeros(shape, requires_grad=True), torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    function(x, scale).sum().backward()
    assert x.grad is not None and x.grad.shape == shape
    assert scale.grad is None or not scale.grad.any()


@functions
def test_no_value_is_read_from_another_device(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Tensors without values: reading one, as waiting for an accelerator would, is an error here."""
    x = torch.empty(4, 3, 5, device="meta", requires_grad=True)
    scale = torch.empty(3, device="meta", requires_grad=True)
    with pytest.raises(RuntimeError):
        scale.max().item()
    function(x, scale).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


@functions
def test_a_second_derivative_is_refused(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = noise(4, 3, 5).requires_grad_()
    (dx,) = torch.autograd.grad(
        function(x, torch.tensor([0.1, 0.2, 0.3])).square().sum(), x, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()
