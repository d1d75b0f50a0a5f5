"""Changes in place keep their meaning in a graph that makes none, or are refused by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from traced import Of, line_of, same_as_the_module

from calib8.errors import UnsupportedModelError
from calib8.modules.tracing import trace


def reads_after_relu(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    y.relu_()
    return y * 2


def two_names(_: Any, x: Tensor) -> Tensor:
    y = x * 2
    z = y
    y += x
    z.mul_(3)
    F.relu(y, inplace=True)
    return torch.cat([y, z])


def in_a_list(self: Any, x: Tensor) -> Tensor:
    kept = [x - 1]
    self.act(kept[0])
    torch.clamp_(kept[0], max=0.5)
    return sum(kept) - kept[0].add_(1)


def on_a_view(_: Any, x: Tensor) -> Tensor:
    y = (x + 1).flatten(1)
    y -= 0.25
    return F.leaky_relu_(y, 0.2)


def halves(_: Any, x: Tensor) -> Tensor:
    one, two = (x * 1.5).chunk(2, 1)
    two.sigmoid_()
    one *= two
    return one


def to_an_output(_: Any, x: Tensor) -> Tensor:
    y = x * 2
    torch.add(x, 1, out=y)
    return y.zero_() + y if x.dim is None else y + x


def sizes(_: Any, x: Tensor) -> Tensor:
    rows = x.size(2)
    kept = rows
    rows //= 2
    rows += 1
    return x[:, :, :rows] * kept


def powers(_: Any, x: Tensor) -> Tensor:
    y = x.abs() + 1
    y /= 2
    y **= 2
    z = y.clone()
    z.fill_(3.0)
    return y - z


def shifted(_: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, :2, 1:] = x[:, :2, :-1]
    y[:, 2:] = x[:, 2:]
    y[..., 0] = 0.5
    return y


def numbers_and_ends(_: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[:, -1] = 1
    y[:, 0, 1:-1, 2:4] = x[:, 1, 1:-1, 2:4]
    y[0:, 1] = x[:, 2, :1]
    y[:] = y[:, :] + 1
    return y


def other_indices(_: Any, x: Tensor) -> Tensor:
    y = x + 0.5
    y[y > 1] = -1.0
    y[:, ::2] = x[:, 1::2]
    y[:, [0, 3]] = 2.0
    return y


def part_added_to(_: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] += x[:, 0:2]
    y[:, 2, 1:] *= 3
    part = y[:, 0]
    part -= 1
    y[:, 0] = part
    return y + x


def odd_parts(_: Any, x: Tensor) -> Tensor:
    y = x + 0.5
    y[:, 2:0] = 9.0
    y[:, -1:2] = 9.0
    y[:, 0] = (x[:, 1] * 2)[None]
    y[:, 1:3] = x[:, 0:2].double()
    return y


def whole_numbers(_: Any, x: Tensor) -> Tensor:
    y = (x * 10).long()
    y[:, 1:3] = x[:, 1:3] * 3
    return y.float() + x


IN_PLACE = [reads_after_relu, two_names, in_a_list, on_a_view, halves, to_an_output, sizes, powers]
ASSIGNED = [shifted, numbers_and_ends, other_indices, part_added_to, odd_parts, whole_numbers]


@pytest.mark.parametrize("function", [*IN_PLACE, *ASSIGNED])
@pytest.mark.parametrize("training", [False, True])
def test_changes_in_place_keep_their_meaning(
    function: Callable[[Any, Tensor], Tensor], training: bool
) -> None:
    same_as_the_module(Of(function, act=nn.ReLU6(inplace=True)), training=training)


@pytest.mark.parametrize(
    "activation",
    [
        nn.CELU(1.5, inplace=True), nn.ELU(0.7, inplace=True), nn.Hardsigmoid(inplace=True),
        nn.Hardswish(inplace=True), nn.Hardtanh(-0.5, 0.7, inplace=True), nn.LeakyReLU(0.3, inplace=True),
        nn.ReLU(inplace=True), nn.ReLU6(inplace=True), nn.SELU(inplace=True), nn.SiLU(inplace=True),
        nn.Threshold(0.1, -2.0, inplace=True), nn.Dropout(0.4, inplace=True), nn.Dropout2d(0.4, inplace=True),
        nn.AlphaDropout(0.3, inplace=True), nn.FeatureAlphaDropout(0.3, inplace=True),
        nn.RReLU(0.2, 0.4, inplace=True),
    ],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
@pytest.mark.parametrize("training", [False, True])
def test_modules_that_write_to_their_input(activation: nn.Module, training: bool) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        y = x * 2
        self.act(y)
        return y + 1

    same_as_the_module(Of(forward, act=activation), training=training)
    assert activation.inplace


def part_of_a_tensor(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    y[:, :1].relu_()
    return y


def view_is_read(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    flat = y.flatten(1)
    y.mul_(2)
    return flat


def view_of_what_is_assigned_to(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    first = y[:, 0]
    y[:, 0] = 0
    return first + y[:, 1]


def assigned_to_a_view(_: Any, x: Tensor) -> Tensor:
    y = x + 1
    y[:, 0][:, 1:] = 2
    return y


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (part_of_a_tensor, "relu_"), (view_is_read, "mul_"), (view_of_what_is_assigned_to, "= 0"),
        (assigned_to_a_view, "= 2"),
    ],
)  # fmt: skip
def test_changes_that_other_tensors_show_are_refused(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        trace(Of(function))
    assert line_of(function, text) in str(caught.value)


def test_a_buffer_that_forward_changes_is_refused() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.seen.add_(1)
            return x + self.seen

    class Keeps(Counts):
        def forward(self, x: Tensor) -> Tensor:
            self.seen[:] = x.mean()
            return x + self.seen

    for kind in (Counts, Keeps):
        with pytest.raises(UnsupportedModelError, match="buffer 'seen' is written to"):
            trace(kind())
