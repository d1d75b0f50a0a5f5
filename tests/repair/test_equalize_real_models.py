"""Real networks compute the same after their layers were equalized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calib8.model.load import load_model
from calib8.passes.channel_classes import FIXED, channel_classes
from calib8.passes.equalize_layers import equalize_layers
from calib8.passes.prepare import prepare
from small_models import Array, normal, relative_difference, run

CHAINS = {
    "ultraface_RFB-320": ((1, 3, 240, 320), 25),
    "resnet20_cifar10": ((1, 3, 32, 32), 9),
    "ch_ppocr_mobile_v2.0_cls_infer": ((1, 3, 48, 192), 13),
}
"""Shape of the input, number of chains."""


@pytest.mark.parametrize("name", CHAINS)
def test_the_function_stays(name: str, shared_data: Path) -> None:
    shape, chains = CHAINS[name]
    original = load_model(shared_data / "models" / f"{name}.onnx")
    sample: dict[str, Array] = {original.graph.inputs[0].name or "": normal(*shape)}
    prepared = prepare(original, sample).model
    expected = run(prepared, sample)
    found = equalize_layers(prepared)
    assert len(found.chains) == chains
    assert relative_difference(expected, run(prepared, sample)) < 1e-4


GROUPS = {
    "ultraface_RFB-320": ((1, 3, 240, 320), 44),
    "squeezenet_v1.1": ((1, 3, 227, 227), 25),
    "resnet20_cifar10": ((1, 3, 32, 32), 9),
}
"""Shape of the input, number of layers whose output channels may have factors: all but heads and streams."""


@pytest.mark.parametrize("name", GROUPS)
def test_factors_on_groups_leave_every_bit(name: str, shared_data: Path) -> None:
    shape, written = GROUPS[name]
    original = load_model(shared_data / "models" / f"{name}.onnx")
    sample: dict[str, Array] = {original.graph.inputs[0].name or "": normal(*shape)}
    prepared = prepare(original, sample).model
    expected = run(prepared, sample)
    classes = channel_classes(prepared)
    assert sum(bool(np.any(layer.written)) for layer in classes.layers) == written
    factors = np.exp2(np.random.default_rng(1).integers(-3, 4, classes.count)).astype(np.float64)
    factors[FIXED] = 1.0
    for layer in classes.layers:
        layer.scaled(factors).write(prepared.graph)
    for left, right in zip(expected, run(prepared, sample), strict=True):
        assert np.array_equal(left, right)
