"""Layers that are not quite those of torch.nn: simulated as the integers have them, or refused by name."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import calib8
from calib8 import training
from calib8.table import CalibrationTable
from calib8.training.agreements import Agreement

pytestmark = pytest.mark.usefixtures("quick_export")

PICTURES = torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def table_of(module: nn.Module) -> CalibrationTable:
    data = [{"x": picture[None].numpy()} for picture in PICTURES]
    return calib8.calibrate(module, data, example_inputs=PICTURES, method="minmax").table


def trained_agreement(module: nn.Module, ranges: str = "moving", **options: Any) -> Agreement:
    """After some steps, a freeze, and a step more."""
    table = None if ranges == "moving" else table_of(module)
    model = training.prepare(module.train(), PICTURES, table=table, ranges=ranges, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number in range(4):
        if number == 3:
            training.freeze(model)
        loss = (model(PICTURES) - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return training.agreement(model, training.convert(model), PICTURES)


class Scaled(nn.Module):
    """Multiplies what a convolution yields: constants that the int8 layer takes into its weights."""

    def __init__(self, layer: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3) if layer is None else layer
        self.last = nn.Conv2d(8, 4, 3)
        self.factors = nn.Parameter(torch.tensor([-2.0, -0.5, 0.0, 0.1, 1.0, 2.0, 3.0, 9.0]).view(8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.conv(x) * self.factors + 0.25))


@pytest.mark.parametrize("ranges", ["moving", "lsq"])
def test_constants_folded_behind_a_layer(ranges: str) -> None:
    found = trained_agreement(Scaled(), ranges)
    assert found.steps
    assert found.largest <= 1
    assert found.equal >= 0.995


class Rows(nn.Module):
    """The same behind a matrix product without a bias, whose weight the graph has the other way round."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.last = nn.Linear(8, 8, bias=False), nn.Linear(8, 4)
        self.first = nn.Linear(432, 8)
        self.factors = nn.Parameter(torch.linspace(-2.0, 4.0, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x.flatten(1)))
        return self.last(F.relu(self.rows(x) * self.factors))


@pytest.mark.parametrize("ranges", ["moving", "lsq"])
def test_constants_folded_behind_a_matrix_product(ranges: str) -> None:
    found = trained_agreement(Rows(), ranges)
    assert found.steps
    assert found.largest <= 1


def test_a_batch_norm_behind_a_dropout() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Dropout2d(0.1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)
    )
    found = trained_agreement(module)
    assert found.steps
    assert found.largest <= 1
    assert found.equal >= 0.995


class Standardized(nn.Conv2d):
    """timm's ScaledStdConv2d: a batch norm over each output channel's weight, with a gain that learns."""

    def __init__(self, inputs: int, outputs: int, size: int, groups: int = 1) -> None:
        super().__init__(inputs, outputs, size, groups=groups)
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, outputs))

    def forward(self, x: Tensor) -> Tensor:
        rows = self.weight.reshape(1, self.out_channels, -1)
        gain = self.gain * rows.shape[2] ** -0.5
        weight = F.batch_norm(rows, None, None, weight=gain, training=True, momentum=0.0, eps=1e-6)
        weight = weight.reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Centred(nn.Conv2d):
    """A weight that is computed without a function of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)


class Computed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            Standardized(3, 8, 3), nn.ReLU(), Standardized(8, 8, 3, groups=2), nn.ReLU(),
            Centred(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


@pytest.mark.parametrize("ranges", ["moving", "lsq"])
def test_weights_that_are_computed_from_parameters(ranges: str) -> None:
    """What trains are the parameters, what is rounded is the weight."""
    module = Computed()
    found = trained_agreement(module, ranges)
    assert found.steps
    assert found.largest <= 1
    assert found.equal >= 0.995


def test_parameters_behind_a_computed_weight_learn() -> None:
    module = Computed()
    model = training.prepare(module.train(), PICTURES)
    assert len(model.calib8.plan.layers) == 4
    model(PICTURES).square().mean().backward()
    for path in ("0.weight", "0.gain", "2.weight", "4.weight"):
        gradient = model.get_parameter(f"layers.{path}").grad
        assert gradient is not None
        assert gradient.abs().max() > 0, path


def test_computed_weights_become_what_quantize_makes_of_them() -> None:
    module = Computed().eval()
    data = [{"x": picture[None].numpy()} for picture in PICTURES]
    wanted = calib8.quantize(module, data, example_inputs=PICTURES, method="minmax", effort="fast")
    found = training.convert(training.prepare(module, PICTURES, table=wanted.table))
    graphs = [ir.to_proto(one.model).graph.SerializeToString() for one in (wanted, found)]
    assert graphs[0] == graphs[1]
    assert wanted.placement.summary().startswith("4 of 4 Conv quantized")


class Doubled(nn.Conv2d):
    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(x, 2.0 * weight, bias)


class FromInput(nn.Conv2d):
    """Its weight depends on the pictures."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * x.mean(), self.bias)


