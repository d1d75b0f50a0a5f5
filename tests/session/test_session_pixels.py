"""InferenceSession that takes pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from calib8 import DataError, InferenceSession, UsageError
from calib8.data.preprocess import Preprocess
from small_models import Array


def pixel_feeds(preprocess: Preprocess, count: int = 2) -> tuple[Array, Array]:
    """Pixels [N, H, W, C], and the float32 values [N, C, H, W] that preprocessing makes of them."""
    pixels = np.random.default_rng(7).integers(0, 256, (count, 6, 6, 3)).astype(np.uint8)
    values = (pixels.astype(np.float32) - np.float32(preprocess.mean)) * np.float32(preprocess.scale)
    return pixels, np.ascontiguousarray(values.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
def test_pixels_give_what_preprocessed_images_give(proto: onnx.ModelProto, runtime: str) -> None:
    preprocess = Preprocess(mean=(123.7, 116.3, 103.5), scale=(1 / 58.4, 1 / 57.1, 1 / 57.4))
    pixels, values = pixel_feeds(preprocess)
    session = InferenceSession(proto, runtime=runtime, pixels=preprocess)
    assert session.get_inputs()[0].type == "tensor(uint8)"
    assert session.get_inputs()[0].shape[1:] == [6, 6, 3]
    wanted = InferenceSession(proto, runtime=runtime).run(None, {"x": values})
    np.testing.assert_array_equal(session.run(None, {"x": pixels})[0], wanted[0])


def test_a_plan_of_pixels_takes_pixels(fixed: onnx.ModelProto, tmp_path: Path) -> None:
    preprocess = Preprocess(mean=(127.5,), scale=(1 / 64,))
    pixels, _ = pixel_feeds(preprocess, 1)
    session = InferenceSession(fixed, pixels=preprocess)
    session.save(tmp_path / "pixels.c8")
    opened = InferenceSession(tmp_path / "pixels.c8")
    np.testing.assert_array_equal(opened.run(None, {"x": pixels})[0], session.run(None, {"x": pixels})[0])
    with pytest.raises(UsageError, match="is a plan"):
        InferenceSession(tmp_path / "pixels.c8", pixels=preprocess)
    with pytest.raises(DataError, match="uint8"):
        session.run(None, {"x": pixels.astype(np.float32)})


def test_pixels_in_another_layout_than_the_model_are_refused(fixed: onnx.ModelProto) -> None:
    with pytest.raises(UsageError, match="NHWC by its preprocessing"):
        InferenceSession(fixed, pixels=Preprocess(layout="NHWC"))
