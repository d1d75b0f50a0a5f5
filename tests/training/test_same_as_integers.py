"""What was simulated is what the integers give: codes layer by layer, classes of whole networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from networks import network
from torch import Tensor, nn
from trained import images_and_labels, resnet20, train

import calib8
from calib8 import training
from calib8.model.save import save_model
from calib8.outcomes import Quantization
from calib8.program.lower.lower import lower
from calib8.program.reference.executor import run_program
from calib8.qparams import QuantSpec
from calib8.scheme import QuantScheme
from calib8.training.simulation import BATCH_NORMS
from slow_cases import slow_but

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def cifar(shared_data: Path, start: int, count: int) -> Tensor:
    """Test images, normalized as the network wants them."""
    images = np.load(shared_data / "cifar10" / "test5000.npz")["images"][start : start + count]
    scaled = torch.tensor(images).permute(0, 3, 1, 2).float() / 255.0
    return (scaled - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)


def same_classes(model: nn.Module, result: Quantization, inputs: Tensor, folder: Path) -> float:
    """Share of the inputs that simulation and engine put into one class."""
    result.save(folder / "int8.onnx")
    session = calib8.InferenceSession(folder / "int8.onnx")
    with torch.no_grad():
        ours = torch.cat([model.eval()(piece) for piece in inputs.split(100)]).numpy()
    name = session.get_inputs()[0].name
    theirs = np.concatenate([session.run(None, {name: piece.numpy()})[0] for piece in inputs.split(100)])
    return float(np.mean(ours.argmax(1) == theirs.argmax(1)))


def check(model: nn.Module, inputs: Tensor, result: Quantization, least: float = 0.999) -> None:
    found = training.agreement(model, result, inputs)
    assert found.largest <= 1
    for step in found.steps:  # a pool has few codes: one may be a tie
        different = round(step.values * (1.0 - step.equal))
        assert different <= max(1.0, (1.0 - least) * step.values), step
    assert len(found.steps) > len(found.unseen)


@pytest.mark.slow
def test_resnet20(shared_data: Path, tmp_path: Path) -> None:
    module = resnet20(shared_data).train()  # its BatchNorms have no statistics of their own
    model = training.prepare(module, cifar(shared_data, 0, 2), batch_norm="frozen")
    images = cifar(shared_data, 0, 128)
    with torch.no_grad():
        labels = model.eval()(images).argmax(1)
    train(model.train(), list(zip(images.split(32), labels.split(32), strict=True)), rate=1e-3)
    training.freeze(model)
    result = training.convert(model)
    check(model, cifar(shared_data, 1000, 8), result)
    assert same_classes(model, result, cifar(shared_data, 1000, 600), tmp_path) >= 0.995


@pytest.mark.parametrize("batch_norm", slow_but(["frozen"], BATCH_NORMS))
def test_mobile_net(batch_norm: str, tmp_path: Path) -> None:
    batches = images_and_labels(14)
    model = training.prepare(network("mobilenet_v2").train(), batches[0][0], batch_norm=batch_norm)
    losses = train(model, batches[:8])
    assert losses[-1] < losses[0]
    training.freeze(model)
    train(model, batches[8:10])
    result = training.convert(model)
    inputs = torch.cat([pictures for pictures, _ in batches[10:]])
    check(model, inputs, result)
    assert same_classes(model, result, inputs, tmp_path) >= 0.995


SCHEMES = {
    "per-tensor": QuantScheme("own", weight_granularity="per-tensor"),
    "int8": QuantScheme("own", activations=QuantSpec(8, True, False)),
    "symmetric": QuantScheme("own", activations=QuantSpec(8, True, True)),
    "4 bits": QuantScheme("own", weights=QuantSpec(4, True, True)),
    "float bias": QuantScheme("own", quantize_bias=False),
    "pairs": QuantScheme("own", pair_limit=128),
}


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("quick_export")
@pytest.mark.parametrize("kind", SCHEMES)
def test_schemes(kind: str) -> None:
    batches = images_and_labels(4)
    model = training.prepare(network("mobilenet_v2").train(), batches[0][0], SCHEMES[kind])
    train(model, batches)
    result = training.convert(model)
    least = 0.999 if SCHEMES[kind].quantize_bias else 0.995  # the program itself rounds biases that are float
    check(model, batches[0][0], result, least)


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("quick_export")
@pytest.mark.parametrize("ranges", ["fixed", "trained", "lsq", "moving"])
@pytest.mark.parametrize("weights", ["per-channel", "per-tensor"])
def test_ranges_that_start_from_a_table(ranges: str, weights: str) -> None:
    batches = images_and_labels(4)
    module = network("shared").train()
    data = [{"x": picture[None].numpy()} for picture in batches[0][0]]
    table = calib8.calibrate(module, data, example_inputs=batches[0][0], method="mse").table
    model = training.prepare(module, batches[0][0], table=table, ranges=ranges, weights=weights)
    before = {name: one.bounds() for name, one in model.calib8.all_quantizers()}
    train(model, batches, rate=0.05)
    result = training.convert(model)
    moved = [one.bounds() != before[name] for name, one in model.calib8.all_quantizers()]
    assert any(moved) == (ranges != "fixed")
    check(model, batches[1][0], result)


@pytest.mark.slow
def test_reference_and_engine_run_the_converted_model(tmp_path: Path) -> None:
    batches = images_and_labels(3)
    model = training.prepare(network("efficientnet_lite").train(), batches[0][0])
    train(model, batches)
    result = training.convert(model)
    save_model(result.model, tmp_path / "model.onnx")
    inputs = batches[0][0][:2]
    name = result.prepared.model.graph.inputs[0].name or ""
    program = lower(result.model, shapes={name: tuple(inputs.shape)})
    [expected] = run_program(program, {name: inputs.numpy()})
    [actual] = calib8.InferenceSession(tmp_path / "model.onnx").run(None, {name: inputs.numpy()})
    np.testing.assert_array_equal(actual, expected)
    with torch.no_grad():
        simulated = model.eval()(inputs).numpy()
    np.testing.assert_allclose(simulated, expected, atol=float(np.abs(expected).max()) * 0.05)


class Normed(nn.Module):
    """GroupNorms as a function and as a module, with factors that a convolution takes in."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 1)
        self.first, self.last = nn.GroupNorm(2, 8), nn.GroupNorm(1, 6)
        for norm in (self.first, self.last):
            nn.init.normal_(norm.weight, 1, 0.3)
            nn.init.normal_(norm.bias, 0, 0.3)

    def forward(self, x: Tensor) -> Tensor:
        norm = self.first
        x = F.group_norm(self.stem(x), norm.num_groups, norm.weight, norm.bias, norm.eps)
        return self.last(self.conv(x))


