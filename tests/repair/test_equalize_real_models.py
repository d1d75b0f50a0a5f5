"""Real networks compute the same after their layers were equalized."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.model.load import load_model
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
