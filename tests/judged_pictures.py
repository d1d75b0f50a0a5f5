"""A small classifier in float and INT8, and labelled pictures of it in a folder, an array file and shards."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import calib8
from calib8 import Preprocess
from small_models import normal, onnx_model
from stored_data import tar

RECIPE = Preprocess(mean=(128.0,), scale=(1 / 64,))
CLASSES = ("bird", "cat", "dog")
COUNT = 100
PIXELS = np.random.default_rng(12).integers(0, 256, (COUNT, 6, 6, 3), np.uint8)
LABELS = [number * 7 % 3 for number in range(COUNT)]
NAMES = [f"{CLASSES[label]}/{number:03}.png" for number, label in enumerate(LABELS)]


def network(outputs: int = 4, seed: int = 0) -> Any:
    """Scores of so many classes for pictures of 6 × 6 pixels."""
    return onnx_model(
        "float[N,3,6,6] x", f"float[N,{outputs}] y",
        "a = Conv(x, w)  b = Relu(a)  c = GlobalAveragePool(b)  d = Flatten(c)  y = Gemm(d, v)",
        {"w": normal(8, 3, 3, 3, seed=seed), "v": normal(8, outputs, seed=seed + 1)},
    )  # fmt: skip


def models(place: Path, outputs: int = 4) -> list[Path]:
    """A float model and an INT8 one."""
    place.mkdir(parents=True, exist_ok=True)
    float_path, int8_path = place / "float.onnx", place / "int8.onnx"
    float_path.write_bytes(network(outputs).SerializeToString())
    calib8.quantize(float_path, PIXELS[:20], preprocess=RECIPE, repair=["none"]).save(int8_path)
    return [float_path, int8_path]


def png(number: int) -> bytes:
    held = io.BytesIO()
    Image.fromarray(PIXELS[number]).save(held, "PNG")
    return held.getvalue()


def folder(place: Path) -> Path:
    """A folder for each class."""
    for number, name in enumerate(NAMES):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(png(number))
    return place


def label_list(path: Path, labels: Sequence[int] = LABELS) -> Path:
    """Lines of ``file label``."""
    lines = (f"{name} {label}\n" for name, label in zip(NAMES, labels, strict=True))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def array_file(path: Path, **more: Any) -> Path:
    """Pixels with labels."""
    arrays = {"images": PIXELS, "labels": np.array(LABELS)} | more
    np.savez(path, **arrays)
    return path


def shards(place: Path) -> Path:
    """Five tar shards with labels."""
    place.mkdir(parents=True, exist_ok=True)
    for first in range(0, COUNT, 20):
        members = [
            (f"{number:03}.{suffix}", content)
            for number in range(first, first + 20)
            for suffix, content in (("png", png(number)), ("cls", str(LABELS[number]).encode()))
        ]
        (place / f"train-{first:03}.tar").write_bytes(tar(members))
    return place


def timeless(found: Sequence[Any]) -> list[Any]:
    """Evaluations without what a cluster does not tell."""
    return [replace(one, seconds=None) for one in found]
