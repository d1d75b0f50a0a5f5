"""What a simulated model keeps: checkpoints, copies, several processes, half types, layouts of memory."""

from __future__ import annotations

import copy
import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed
import torch.multiprocessing
import torch.nn.functional as F
from networks import network
from torch import Tensor, nn
from trained import images_and_labels, train

import calib8
from calib8 import training
from calib8.training.functional import fake_quantize_weight, weight_scale
from calib8.training.simulated_model import SimulatedModel
from calib8.training.simulation import RANGES

pytestmark = pytest.mark.usefixtures("quick_export")


class Small(nn.Module):
    """A layer with BatchNorm, a residual addition, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 2, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)) + x)
        return self.fc(x.mean([2, 3]))


def small() -> nn.Module:
    torch.manual_seed(0)
    return Small().train()


@cache
def _prepared(ranges: str, delay: int) -> SimulatedModel:
    pictures = images_and_labels(1)[0][0]
    table = None
    if ranges != "moving":
        data = [{"x": picture[None].numpy()} for picture in pictures]
        table = calib8.calibrate(small(), data, example_inputs=pictures, method="minmax").table
    return training.prepare(small(), pictures, table=table, ranges=ranges, decay=0.75, delay=delay)


def prepared(ranges: str = "moving", delay: int = 0) -> SimulatedModel:
    """A model that nobody else trains."""
    return copy.deepcopy(_prepared(ranges, delay))


def saved_and_loaded(state: Any) -> Any:
    """Through a file as PyTorch writes it, read by its safe reader."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def same(left: nn.Module, right: nn.Module) -> bool:
    ours, theirs = left.state_dict(), right.state_dict()
    assert ours.keys() == theirs.keys()
    return all(
        torch.equal(value, theirs[name]) if isinstance(value, Tensor) else value == theirs[name]
        for name, value in ours.items()
    )


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]) -> None:
    loss = F.cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("frozen", [False, True])