@pytest.mark.parametrize("layer", [Doubled, FromInput])
def test_weights_that_no_graph_tells(layer: type[nn.Conv2d]) -> None:
    module = nn.Sequential(layer(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3))
    if layer is FromInput:
        layers = training.prepare(module, PICTURES).calib8.plan.layers
        assert [one.product for one in layers] == [None, "_3"]  # the batch norm and the other convolution
        return
    with pytest.raises(calib8.UnsupportedModelError, match="'1' is not a single product with weights"):
        training.prepare(module, PICTURES)


class Sized(Scaled):
    """A transposed convolution that is told the size of its result."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.conv(x, output_size=[24, 24])))


def test_a_size_that_is_asked_for() -> None:
    with pytest.raises(calib8.UnsupportedModelError, match="'conv' is not a single product with weights"):
        training.prepare(Sized(nn.ConvTranspose2d(3, 8, 3, stride=2, padding=1)), PICTURES)


def test_constants_behind_groups_of_a_transposed_layer() -> None:
    module = Scaled(nn.ConvTranspose2d(3, 8, 3, groups=1))
    assert trained_agreement(module).largest <= 1
    module.conv = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.ConvTranspose2d(8, 8, 3, groups=2))
    with pytest.raises(calib8.UnsupportedModelError, match="constants are folded into the one scale of"):
        training.prepare(module, PICTURES)


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_of_layers(register: str) -> None:
    module = Scaled()
    getattr(module.conv, register)(lambda *_: None)
    with pytest.raises(calib8.UnsupportedModelError, match="module 'conv' has hooks"):
        training.prepare(module, PICTURES)


def test_parts_with_borders_of_their_own_are_named() -> None:
    module = nn.Sequential(nn.ReLU(), nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.ReLU())
    with pytest.raises(calib8.UnsupportedModelError, match=r"codes lie inside module '1' \('_1/Concat'\)"):
        training.prepare(module, PICTURES)


class Keyword(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.conv(input=x)))


def test_inputs_by_name() -> None:
    found = trained_agreement(Keyword())
    assert found.steps
    assert found.largest <= 1


@pytest.mark.parametrize("weights", ["per-channel", "per-tensor"])
def test_batch_norms_that_start_at_zero_learn(weights: str) -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)).train()
    norm = module[1]
    assert isinstance(norm, nn.BatchNorm2d)
    nn.init.zeros_(norm.weight)
    nn.init.ones_(norm.bias)
    model = training.prepare(module, PICTURES, weights=weights)
    result = model(PICTURES)
    (result * torch.randn_like(result)).sum().backward()
    gradient = model.get_parameter("1.weight").grad
    assert gradient is not None
    assert bool((gradient != 0.0).all())


class Wrapped(nn.Module):
    """Its only part has a name that wrappers use too."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.module(x))


def test_a_part_called_module() -> None:
    assert trained_agreement(Wrapped()).largest <= 1


@pytest.mark.parametrize("name", ["calib8", "name", "example_inputs"])
def test_names_that_are_taken(name: str) -> None:
    module = Wrapped()
    module.add_module(name, nn.Conv2d(3, 8, 3))
    with pytest.raises(calib8.UnsupportedModelError, match=f"a part of itself '{name}'"):
        training.prepare(module, PICTURES)


def test_nothing_to_compare_is_no_agreement() -> None:
    assert math.isnan(Agreement((), ("conv",)).equal)


class Tokens(nn.Module):
    """Linear layers on three axes, as heads and mixers have them."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 12, 8, 8)
        self.wide, self.narrow, self.head = nn.Linear(12, 24), nn.Linear(24, 12), nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.patch(x)).flatten(2).transpose(1, 2)
        x = x + self.narrow(torch.relu(self.wide(x)))
        return self.head(x.mean(1))


@pytest.mark.parametrize("weights", ["per-channel", "per-tensor"])
def test_linear_layers_on_three_axes(weights: str) -> None:
    torch.manual_seed(0)
    module, inputs = Tokens(), torch.randn(8, 3, 32, 32)
    data = [{"x": one[None].numpy()} for one in inputs]
    expected = calib8.quantize(module, data, example_inputs=inputs, method="minmax", weights=weights)
    model = training.prepare(module.train(), inputs, table=expected.table, weights=weights, ranges="moving")
    assert {plan.product for plan in model.calib8.plan.layers} >= {"patch", "head"}
    assert len(model.calib8.plan.layers) == 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model(inputs).square().mean().backward()
        optimizer.step()
    result = training.convert(model)
    assert result.placement == expected.placement
    found = training.agreement(model, result, inputs)
    assert found.largest <= 1
    assert found.equal >= 0.999


def test_a_linear_layer_on_three_axes_in_float() -> None:
    model = training.prepare(Tokens(), torch.randn(2, 3, 32, 32), keep_float=["wide", "narrow"])
    assert {plan.product for plan in model.calib8.plan.layers} == {"patch", "head"}
