"""InferenceSession that takes pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from session_models import int8

from calib8 import DataError, InferenceSession, UsageError
from calib8.data.preprocess import Preprocess
from small_models import Array, normal, onnx_model


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


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_an_image_that_is_flattened_keeps_the_layout_of_the_model(runtime: str, layout: str) -> None:
    """Flatten takes the elements in the model's order, so nothing in the program lies channels last."""
    sizes = (3, 2, 2) if layout == "NCHW" else (2, 2, 3)
    axes = ",".join(map(str, sizes))
    body = "f = Flatten<axis=1>(x) y = MatMul(f, w)"
    model = int8(onnx_model(f"float[N,{axes}] x", "float[A,B] y", body, {"w": normal(12, 5)}), sizes)
    preprocess = Preprocess(mean=(127.0, 120.0, 100.0), scale=(1 / 64, 1 / 60, 1 / 70), layout=layout)
    pixels = np.random.default_rng(7).integers(0, 256, (4, 2, 2, 3)).astype(np.uint8)
    values = (pixels.astype(np.float32) - np.float32(preprocess.mean)) * np.float32(preprocess.scale)
    fed = np.ascontiguousarray(values.transpose(0, 3, 1, 2) if layout == "NCHW" else values)
    session = InferenceSession(model, runtime=runtime, pixels=preprocess)
    assert session.get_inputs()[0].shape[1:] == [2, 2, 3]
    [wanted] = InferenceSession(model, runtime=runtime).run(None, {"x": fed})
    np.testing.assert_array_equal(session.run(None, {"x": pixels})[0], wanted)


def test_a_layout_that_the_number_of_channels_contradicts() -> None:
    body = "f = Flatten<axis=1>(x) y = MatMul(f, w)"
    model = int8(onnx_model("float[1,3,2,2] x", "float[A,B] y", body, {"w": normal(12, 5)}), (3, 2, 2))
    with pytest.raises(UsageError, match="has 2 channels if it is NHWC, as its preprocessing says"):
        InferenceSession(model, pixels=Preprocess(layout="NHWC"))
    with pytest.raises(UsageError, match="has 2 channels, mean and scale are for"):
        InferenceSession(model, pixels=Preprocess(layout="NHWC", mean=(1.0, 2.0, 3.0)))


def test_a_convolution_in_nhwc_is_not_taken_for_nchw() -> None:
    body = "t = Transpose<perm=[0,3,1,2]>(x) y = Conv(t, w)"
    model = int8(
        onnx_model("float[1,6,6,3] x", "float[A,B,C,D] y", body, {"w": normal(8, 3, 3, 3)}), (6, 6, 3)
    )
    with pytest.raises(UsageError, match="NCHW by its preprocessing, but its channels lie elsewhere"):
        InferenceSession(model, pixels=Preprocess())
    assert InferenceSession(model, pixels=Preprocess(layout="NHWC")).get_inputs()[0].shape == [1, 6, 6, 3]


@pytest.mark.parametrize("given", ["torchvision", {"mean": (1.0,)}, 3])
def test_what_is_no_preprocessing_is_refused(fixed: onnx.ModelProto, given: Any) -> None:
    with pytest.raises(UsageError, match=r"pixels: is an? .*calib8\.preset\('torchvision'\)"):
        InferenceSession(fixed, pixels=given)
