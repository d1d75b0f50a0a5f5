"""A real int8 TFLite model beside its float twin: the figures are those of LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from calib8.data.preprocess import Preprocess
from calib8.judge import evaluate

SAMPLES = 200


def test_an_int8_model_beside_its_float_twin(shared_data: Path) -> None:
    models = [shared_data / "tflite" / f"mlperftiny_pretrainedResnet{kind}.tflite" for kind in ("", "_quant")]
    images = shared_data / "cifar10" / "test5000.npz"
    found = {
        runtime: evaluate(
            models, images, preprocess=Preprocess(resize="none"), samples=SAMPLES, runtime=runtime
        )[1]
        for runtime in ("calib8", "litert-reference")
    }
    ours, theirs = found.values()
    assert (ours.top1, ours.agreement) == (theirs.top1, theirs.agreement)
    assert ours.sqnr_db == pytest.approx(theirs.sqnr_db, abs=1e-3)  # the float twin runs in LiteRT there
    assert ours.top1 is not None and ours.top1 > 0.8
    assert ours.agreement is not None and ours.agreement > 0.95
