"""Gradients through rounding: borders, weights, types, layouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gradients import gradient, neighbours, noise
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
