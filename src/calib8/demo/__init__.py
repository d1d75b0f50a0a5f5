"""A small trained CNN and its images, shipped with the package: facts about them and where they lie.

    digits.onnx              float32 CNN, opset 17, input 'input' N×1×16×16, output 'logits' N×10
    digits_calibration.npz   100 training images to calibrate with, 10 of each digit
    digits_heldout.npz       500 images that training never saw, to measure accuracy with

Each .npz holds ``images`` (uint8, N×16×16×1, 0 = paper, 255 = ink) and ``labels`` (int64, N, 0 … 9).
The network takes ``value = (pixel − PIXEL_MEAN) · PIXEL_SCALE`` as float32, in NCHW layout.

The images are the test set of E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits
(UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C50P49, licence CC BY 4.0), as scikit-learn
distributes it in ``load_digits``. Changed here: 8×8 pixels of 0 … 16 became 16×16 pixels of 0 … 255.
``scripts/train_demo_model.py`` made all three files and can make them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent

MODEL_PATH: Final = _FOLDER / "digits.onnx"
"""The float model; its BatchNormalization nodes are not folded, so that folding can be shown."""

CALIBRATION_PATH: Final = _FOLDER / "digits_calibration.npz"
"""Images and labels from the training split."""

HELDOUT_PATH: Final = _FOLDER / "digits_heldout.npz"
"""Images and labels of the held-out split."""

IMAGE_SIZE: Final = (16, 16)
"""Height and width of the images, in pixels; also what the network takes."""

COLOR: Final = "gray"
"""The images have one channel."""

PIXEL_MEAN: Final = 128.0
"""Subtracted from a pixel (0 … 255) first."""

PIXEL_SCALE: Final = 1 / 128
"""Multiplied after that; a power of two, so every input value in [−1, 1) is exact in float32."""

CLASS_COUNT: Final = 10
"""Classes are the digits themselves: logit d belongs to digit d."""
