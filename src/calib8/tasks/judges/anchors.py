"""The head of a detector whose outputs are raw grids of anchors, with published anchors where none are given.

    YOLOv2          cells     0.57 0.68   1.87 2.06   3.34 5.47   7.88 3.53   9.77 9.17      (COCO)
    YOLOv3, v5      pixels    3 for each of the strides 8, 16, 32
    YOLOv3-tiny     pixels    3 for each of the strides 16, 32
    YOLOv5 P6       pixels    3 for each of the strides 8, 16, 32, 64
    others          squares of the stride

Where FP32 is the truth they serve any network: both sides are decoded alike. Beside labels they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.tasks.grid import EXCLUSIVE, Form, Grid, Sides
from calib8.tasks.judges.detection_heads import BoxForm, DetectionHead

_V2: Final[Sides] = ((0.57273, 0.677385), (1.87446, 2.06253), (3.33843, 5.47434), (7.88282, 3.52778),
                     (9.77052, 9.16828))  # fmt: skip
_V3: Final[Mapping[int, Sides]] = {
    8: ((10, 13), (16, 30), (33, 23)),
    16: ((30, 61), (62, 45), (59, 119)),
    32: ((116, 90), (156, 198), (373, 326)),
}
_TINY: Final[Mapping[int, Sides]] = {
    16: ((10, 14), (23, 27), (37, 58)),
    32: ((81, 82), (135, 169), (344, 319)),
}
_P6: Final[Mapping[int, Sides]] = {
    8: ((19, 27), (44, 40), (38, 94)),
    16: ((96, 68), (86, 152), (180, 137)),
    32: ((140, 301), (303, 264), (238, 542)),
    64: ((436, 615), (739, 380), (925, 792)),
}
_PUBLISHED: Final[Mapping[Form, Sequence[Mapping[int, Sides]]]] = {
    "yolov2-grid": ({32: _V2},),
    "yolov3-grid": (_V3, _TINY),
    "yolov5-grid": (_V3, _P6),
}
_FORMS: Final[Mapping[Form, BoxForm]] = {
    "yolov2-grid": "anchors-exp", "yolov3-grid": "anchors-exp", "yolov5-grid": "anchors",
}  # fmt: skip

_NMS: Final = 0.45
"""What these networks are deployed with."""


def grid_head(
    grids: Sequence[Grid], names: Sequence[str], shapes: Sequence[Sequence[int]], size: tuple[int, int]
) -> DetectionHead:
    """The head of raw grids.

    Args:
        grids: of the outputs.
        names: of all outputs.
        shapes: of all outputs, without the axis of the batch.
        size: height and width of the model's input in pixels.

    Raises:
        UsageError: they are of several forms, or an output has another rank than the graph says.
    """
    forms = {grid.form for grid in grids}
    if len(forms) > 1:
        problem = f"its outputs are grids of the forms {' and '.join(sorted(forms))}"
        raise UsageError(
            parameter("task", "detect"), problem, "Name one form for all of them, such as NAME=yolov3-grid"
        )
    [form] = forms
    indices = tuple(names.index(grid.output) for grid in grids)
    strides = list[int]()
    for grid, index in zip(grids, indices, strict=True):
        if len(shapes[index]) != len(grid.planes):
            problem = f"output {grid.output} has the shape {list(shapes[index])} for one sample"
            raise UsageError(
                parameter("task", "detect"), problem, "Give samples one by one, with a batch axis of 1"
            )
        strides.append(size[0] // shapes[index][grid.planes[-2]])
    return DetectionHead(
        "maps", size, indices, _FORMS[form], "softmax" if form == EXCLUSIVE else "sigmoid",
        objectness=True, nms=_NMS, anchors=tuple(
            _in_pixels(grid, stride) or _published(form, grid.anchors, stride, strides)
            for grid, stride in zip(grids, strides, strict=True)
        ),
        planes=tuple(grid.planes for grid in grids), assumed=any(grid.sides is None for grid in grids),
    )  # fmt: skip


def _in_pixels(grid: Grid, stride: int) -> Sides | None:
    """The anchors that the user gives."""
    if grid.sides is None or grid.form != "yolov2-grid":
        return grid.sides
    return tuple((wide * stride, high * stride) for wide, high in grid.sides)


def _published(form: Form, anchors: int, stride: int, strides: Sequence[int]) -> Sides:
    """Those of the network with the same strides, in pixels; else squares of the stride."""
    known = (sides for sides in _PUBLISHED[form] if sorted(sides) == sorted(strides))
    found = next(known, {}).get(stride, ())
    if len(found) != anchors:
        return ((float(stride), float(stride)),) * anchors
    cell = float(stride) if form == "yolov2-grid" else 1.0
    return tuple((wide * cell, high * cell) for wide, high in found)