def test_training_that_was_interrupted_ends_as_one_that_was_not(ranges: str, frozen: bool) -> None:
    batches = images_and_labels(6)
    model = prepared(ranges)
    optimizer = optimizer_of(model)
    for batch in batches[:3]:
        step(model, optimizer, batch)
    if frozen:
        training.freeze(model)
    checkpoint = saved_and_loaded({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    resumed = prepared(ranges)
    resumed.load_state_dict(checkpoint["model"])
    assert same(model, resumed)
    other = optimizer_of(resumed)
    other.load_state_dict(checkpoint["optimizer"])
    for batch in batches[3:]:
        step(model, optimizer, batch)
        step(resumed.train(), other, batch)
    assert same(model, resumed)
    assert training.convert(model).qparams == training.convert(resumed).qparams
    assert same(model, resumed)


def test_names_are_those_of_the_module() -> None:
    module = network("mobilenet_v2")
    model = training.prepare(module, torch.zeros(2, 3, 32, 32))
    own = {name for name in model.state_dict() if not name.startswith("calib8.")}
    assert own == set(module.state_dict())
    assert {name for name, _ in module.named_parameters()} == {name for name, _ in model.named_parameters()}
    kept = [(name, type(one)) for name, one in model.named_modules() if not name.startswith("calib8")]
    assert kept[1:] == [(name, type(one)) for name, one in module.named_modules()][1:]


def test_the_module_itself_is_not_changed() -> None:
    module = small()
    before = copy.deepcopy(module.state_dict())
    model = training.prepare(module, torch.zeros(2, 3, 32, 32))
    train(model, images_and_labels(2))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.training


def test_copies_and_pickles_go_on_alike() -> None:
    batches = images_and_labels(4)
    model = prepared()
    train(model, batches[:2])
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        original = copy.deepcopy(model)
        train(other, batches[2:])
        train(original, batches[2:])
        assert same(other, original)
        assert training.convert(other).qparams == training.convert(original).qparams


def test_a_frozen_state_freezes_the_model_that_loads_it() -> None:
    batches = images_and_labels(3)
    model = training.prepare(small(), batches[0][0], keep_float=["conv2"])
    other = copy.deepcopy(model)
    train(model, batches[:2])
    training.freeze(model)
    other.load_state_dict(model.state_dict())
    train(other, batches[2:])
    for name in ("bn1.running_mean", "bn2.running_mean"):
        assert torch.equal(other.get_buffer(name), model.get_buffer(name))


def test_wrapped_models_are_frozen_and_converted() -> None:
    batches = images_and_labels(2)
    model = prepared()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    averaged.train()(batches[0][0])
    training.freeze(averaged)
    assert averaged.module.calib8.frozen
    assert not model.calib8.frozen
    train(model, batches)
    compiled: Any = torch.compile(model, backend="eager")
    training.freeze(compiled)
    assert model.calib8.frozen


def test_moving_averages() -> None:
    batches = images_and_labels(3)
    model = prepared()
    quantizer = dict(model.calib8.all_quantizers())["x"]
    expected = None
    for index, (pictures, _) in enumerate(batches):
        model(pictures)
        low = float(pictures.min())
        expected = low if expected is None else 0.75 * expected + 0.25 * low
        assert float(quantizer.minimum) == pytest.approx(expected, rel=1e-6)
        assert model.calib8.steps == index + 1
    model.eval()
    with torch.no_grad():
        model(10.0 * batches[0][0])
    assert float(quantizer.minimum) == pytest.approx(expected, rel=1e-6)


def test_delay_leaves_activations_in_float() -> None:
    pictures = images_and_labels(1)[0][0]
    model = prepared(delay=2)
    quantizer = dict(model.calib8.all_quantizers())["x"]
    for _ in range(2):
        model(pictures)
        assert quantizer.active == (model.calib8.steps >= 2)
    coded = quantizer(pictures)
    assert len(torch.unique(coded)) <= 256 < len(torch.unique(pictures))


def test_channels_last_and_half_types_train() -> None:
    batches = images_and_labels(4)
    model, plain = prepared().to(memory_format=torch.channels_last), prepared()
    turned = [
        (pictures.contiguous(memory_format=torch.channels_last), labels) for pictures, labels in batches
    ]
    losses, expected = train(model, turned), train(plain, batches)
    assert losses == pytest.approx(expected, rel=1e-3)
    optimizer = optimizer_of(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(turned[0][0]), turned[0][1])
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert all(one.grad is None or one.grad.dtype == torch.float32 for one in model.parameters())
    result = training.convert(model)
    found = training.agreement(model, result, batches[0][0])
    assert found.largest <= 1
    assert found.equal >= 0.999


def _one_of_two(rank: int, port_file: str, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    model = prepared()
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer_of(parallel)
    for batch in images_and_labels(6)[rank::2]:
        step(parallel, optimizer, batch)
    result = training.convert(parallel)
    torch.save({"state": model.state_dict(), "codes": result.qparams}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_agree_on_ranges(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_one_of_two, (str(tmp_path / "meeting"), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(2))
    assert first["codes"] == second["codes"]
    ranged = [name for name in first["state"] if name.endswith(("minimum", "maximum", "scale"))]
    assert ranged
    assert all(torch.equal(first["state"][name], second["state"][name]) for name in ranged)
    batches = images_and_labels(6)
    lowest = [min(float(one.min()) for one in (batches[i][0], batches[i + 1][0])) for i in range(0, 6, 2)]
    expected = lowest[0]
    for low in lowest[1:]:
        expected = 0.75 * expected + 0.25 * low
    assert float(first["state"]["calib8.quantizers.x.minimum"]) == pytest.approx(expected, rel=1e-6)


def first_layer(model: SimulatedModel, pictures: Tensor) -> Tensor:
    """What the first convolution yields on coded inputs, by its definition."""
    kernel = model.get_submodule("features.0.0")
    assert isinstance(kernel, nn.Conv2d)
    coded = dict(model.calib8.all_quantizers())["x"].coded(pictures)
    weight = fake_quantize_weight(kernel.weight, weight_scale(kernel.weight, 0, 127), 0, 127)
    return F.conv2d(coded, weight, stride=kernel.stride, padding=kernel.padding)


def test_statistics_are_taken_anew() -> None:
    batches = images_and_labels(6)
    pictures = [one for one, _ in batches]
    model = training.prepare(network("mobilenet_v2").train(), pictures[0])
    train(model, batches[:2])
    labelled = copy.deepcopy(model)
    assert training.reestimate_batch_norms(labelled, batches) == 6
    assert training.reestimate_batch_norms(model, pictures) == 6
    assert same(labelled, model)
    norm = model.get_submodule("features.0.1")
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert model.training
    assert norm.training
    assert norm.momentum == 0.1
    with torch.no_grad():
        means = torch.stack([first_layer(model, one).mean((0, 2, 3)) for one in pictures])
    np.testing.assert_allclose(norm.running_mean.numpy(), means.mean(0).numpy(), rtol=1e-4, atol=1e-6)
    training.freeze(model)
    with pytest.raises(calib8.UsageError, match="frozen"):
        training.reestimate_batch_norms(model, pictures)


@pytest.mark.parametrize("batches", [[], [images_and_labels(1)[0][0], torch.zeros(1, 5, 32, 32)]])
def test_statistics_stay_where_none_could_be_taken(batches: list[Tensor]) -> None:
    model = prepared()
    train(model, images_and_labels(2))
    before = copy.deepcopy(model)
    with pytest.raises((calib8.DataError, RuntimeError)):
        training.reestimate_batch_norms(model, batches)
    assert same(model, before)


def test_statistics_of_weights_with_one_scale() -> None:
    batches = images_and_labels(6)
    model = training.prepare(network("mobilenet_v2").train(), batches[0][0], weights="per-tensor")
    train(model, batches[:2])
    shaken = copy.deepcopy(model)
    for one in shaken.modules():
        if isinstance(one, nn.BatchNorm2d) and one.running_mean is not None:
            one.running_mean.add_(1.0)
    for one in (model, shaken):
        training.reestimate_batch_norms(one, [pictures for pictures, _ in batches])
    assert same(model, shaken)


def test_modes_of_single_modules_stay() -> None:
    module = small()
    module.get_submodule("bn1").eval()
    model = training.prepare(module, images_and_labels(1)[0][0])
    assert model.training
    assert not model.get_submodule("bn1").training
    train(model, images_and_labels(1))
    training.reestimate_batch_norms(model, [images_and_labels(1)[0][0]])
    assert model.get_submodule("bn2").training
    assert not model.get_submodule("bn1").training
    result = training.convert(model)
    training.agreement(model, result, images_and_labels(1)[0][0])
    assert model.training
    assert not model.get_submodule("bn2").training
