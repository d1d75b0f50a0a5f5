"""Resize: repeated pixels for ``nearest``, bilinear interpolation for ``linear``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import input_at, int_attribute, ints_attribute
from calib8.program.instructions import Instruction, ResizeLinear, ResizeNearest
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.constants import fixed
from calib8.program.lower.emit_pools import rounded
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import physical
from calib8.program.lower.moves import picked
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import Target, coded_source, deliver
from calib8.program.lower.volumes import VOLUME, arranged, frames_of, in_shape, picked_frames
from calib8.program.rounding.resize import linear_axis, nearest_indices


def resize(builder: Builder, node: ir.Node) -> None:
    """Resize by constant scales or sizes."""
    source = coded_source(builder, node)
    if builder.shape(source) == shape_of(node.outputs[0]):
        builder.forms[node.outputs[0]] = source  # ONNX Runtime copies, whatever the scales say
        return
    mode, place = _word(node, "mode", "nearest"), _word(node, "coordinate_transformation_mode", "half_pixel")
    if place == "tf_crop_and_resize" or int_attribute(node, "antialias", 0):
        raise NoFormError("it crops or smooths as it resizes")
    scales = _scales(builder, node, source)
    if scales is None:
        raise NoFormError("its scales are computed")
    if mode == "nearest":
        _nearest(builder, node, source, scales, place)
        return
    if mode != "linear":
        raise NoFormError(f"no integer form with mode {mode}")
    if len(source.order) != 4 or (scales[0], scales[1]) != (1.0, 1.0):
        raise NoFormError("it interpolates along other axes than rows and columns")
    _linear(builder, node, source, scales, place)


def _word(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()


def _scales(builder: Builder, node: ir.Node, source: Coded) -> list[float] | None:
    """Scale per logical axis as the node states it, or output size / input size."""
    before = builder.shape(source)
    given, sizes = fixed(input_at(node, 2)), fixed(input_at(node, 3))
    stated = given if given is not None and given.size else sizes
    if stated is None:
        return None
    axes = [axis % len(before) for axis in ints_attribute(node, "axes", tuple(range(len(before))))]
    scales = [1.0] * len(before)
    for place, axis in enumerate(axes):
        wanted = np.float32(stated.reshape(-1)[place])
        scales[axis] = float(wanted / np.float32(before[axis]) if stated is sizes else wanted)
    policy = _word(node, "keep_aspect_ratio_policy", "stretch")
    if stated is sizes and policy != "stretch":  # one scale for all axes; sizes are its limits
        common = (min if policy == "not_larger" else max)(scales[axis] for axis in axes)
        scales = [common if axis in axes else 1.0 for axis in range(len(before))]
    return scales


def _nearest(builder: Builder, node: ir.Node, source: Coded, scales: list[float], mode: str) -> None:
    before, value = builder.shape(source), node.outputs[0]
    after = shape_of(value)
    rounding = _word(node, "nearest_mode", "round_prefer_floor")
    indices = [
        nearest_indices(size, target, scale, mode, rounding)
        for size, target, scale in zip(before, after, scales, strict=True)
    ]
    same = [np.array_equal(places, np.arange(size)) for places, size in zip(indices, before, strict=True)]
    if len(before) == 4 and same[0] and same[1]:
        image = builder.as_image(source)
        sizes = physical(after, image.order)
        rows, columns = indices[2], indices[3]
        builder.forms[value] = builder.moved(
            image, sizes, image.order, lambda ports: ResizeNearest(*ports, rows, columns), value
        )
        return
    if len(before) == len(VOLUME) and same[0] and same[1]:
        _nearest_volume(builder, source, value, indices[2:])
        return
    for axis, places in enumerate(indices):
        source = picked(builder, source, axis, places)
    builder.forms[value] = source


def _nearest_volume(
    builder: Builder, source: Coded, value: ir.Value, indices: Sequence[npt.NDArray[np.int32]]
) -> None:
    """Frames are repeated, then rows and columns of each."""
    frames, rows, columns = indices
    picked = picked_frames(builder, frames_of(builder, source), frames)
    volume = physical(shape_of(value), VOLUME)
    shape = (volume[0] * volume[1], *volume[2:])
    key = (rows.tobytes(), columns.tobytes())
    image = arranged(
        builder, picked.image, shape, lambda ports: ResizeNearest(*ports, rows, columns), "resized", key
    )
    builder.forms[value] = in_shape(builder, image, volume, value)


def _linear(builder: Builder, node: ir.Node, source: Coded, scales: list[float], mode: str) -> None:
    """Bilinear. Profile ``onnx`` rounds once, to the codes of the quantizer; the others keep theirs."""
    image = builder.as_image(source)
    before, after = builder.shape(source), shape_of(node.outputs[0])
    rows, columns = (
        linear_axis(builder.profile, before[axis], after[axis], scales[axis], mode) for axis in (2, 3)
    )

    def make(to: Target) -> Instruction:
        return ResizeLinear(to.name, (image.slot,), to.outputs, rows, columns)

    tail = tail_of(node.outputs[0])
    if builder.profile == "onnx" and tail.only_codes and not tail.activations:
        deliver(builder, node, image.order, make)
    else:
        rounded(builder, node, image.order, builder.kind(image), make)
