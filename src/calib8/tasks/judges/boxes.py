"""Boxes: overlap, and which of several boxes of one object stays.

    IoU(d, g) = |d ∩ g| / |d ∪ g|          of a crowd g, which may hold many objects: |d ∩ g| / |d|
    NMS: best score first; a box whose IoU with a better one of its class is above the threshold goes

Boxes are corners x1, y1, x2, y2 in pixels; a box with x2 ≤ x1 or y2 ≤ y1 has no area.
"""

from __future__ import annotations

import numpy as np

from calib8.tasks.judges.interface import F64, I64, Array, Flags


def areas(boxes: F64) -> F64:
    """float64 [n] of boxes [n, 4]."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def overlaps(boxes: F64, truth: F64, crowd: Flags | None = None) -> F64:
    """IoU float64 [n, m] of boxes [n, 4] with others [m, 4], 0 where neither has an area.

    Args:
        boxes, truth: corners.
        crowd: bool [m]: which of the others are crowds.
    """
    low = np.maximum(boxes[:, None, :2], truth[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], truth[None, :, 2:])
    sides = np.maximum(high - low, 0.0)
    common = sides[..., 0] * sides[..., 1]
    own, others = areas(boxes)[:, None], areas(truth)[None, :]
    whole = own + others - common
    if crowd is not None:
        whole = np.where(crowd[None, :], own, whole)
    return np.asarray(np.divide(common, whole, out=np.zeros_like(common), where=whole > 0))


def corners(centred: Array) -> F64:
    """x1, y1, x2, y2 of boxes [n, 4] given as centre x, y, width and height."""
    wide = np.asarray(centred, np.float64)
    half = wide[:, 2:] / 2.0
    return np.concatenate([wide[:, :2] - half, wide[:, :2] + half], axis=1)


def suppressed(boxes: F64, scores: F64, classes: I64, threshold: float, most: int) -> I64:
    """Indices of the boxes that stay, best score first; the lower index first among equals.

    Args:
        boxes: float64 [n, 4], corners.
        scores, classes: of the same length.
        threshold: IoU above which the weaker of two boxes of one class goes.
        most: at most so many stay.
    """
    order = np.argsort(-scores, kind="stable")
    left, top, right, bottom = np.ascontiguousarray(boxes[order].T)
    size, kinds, waits = areas(boxes)[order], classes[order], np.ones(len(order), bool)
    kept: list[int] = []
    for best in range(len(order)):
        if not waits[best]:
            continue
        kept.append(best)
        if len(kept) == most:
            break
        worse = slice(best + 1, None)
        common = _shared(left[worse], right[worse], left[best], right[best])
        common *= _shared(top[worse], bottom[worse], top[best], bottom[best])
        whole = size[worse] + size[best] - common
        near = np.divide(common, whole, out=np.zeros_like(common), where=whole > 0) > threshold
        waits[worse] &= ~(near & (kinds[worse] == kinds[best]))
    return order[kept].astype(np.int64)


def _shared(low: F64, high: F64, other_low: float, other_high: float) -> F64:
    """Lengths that spans [n] have in common with one other, 0 where they do not touch it."""
    shared = np.minimum(high, other_high)
    shared -= np.maximum(low, other_low)
    return np.maximum(shared, 0.0, out=shared)
