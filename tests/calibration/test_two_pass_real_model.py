"""A real network: the second pass sees what the first saw, and the int8 models do what the float one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS
from calib8.data.presets import preset
from calib8.judge import evaluate
from calib8.pipeline import quantize


@pytest.mark.slow
def test_resnet20(shared_data: Path, tmp_path: Path) -> None:
    model, images = shared_data / "models" / "resnet20_cifar10.onnx", preset("cifar10")
    paths = [model]
    for method in TWO_PASS_METHODS:
        made = quantize(
            model, shared_data / "cifar10" / "train1024.npz", preprocess=images, samples=32, method=method
        )
        assert made.calibration is not None
        for name, entry in made.calibration.table.entries.items():
            seen = entry.observed.magnitude
            assert 0.2 * seen <= entry.range.magnitude <= seen, f"{method}: {name}"
        made.save(tmp_path / f"{method}.onnx")
        paths.append(tmp_path / f"{method}.onnx")
    float_model, *found = evaluate(
        paths, shared_data / "cifar10" / "test5000.npz", preprocess=images, samples=200, batch=50
    )
    assert float_model.top1 is not None
    for result in found:
        assert result.agreement is not None and result.top1 is not None
        assert result.agreement >= 0.95, result.model
        assert result.top1 == pytest.approx(float_model.top1, abs=0.03), result.model