class Windows(nn.Module):
    """Attention with a mask over places that were rolled."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.parts, self.out = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("mask", torch.randn(64, 64))

    def forward(self, x: Tensor) -> Tensor:
        rolled = torch.roll(self.stem(x), (-2, -3), (2, 3)).flatten(2).transpose(1, 2)
        query, key, value = self.parts(rolled).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(query, key, value, attn_mask=self.mask))


class Matrices(nn.Module):
    """A parameter that is multiplied with, and a factor that its layer takes in."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.matrix = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(8, 6))

    def forward(self, x: Tensor) -> Tensor:
        rows = self.stem(x).flatten(2).transpose(1, 2)
        return torch.tanh(rows @ self.matrix * 0.3)


class Responses(nn.Module):
    """What ConvNeXt V2 divides by the mean of the lengths of its channels, as timm writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 5, 1)
        self.weight, self.bias = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).permute(0, 2, 3, 1)
        length = x.norm(p=2, dim=(1, 2), keepdim=True)
        response = length / (length.mean(dim=-1, keepdim=True) + 1e-6)
        x = x + torch.addcmul(self.bias.view(1, 1, 1, -1), self.weight.view(1, 1, 1, -1), x * response)
        return self.out(x.permute(0, 3, 1, 2))


class Scaled(nn.Module):
    """Factors above 1 behind a layer of tokens, which its weights take in behind its bias."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out, self.one = nn.Conv2d(3, 8, 4, 4), nn.Linear(6, 5), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.stem(x).flatten(2).transpose(1, 2)
        return self.out(torch.relu(self.one(rows) * 2.5))


class Shifted(nn.Module):
    """Channels of which some come from the row above, assigned to parts of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        y = torch.zeros_like(x)
        y[:, :4, 1:] = x[:, :4, :-1]
        y[:, 4:] = x[:, 4:]
        y[:, 2:6] += x[:, 1:5]
        return self.out(y)


@pytest.mark.parametrize("target", slow_but(["calib8"], ["calib8", "onnxruntime", "tflite"]))
@pytest.mark.parametrize("kind", [Normed, Windows, Matrices, Responses, Scaled, Shifted])
def test_what_is_split_for_the_simulation(kind: type[nn.Module], target: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    batches = [pictures for pictures, _ in images_and_labels(3)]
    model = training.prepare(kind(), batches[0], target).train()
    for pictures in batches:
        model(pictures)
    training.freeze(model)
    result = training.convert(model)
    found = training.agreement(model, result, batches[0])
    assert found.largest <= 1 and found.equal > 0.99 and len(found.steps) >= 2
    result.save(tmp_path / "int8.onnx")
    session = calib8.InferenceSession(tmp_path / "int8.onnx")
    [actual] = session.run(None, {session.get_inputs()[0].name: batches[0].numpy()})
    with torch.no_grad():
        simulated = model.eval()(batches[0]).numpy()
    np.testing.assert_allclose(actual, simulated, atol=float(np.ptp(simulated)) * 3 / 255)
