"""A mobile network that one scale per weight destroys comes back: equalized layers, corrected biases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_candidates import candidate_of

from calib8.repair.bias import correct_biases
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.cross_layer import cross_layer
from calib8.scheme import target_scheme
from mobile_nets import images, mobile_net
from small_models import Array, relative_difference, run

SCHEME = replace(target_scheme("onnxruntime"), weight_granularity="per-tensor")


@pytest.fixture(scope="module")
def base() -> tuple[Candidate, RepairData]:
    return candidate_of(mobile_net(), [{"x": image[None]} for image in images(48, seed=7)[0]], scheme=SCHEME)


@pytest.fixture(scope="module")
def unseen() -> tuple[Array, Array]:
    return images(200, seed=9)


def agreement(made: Candidate, base: Candidate, inputs: Array) -> float:
    found, expected = (run(model, {"x": inputs})[0] for model in (made.quantized().model, base.model))
    return float(np.mean(np.argmax(found, axis=1) == np.argmax(expected, axis=1)))


def test_the_float_network_tells_its_classes(
    base: tuple[Candidate, RepairData], unseen: tuple[Array, Array]
) -> None:
    logits = run(base[0].model, {"x": unseen[0]})[0]
    assert np.mean(np.argmax(logits, axis=1) == unseen[1]) > 0.9


def test_destroyed_and_brought_back(base: tuple[Candidate, RepairData], unseen: tuple[Array, Array]) -> None:
    made, data = base
    assert agreement(made, made, unseen[0]) < 0.3
    assert agreement(correct_biases(made, data)[0], made, unseen[0]) < 0.5, "biases alone are not enough"
    equalized, report = cross_layer(made, data)
    assert len(report.layers) == 11
    assert (
        relative_difference(run(made.model, {"x": unseen[0]}), run(equalized.model, {"x": unseen[0]})) < 1e-4
    )
    repaired, _ = correct_biases(equalized, data)
    assert agreement(repaired, made, unseen[0]) >= 0.95


def test_scales_per_channel_gain_as_well(
    base: tuple[Candidate, RepairData], unseen: tuple[Array, Array]
) -> None:
    """Activations have one scale whatever the weights have."""
    made, data = replace(base[0], scheme=target_scheme("onnxruntime")), base[1]
    before = agreement(made, made, unseen[0])
    assert agreement(cross_layer(made, data)[0], made, unseen[0]) > before + 0.3
