"""What a float network of ``task_networks.py`` says of its judged pictures: to count and to draw.

A sheet shows boxes, and maps as a tint; lines of text, embeddings and classes are the pictures alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.model.load import load_model
from calib8.tasks.judges.decode_boxes import Detections
from calib8.tasks.judges.find import find_judge
from calib8.tasks.meaning import meaning_of

LEAST_SCORE: Final = 0.25
COLUMNS: Final = 6
ROWS: Final = 4
TILE: Final = 240
TINT: Final = np.array([255.0, 0.0, 0.0])


def network_of(folder: Path, name: str) -> dict[str, Any]:
    """The content of ``network.json``, with pictures as paths from here."""
    found = json.loads((folder / name / "network.json").read_text(encoding="utf-8"))
    for part in ("calibration", "evaluation"):
        found[part] = str(folder / found[part])  # an absolute path stays
    return dict(found)


def preprocess_of(network: dict[str, Any]) -> Preprocess:
    """How pictures become inputs."""
    return Preprocess(
        size=tuple(network["size"]), color=network["color"], mean=tuple(network["mean"]),
        scale=tuple(network["scale"]),
    )  # fmt: skip


def answers(folder: Path, name: str, every: int = 1) -> Iterator[tuple[Image.Image, Any]]:
    """Picture and answer of the float network, for every so many of the judged pictures."""
    network = network_of(folder, name)
    preprocess, judge = preprocess_of(network), None
    file = folder / name / "model.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    meaning = meaning_of(load_model(file), task=network["task"])
    for path in sorted(Path(network["evaluation"]).glob("*.png"))[: network["judged"] : every]:
        picture = Image.open(path)
        feeds = {session.get_inputs()[0].name: apply_preprocess(picture, preprocess)[None]}
        outputs = session.run(None, feeds)
        judge = judge or find_judge(network["task"], names, outputs, feeds, meaning)
        yield picture, judge.read(outputs, path.name)


def objects(folder: Path, name: str) -> int:
    """How many boxes of FP32 have a score above 0.25."""
    return sum(int(np.sum(found.scores > LEAST_SCORE)) for _, found in answers(folder, name))


def sheet(folder: Path, name: str) -> Image.Image:
    """Some of the pictures, evenly from all, with what was found."""
    network = network_of(folder, name)
    size = tuple(network["size"])
    every = max(network["judged"] // (COLUMNS * ROWS), 1)
    whole = Image.new("RGB", (COLUMNS * TILE, ROWS * TILE))
    for place, (picture, answer) in zip(range(COLUMNS * ROWS), answers(folder, name, every), strict=False):
        tile = drawn(picture, answer, size)
        tile.thumbnail((TILE, TILE))
        whole.paste(tile, (place % COLUMNS * TILE, place // COLUMNS * TILE))
    return whole


def drawn(picture: Image.Image, answer: Any, size: tuple[int, ...]) -> Image.Image:
    """A picture in the size of the input, with boxes or a map."""
    tile = picture.convert("RGB").resize(size[::-1])
    if isinstance(answer, Detections):
        for box in answer.boxes[answer.scores > LEAST_SCORE]:
            corners = [*np.minimum(box[:2], box[2:]), *np.maximum(box[:2], box[2:])]
            ImageDraw.Draw(tile).rectangle([float(place) for place in corners], outline="red", width=3)
    elif isinstance(answer, np.ndarray) and answer.shape == size:
        mixed = np.asarray(tile) * 0.5 + 0.5 * np.where(answer[..., None] > 0, TINT, np.asarray(tile))
        return Image.fromarray(mixed.astype(np.uint8))
    return tile
