"""What works on images: pools, RESIZE_*, SPACE_TO_DEPTH, DEPTH_TO_SPACE."""

from __future__ import annotations

import numpy as np

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder
from calib8.model.from_tflite.elementwise import Translate
from calib8.model.from_tflite.layers import IMAGE, image_size
from calib8.model.from_tflite.windows import number, window
from calib8.tflite.graph import Operator


def pool(op: str) -> Translate:
    """MaxPool or AveragePool; padding never counts."""

    def translate(builder: Builder, operator: Operator) -> None:
        builder.write_activated(
            operator, IMAGE, op, [builder.read(operator.inputs[0], IMAGE)], **_pool_window(builder, operator)
        )

    return translate


def _pool_window(builder: Builder, operator: Operator) -> dict[str, list[int]]:
    have, out = image_size(builder, operator.inputs[0]), image_size(builder, operator.outputs[0])
    kernel = [number(operator, "filter_height"), number(operator, "filter_width")]
    attributes = window(operator, have, out, kernel)
    return {name: list(attributes[name]) for name in ("kernel_shape", "strides", "pads")}  # type: ignore[arg-type]


def l2_pool_2d(builder: Builder, operator: Operator) -> None:
    """Root of the mean square of a window."""
    value, title = builder.read(operator.inputs[0], IMAGE), builder.name(operator.outputs[0])
    squares = builder.emit(f"{title}/squares", "Mul", [value, value])
    mean = builder.emit(f"{title}/mean", "AveragePool", [squares], **_pool_window(builder, operator))
    builder.write_activated(operator, IMAGE, "Sqrt", [mean])


def resize(mode: str) -> Translate:
    """RESIZE_BILINEAR (``linear``) or RESIZE_NEAREST_NEIGHBOR (``nearest``)."""

    def translate(builder: Builder, operator: Operator) -> None:
        x, y = operator.inputs[0], operator.outputs[0]
        have, out = image_size(builder, x), image_size(builder, y)
        corners = bool(operator.options.get("align_corners", False))
        centers = bool(operator.options.get("half_pixel_centers", False))
        if corners and centers:
            raise NoFormError("it has both align_corners and half_pixel_centers")
        attributes = {
            "mode": mode,
            "coordinate_transformation_mode": "align_corners"
            if corners
            else "half_pixel"
            if centers
            else "asymmetric",
        }
        if mode == "nearest":
            attributes["nearest_mode"] = "round_prefer_ceil" if corners or centers else "floor"
        factors = [1.0, 1.0, *(_factor(*pair) for pair in zip(have, out, strict=True))]
        scales = builder.numbers(f"{builder.name(y)}/scales", factors, "float32")
        builder.write(y, IMAGE, "Resize", [builder.read(x, IMAGE), None, scales], **attributes)

    return translate


def _factor(have: int, out: int) -> float:
    """float32 that leads from one size to the other: floor(have · factor) = out."""
    factor = np.float32(out) / np.float32(have)
    while int(np.float32(have) * factor) < out:
        factor = np.nextafter(factor, np.float32(np.inf))
    return float(factor)


def space_to_depth(builder: Builder, operator: Operator) -> None:
    """Blocks of pixels become channels, block by block."""
    _blocks(builder, operator, "SpaceToDepth")


def depth_to_space(builder: Builder, operator: Operator) -> None:
    """Channels become blocks of pixels, block by block."""
    _blocks(builder, operator, "DepthToSpace")


def _blocks(builder: Builder, operator: Operator, op: str) -> None:
    size = number(operator, "block_size")
    builder.write(operator.outputs[0], IMAGE, op, [builder.read(operator.inputs[0], IMAGE)], blocksize=size)
