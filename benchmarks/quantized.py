"""The networks of ``topologies.py`` as INT8 models in the form that ONNX Runtime runs fastest: u8 · s8, QDQ.

Each is drawn and quantized once and then lies in a folder as NAME.int8.onnx. A file that is there is taken as
it is: empty the folder when a topology or the quantizer has changed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calib8.pipeline import quantize
from topologies import TOPOLOGIES, draw

IMAGES = 4


def quantized(name: str, folder: Path, size: int | None = None) -> Path:
    """Path of the INT8 model of a network of ``TOPOLOGIES``, made if it is missing.

    Args:
        name: key of ``TOPOLOGIES``.
        folder: where it lies; made if it is missing.
        size: rows and columns of its images, None for the published ones.
    """
    path = folder / (f"{name}.int8.onnx" if size is None else f"{name}_{size}.int8.onnx")
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    model, _ = draw(name, size)
    pixels = size or TOPOLOGIES[name].size
    rng = np.random.default_rng(1)
    images = [{"input": rng.standard_normal((1, 3, pixels, pixels), np.float32)} for _ in range(IMAGES)]
    quantize(model, images, method="minmax", target="onnxruntime").save(path)
    return path
