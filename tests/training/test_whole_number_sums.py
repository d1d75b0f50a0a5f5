"""Evaluated with frozen ranges a layer adds whole numbers: the sums of the integers, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from calib8 import training
from calib8.scheme import QuantScheme
from calib8.training.fake_quantizer import FakeQuantizer
from calib8.training.layers import SimulatedLayer
from calib8.training.simulated_model import SimulatedModel

pytestmark = pytest.mark.usefixtures("quick_export")

LAYERS = {
    "convolution": lambda: nn.Conv2d(8, 12, 3, padding=1),
    "grouped": lambda: nn.Conv2d(8, 16, 3, stride=2, groups=4),
    "depthwise": lambda: nn.Conv2d(8, 16, 3, groups=8, bias=False),
    "reflecting": lambda: nn.Conv2d(8, 12, 3, padding=1, padding_mode="reflect"),
    "normalized": lambda: nn.Sequential(nn.Conv2d(8, 12, 3, bias=False), nn.BatchNorm2d(12)),
    "norm alone": lambda: nn.Sequential(nn.BatchNorm2d(8)),
    "transposed": lambda: nn.ConvTranspose2d(8, 12, 2, stride=2),
    "transposed, grouped": lambda: nn.ConvTranspose2d(8, 12, 2, stride=2, groups=4),
    "matrix": lambda: nn.Sequential(nn.Flatten(), nn.Linear(8 * 36, 10)),
    "matrix on three axes": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(36, 10)),
}
WEIGHTS = ["per-channel", "per-tensor"]


def pictures(seed: int) -> Tensor:
    return torch.randn(4, 8, 6, 6, generator=torch.Generator().manual_seed(seed))


def frozen(module: nn.Module, **options: Any) -> SimulatedModel:
    """Simulated, with ranges of two batches and BatchNorms that have moved."""
    model = training.prepare(module, pictures(0), **options)
    model.train()
    for seed in (1, 2):
        model(pictures(seed))
    training.freeze(model)
    return model.eval()


def called(model: SimulatedModel, x: Tensor) -> tuple[SimulatedLayer, tuple[Any, ...], Tensor]:
    """The one layer of a model, what it was called with, and its result."""
    [(_, layer)] = model.calib8.all_layers()
    seen: list[tuple[tuple[Any, ...], Tensor]] = []
    handle = layer.register_forward_hook(lambda _, given, result: seen.append((given, result)))
    model(x)
    handle.remove()
    [(given, result)] = seen
    return layer, given, result


def integer_sums(layer: SimulatedLayer, given: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Sums of codes, exact in float64, and what one step of each is worth, float32."""
    x, weight, bias, norm, source = given
    assert isinstance(source, FakeQuantizer)
    folded, bias = layer.constants(weight, bias, norm)
    codes, scale = layer.codes(folded).double(), layer.scale_of(folded)
    worth = source.scale * (scale.repeat(layer.groups) if scale.dim() else scale)
    steps = torch.round(x.double() / source.scale.double())
    whole = None if bias is None else torch.round(bias.double() / worth.double())
    if layer.product is not None:
        sums = layer.product(steps, codes, whole)
    else:
        assert whole is not None
        sums = steps * codes.view(-1, 1, 1) + whole.view(-1, 1, 1)
    if worth.dim() and sums.dim() == 4:
        worth = worth.view(-1, 1, 1)
    return sums, worth


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", LAYERS)
def test_sums_are_those_of_integers(kind: str, weights: str) -> None:
    torch.manual_seed(0)
    model = frozen(LAYERS[kind](), weights=weights)
    with torch.no_grad():
        layer, given, result = called(model, pictures(3))
        sums, worth = integer_sums(layer, given)
    assert float(sums.abs().max()) < 2**24
    expected = (sums.float() * worth).numpy()
    assert len(np.unique(expected)) > 30
    np.testing.assert_array_equal(result.numpy(), expected)


def test_float_biases_are_added_as_they_are() -> None:
    torch.manual_seed(0)
    model = frozen(nn.Conv2d(8, 12, 3), scheme=QuantScheme("own", quantize_bias=False))
    with torch.no_grad():
        layer, given, result = called(model, pictures(3))
        bias = given[2].view(-1, 1, 1)
        sums, worth = integer_sums(layer, (given[0], given[1], None, *given[3:]))
    torch.testing.assert_close(result, sums.float() * worth + bias, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["normalized", "norm alone", "transposed, grouped", "matrix on three axes"])
def test_gradients_are_those_of_training(kind: str) -> None:
    torch.manual_seed(0)
    model = frozen(LAYERS[kind]())
    found = []
    for mode in (False, True):
        x = pictures(3).requires_grad_()
        model.zero_grad()
        model.train(mode)(x).square().sum().backward()
        found.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    for ours, trained in zip(*found, strict=True):
        assert ours is not None and trained is not None
        torch.testing.assert_close(ours, trained, rtol=1e-4, atol=1e-4 * float(trained.abs().max()))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_multiplies_values(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    model = frozen(nn.Conv2d(8, 12, 3))
    with torch.no_grad():
        exact = model(pictures(3))
        with torch.autocast("cpu", kind):
            coarse = model(pictures(3))
    torch.testing.assert_close(coarse.float(), exact, rtol=0.0, atol=0.05 * float(exact.abs().max()))
