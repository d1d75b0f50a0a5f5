"""Bias correction on real networks: what it gains, and that it does no harm where there is little to gain."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.autorange.check import check_model, float_outputs
from calib8.autorange.samples import ChosenSamples, choose_samples
from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.pipeline import calibrate
from calib8.repair.bias import correct_biases
from calib8.repair.bias_sequential import correct_biases_in_sequence
from calib8.repair.candidate import Candidate, RepairData
from calib8.scheme import TARGETS

EFFICIENTNET = Preprocess(
    color="rgb", resize="short-side", filter="bicubic", resize_to=256, mean=(127.0,), scale=(1 / 128,)
)


def opened(model: Path, data: Path, preprocess: Preprocess, count: int) -> tuple[Candidate, ChosenSamples]:
    found = calibrate(model, data, preprocess=preprocess, samples=count, method="mse")
    assert found.dataset is not None
    samples = choose_samples(found.dataset, 2)
    assert not samples.shared
    return Candidate(found.prepared.model, found.table, TARGETS["onnxruntime"]), samples


def quality(candidate: Candidate, samples: ChosenSamples) -> float:
    """In dB, on samples that no repair has seen."""
    expected = float_outputs(candidate.model, samples.held_back, 2)
    return check_model("", candidate.quantized().model, samples.held_back, expected, 2).sqnr_db


@pytest.mark.slow
def test_a_network_whose_weights_are_the_trouble_gains_decibels(shared_data: Path) -> None:
    model = shared_data / "models" / "efficientnet_lite0.onnx"
    candidate, samples = opened(model, shared_data / "imagenet" / "calib", EFFICIENTNET, 24)
    corrected, report = correct_biases(candidate, RepairData(samples.scored), most_runs=8)
    assert len(report.layers) == 50
    assert quality(corrected, samples) > quality(candidate, samples) + 2.5


def test_a_network_without_trouble_does_not_lose(shared_data: Path) -> None:
    model, data = shared_data / "models" / "resnet20_cifar10.onnx", shared_data / "cifar10" / "train1024.npz"
    candidate, samples = opened(model, data, preset("cifar10"), 96)
    plain = quality(candidate, samples)
    once, _ = correct_biases(candidate, RepairData(samples.scored))
    assert quality(once, samples) > plain
    assert quality(correct_biases_in_sequence(once, RepairData(samples.scored))[0], samples) > plain
