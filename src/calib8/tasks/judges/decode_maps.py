"""Maps of a detector's head that the graph does not decode → rows of boxes and scores.

    bins     [4·b + c, h, w]        YOLOv8 and its like: distances in bins, scores of classes
    anchors  [a·(5 + c), h, w]      YOLOv5: x = (2σ(tx) − ½ + column)·s, w = (2σ(tw))²·anchor
                                    YOLOv2 … v4 (``anchors-exp``): x = (σ(tx) + column)·s, w = exp(tw)·anchor

Other orders of the axes, such as [a, h, w, 5 + c], are turned into these (``planes``).

Rows are in the order of the outputs, of the anchors, and of the cells row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib8.tasks.judges.boxes import corners
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.interface import F64


@dataclass(frozen=True)
class Decoded:
    """Boxes float64 [n, 4], corners in pixels; scores [n, c]; objectness [n, 1], None where there is none."""

    boxes: F64
    scores: F64
    objectness: F64 | None


def flat(part: F64) -> F64:
    """A map [c, h, w] as rows [h·w, c]; rows stay what they are."""
    return part.reshape(len(part), -1).T if part.ndim == 3 else part


def expected_bins(table: F64, bins: int) -> F64:
    """[n, 4] of [n, 4·b]: the mean of 0 … b − 1, weighted by the softmax of b scores."""
    if bins == 1:
        return table
    each = table.reshape(len(table), 4, bins)
    raised = np.exp(each - each.max(axis=2, keepdims=True))
    return np.asarray((raised * np.arange(bins)).sum(axis=2) / raised.sum(axis=2))


def decoded_maps(parts: Sequence[F64], head: DetectionHead) -> Decoded | None:
    """The maps of all levels; None where they do not fit the head."""
    levels = [_level(_planes(part, place, head), place, head) for place, part in enumerate(parts)]
    fitting = [level for level in levels if level is not None]
    if len(fitting) < len(levels):
        return None
    boxes, scores = (np.concatenate([getattr(one, name) for one in fitting]) for name in ("boxes", "scores"))
    sure = [one.objectness for one in fitting if one.objectness is not None]
    return Decoded(boxes, scores, np.concatenate(sure) if sure else None)


def _planes(part: F64, place: int, head: DetectionHead) -> F64:
    """A map as [channels, rows, columns]; as it is where it has not the axes that the head says."""
    axes = () if head.planes is None or place >= len(head.planes) else head.planes[place]
    if part.ndim != len(axes):
        return part
    turned = part.transpose(axes)
    return turned.reshape(-1, *turned.shape[-2:])


def _level(part: F64, place: int, head: DetectionHead) -> Decoded | None:
    if part.ndim != 3:
        return None
    high, wide = part.shape[1:]
    stride = head.size[0] / high
    down, across = np.divmod(np.arange(high * wide), wide)
    cells = np.stack([across, down], axis=1).astype(np.float64)
    if head.anchors is None:
        return _of_bins(flat(part), cells, stride, head)
    return _of_anchors(part, cells, stride, place, head)


def _of_bins(table: F64, cells: F64, stride: float, head: DetectionHead) -> Decoded | None:
    first = 4 * head.bins
    if table.shape[1] - head.extra <= first:
        return None
    reach, middle = expected_bins(table[:, :first], head.bins) * stride, (cells + 0.5) * stride
    boxes = np.concatenate([middle - reach[:, :2], middle + reach[:, 2:]], axis=1)
    return Decoded(boxes, table[:, first : table.shape[1] - head.extra], None)


def _of_anchors(part: F64, cells: F64, stride: float, place: int, head: DetectionHead) -> Decoded | None:
    anchors = () if head.anchors is None or place >= len(head.anchors) else head.anchors[place]
    if not anchors or len(part) % len(anchors) or len(part) // len(anchors) < 5 + head.extra:
        return None
    table = part.reshape(len(anchors), len(part) // len(anchors), -1).transpose(0, 2, 1)
    side = np.array(anchors, np.float64)[:, None, :]
    centre = 1.0 / (1.0 + np.exp(-table[:, :, :2]))
    if head.boxes == "anchors":
        centre = 2.0 * centre - 0.5
        size = (2.0 / (1.0 + np.exp(-table[:, :, 2:4]))) ** 2 * side
    else:
        size = np.exp(table[:, :, 2:4]) * side
    boxes = np.concatenate([(centre + cells) * stride, size], axis=2).reshape(-1, 4)
    end = table.shape[2] - head.extra
    sure = table[:, :, 4].reshape(-1, 1)
    classes = table[:, :, 5:end].reshape(len(sure), -1)
    return Decoded(corners(boxes), classes, sure)
