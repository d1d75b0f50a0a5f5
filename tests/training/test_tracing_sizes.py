"""What forward asks of sizes and types is answered for the example inputs and any batch, or not at all."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from traced import Of, line_of

import calib8
from calib8 import training
from calib8.errors import UnsupportedModelError, UsageError
from calib8.modules.tracing import FIXED_SIZES, trace


def pictures(count: int, rows: int = 6, columns: int = 6) -> Tensor:
    return torch.randn(count, 4, rows, columns, generator=torch.Generator().manual_seed(3))


def padded(_: Any, x: Tensor) -> Tensor:
    rows = math.ceil(x.shape[2] / 4) * 4
    if rows != x.shape[2]:
        x = F.pad(x, (0, 0, 0, rows - x.shape[2]))
    return x * 2


def square_root(_: Any, x: Tensor) -> Tensor:
    count, channels, *places = x.shape
    side = int(math.sqrt(places[0] * places[1]))
    return x.reshape(count, channels, side * side).reshape(count, channels, side, side)


def windows(_: Any, x: Tensor) -> Tensor:
    return torch.cat([x[:, :, i] for i in range(x.size(2))], -1)


def listed(_: Any, x: Tensor) -> Tensor:
    parts = list(x.chunk(2, 1))
    parts.extend(part * 2 for part in x.unbind(2)[:1])
    return torch.stack([part.mean() for part in parts])


def of_its_type(_: Any, x: Tensor) -> Tensor:
    return x.float() * 3 if x.dtype in (torch.float16, torch.float32) and x.ndim == 4 else x


def every_channel(_: Any, x: Tensor) -> Tensor:
    first, *others = [channel * i for i, channel in enumerate(x.transpose(0, 1))]
    return first + sum(others)


def weighted(self: Any, x: Tensor) -> Tensor:
    y = self.norm(self.conv(x))
    return y * 2 if y.shape[-1] == 3 and self.conv.weight.shape[0] == 5 else y


def with_autocast(_: Any, x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        return x + 1


FORWARDS: list[Callable[..., Tensor]] = [
    padded, square_root, windows, listed, of_its_type, every_channel, weighted, with_autocast,
]  # fmt: skip


def module_of(forward: Callable[..., Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return Of(forward, conv=nn.Conv2d(4, 5, 3, 2, 1), norm=nn.BatchNorm2d(5))


@pytest.mark.parametrize("mode", [False, True], ids=["evaluated", "trained"])
@pytest.mark.parametrize("forward", FORWARDS, ids=operator.attrgetter("__name__"))
def test_sizes_are_those_of_the_example_and_any_batch(forward: Callable[..., Tensor], mode: bool) -> None:
    module = module_of(forward)
    traced = trace(module, example=[pictures(2)])
    assert traced.meta[FIXED_SIZES] == (forward is not with_autocast)
    for count in (1, 2, 5):
        x = pictures(count)
        expected, actual = module.train(mode)(x.clone()), traced.train(mode)(x.clone())
        assert torch.allclose(actual, expected, atol=1e-6)


def test_what_asks_nothing_holds_for_all_sizes() -> None:
    traced = trace(Of(lambda _, x: next(iter(x.split([1, 3], 1))) + x.shape[2]), example=[pictures(2)])
    assert not traced.meta[FIXED_SIZES] and traced(pictures(1, 9)).shape == (1, 1, 9, 6)


def by_batch(_: Any, x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 1 else x


def by_number(_: Any, x: Tensor) -> Tensor:
    return torch.cat([x[i] for i in range(x.shape[0])])


def by_rows(_: Any, x: Tensor) -> Tensor:
    return torch.cat([row for row in x])  # noqa: C416


def by_value(_: Any, x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def by_device(_: Any, x: Tensor) -> Tensor:
    return x * int(x.amax())


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "forward", [by_batch, by_number, by_rows, by_value, by_device], ids=operator.attrgetter("__name__")
)
def test_what_depends_on_the_batch_or_on_values_is_refused(
    forward: Callable[..., Tensor], count: int
) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        trace(Of(forward), example=[pictures(count)])
    assert line_of(forward, "return") in str(caught.value)


def test_asking_changes_nothing_of_the_module() -> None:
    calls: list[Any] = []
    module = module_of(weighted).train()
    module.get_submodule("conv").register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    trace(module, example=[pictures(2)])
    assert not calls and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_changed_shape_is_seen_by_later_questions() -> None:
    def forward(_: Any, x: Tensor) -> Tensor:
        y = x.clone()
        y.unsqueeze_(1)
        return y * 2 if y.ndim == 5 else y

    traced = trace(Of(forward), example=[pictures(2)])
    assert torch.equal(traced(pictures(3)), 2 * pictures(3)[:, None])


class Windowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return F.relu(x) if x.shape[2] % 2 == 0 else x


def test_a_simulated_module_takes_the_sizes_that_it_asked_for_alone() -> None:
    model = training.prepare(Windowed(), pictures(2)).train()
    model(pictures(7))
    with pytest.raises(UsageError, match=r"traced for \[2, 4, 6, 6\], not \[2, 4, 5, 6\]"):
        model(pictures(2, 5))
    free = training.prepare(nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU()), pictures(2)).train()
    assert free(pictures(2, 5)).shape == (2, 8, 3, 4)


def test_such_a_module_is_quantized_under_the_names_of_its_graph() -> None:
    images = [{"x": one[None].numpy()} for one in pictures(4)]
    made = calib8.quantize(Windowed(), images, example_inputs=pictures(2))
    assert "relu" in made.table.entries
