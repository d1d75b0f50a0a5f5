"""What a model sees of a sample as a small picture, and what models answer drawn for it.

pixel = value / scale + mean, clamped to 0 … 255; channels as RGB
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from calib8.data.preprocess import Preprocess
from calib8.run_report.told import Answer, Box
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.boxes import areas
from calib8.tasks.judges.classes import ClassJudge, class_scores
from calib8.tasks.judges.decode_boxes import Detections
from calib8.tasks.judges.find import AnyJudge
from calib8.tasks.judges.interface import Array

SIDE: Final = 192
"""Pixels of a thumbnail's longer side at most."""

QUALITY: Final = 70
"""Of JPEG."""

BEST: Final = 3
"""Classes that are told."""

MOST_BOXES: Final = 40
"""Boxes of a model that are drawn, the best first."""

Pixels = npt.NDArray[np.uint8]


def pixels_of(inputs: Mapping[str, Array], p: Preprocess | None) -> Pixels | None:
    """The picture that a sample was made of as uint8 [H, W, 3], as far as the model sees it.

    Args:
        inputs: of one sample, batch axis included.
        p: how pictures become inputs; None: the values are spread over 0 … 255.

    Returns:
        None where the input is no picture: several inputs, another rank, other channels.
    """
    if len(inputs) != 1:
        return None
    values: npt.NDArray[np.float32] = np.asarray(next(iter(inputs.values())), np.float32)
    values = values[0] if values.ndim == 4 else values
    if values.ndim != 3 or (p is not None and p.focus):
        return None
    last = p.layout == "NHWC" if p is not None else values.shape[0] not in (1, 3)
    values = values if last else values.transpose(1, 2, 0)
    if values.shape[2] not in (1, 3) or min(values.shape[:2]) < 2 or not np.isfinite(values).all():
        return None
    if p is None:
        low, high = float(values.min()), float(values.max())
        values = (values - low) * (255.0 / (high - low) if high > low else 0.0)
    elif p.dtype != "uint8":
        scale, mean = (np.asarray(numbers, np.float32) for numbers in (p.scale, p.mean))
        values = (values / scale + mean).astype(np.float32)
    if p is not None and p.color == "bgr":
        values = values[:, :, ::-1]
    pixels = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def data_uri(pixels: Pixels) -> tuple[str, tuple[int, int]]:
    """A thumbnail as the data URI of a JPEG, with its width and height."""
    image = Image.fromarray(pixels)
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    held = io.BytesIO()
    image.save(held, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(held.getvalue()).decode()}", image.size


def answer_of(
    judge: AnyJudge, read: Any, outputs: list[Array], meaning: Meaning, pixels: Pixels | None,
    seen: tuple[int, int],
) -> Answer:  # fmt: skip
    """What a model answers.

    Args:
        judge: of the task.
        read: what it has read from the outputs.
        outputs: float outputs of the sample.
        meaning: of the outputs.
        pixels: the picture, None without.
        seen: height and width of the model's input.
    """
    if isinstance(read, Detections):
        return _boxes(read, getattr(judge, "least_score", 0.25), seen)
    if judge.task == "classify":
        return Answer(_classes(judge, read, outputs, meaning))
    if judge.task == "segment" and isinstance(read, np.ndarray):
        shares = np.bincount(read.reshape(-1)) / max(read.size, 1)
        order = np.argsort(-shares, kind="stable")[:BEST]
        lines = tuple(f"class {number}: {100.0 * shares[number]:.1f} %" for number in order if shares[number])
        return Answer(lines, mask="" if pixels is None or not read.any() else _blended(pixels, read))
    if judge.task == "speech":
        return Answer((", ".join("yes" if one else "no" for one in read)[:120],))
    if judge.task == "ctc":
        return Answer((f"{read}"[:120],))
    return Answer()


def _boxes(read: Detections, least: float, seen: tuple[int, int]) -> Answer:
    good = [
        n for n in range(len(read.scores)) if read.scores[n] > least and areas(read.boxes[n : n + 1])[0] > 0
    ]
    height, width = seen
    scale = np.array([width, height, width, height], np.float64)
    ends = np.clip(read.boxes / scale, 0.0, 1.0)
    boxes = tuple(
        Box(*_corners(ends[n]), f"class {read.classes[n]}, {read.scores[n]:.2f}") for n in good[:MOST_BOXES]
    )
    count = len(good)
    lines = [f"{count} object{'s' * (count != 1)}", *(box.label for box in boxes[:BEST])]
    return Answer(tuple(lines), boxes)


def _corners(ends: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
    left, top, right, bottom = (round(float(end), 4) for end in ends)
    return left, top, right, bottom


def _classes(judge: AnyJudge, read: Any, outputs: list[Array], meaning: Meaning) -> tuple[str, ...]:
    place = judge.output if isinstance(judge, ClassJudge) else 0
    scores = class_scores(outputs[place])
    if scores is None:
        return tuple(f"class {number}" for number in read[:BEST])
    row = scores[0].astype(np.float64)
    logits = any(branch.kind == "logits" for branch in meaning.branches)
    if logits:
        powers = np.exp(row - row.max())
        row = powers / powers.sum()
    share = logits or (float(row.min()) >= 0.0 and float(row.max()) <= 1.0)
    each = (f"{100.0 * row[n]:.1f} %" if share else f"{row[n]:.4g}" for n in read[:BEST])
    return tuple(f"class {n}: {told}" for n, told in zip(read, each, strict=False))


def _blended(pixels: Pixels, classes: npt.NDArray[np.int64]) -> str:
    """The picture with its regions in colours; class 0 is left as it is."""
    image = Image.fromarray(pixels)
    rows = (np.arange(image.height) * classes.shape[0]) // image.height
    columns = (np.arange(image.width) * classes.shape[1]) // image.width
    spread = classes[rows][:, columns]
    hues = (spread * 47) % 180 + 20
    colours = np.stack([hues, np.full_like(hues, 200), np.full_like(hues, 230)], axis=2).astype(np.uint8)
    painted = np.asarray(Image.fromarray(colours, "HSV").convert("RGB"), np.float32)
    mixed = np.where(spread[:, :, None] > 0, 0.5 * pixels + 0.5 * painted, pixels)
    return data_uri(np.clip(np.rint(mixed), 0, 255).astype(np.uint8))[0]
