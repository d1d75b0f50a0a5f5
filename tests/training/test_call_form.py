"""The simulated model is called as the user's module: by place and by name, defaults included."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calib8 import training
from calib8.errors import UsageError

IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Options(nn.Module):
    """Takes what models of libraries take: a name that Python has already, flags, a keyword-only factor."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(
        self, input: Tensor, mask: Tensor | None = None, *, scale: float = 1.0, whole: bool = False
    ) -> Tensor:
        result: Tensor = self.conv(input) * scale
        return result if mask is None else result * mask


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, left: Tensor, right: Tensor, **other: Any) -> Tensor:
        result: Tensor = self.conv(left) - self.conv(right)
        return result


class Many(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, *images: Tensor) -> Tensor:
        result: Tensor = self.conv(images[0])
        return result


@pytest.fixture(scope="module")
def options() -> training.SimulatedModel:
    torch.manual_seed(0)
    model = training.prepare(Options(), IMAGES)
    model(IMAGES)
    return model.eval()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {"input": IMAGES}),
        ((IMAGES, None), {}),
        ((IMAGES,), {"mask": None, "whole": False}),
        ((), {"scale": 1.0, "input": IMAGES}),
    ],
)
def test_arguments_at_their_defaults_may_be_given(
    options: training.SimulatedModel, given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    assert torch.equal(options(*given, **named), options(IMAGES))


@pytest.mark.parametrize("named", [{"scale": 2.0}, {"whole": True}, {"mask": torch.ones(1)}, {"whole": 0}])
def test_other_values_were_not_traced(options: training.SimulatedModel, named: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"was traced without '{next(iter(named))}'"):
        options(IMAGES, **named)


def test_what_forward_does_not_take_is_refused_as_by_it(options: training.SimulatedModel) -> None:
    for given, named in (((IMAGES,), {"factor": 1.0}), ((), {}), ((IMAGES,), {"input": IMAGES})):
        with pytest.raises(TypeError):
            options(*given, **named)


def test_inputs_by_name_come_in_any_order() -> None:
    model = training.prepare(Pair(), (IMAGES, IMAGES + 1))
    model(IMAGES, IMAGES + 1)
    model.eval()
    assert torch.equal(model(right=IMAGES, left=IMAGES + 1), model(IMAGES + 1, IMAGES))
    with pytest.raises(UsageError, match="was traced without 'more'"):
        model(IMAGES, IMAGES, more=1)


def test_collected_inputs_stay_positional() -> None:
    model = training.prepare(Many(), (IMAGES,))
    assert model(IMAGES).shape == (2, 4, 6, 6)
    with pytest.raises(UsageError, match="was traced without 'images_1'"):
        model(IMAGES, IMAGES)


def test_copies_and_pickles_are_called_the_same(options: training.SimulatedModel) -> None:
    for other in (copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert torch.equal(other(input=IMAGES, mask=None), options(IMAGES))
