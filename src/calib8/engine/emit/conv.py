"""Conv and FullyConnected: packed weights, taps as offsets, zero points folded into the bias.

    acc = Σ (x − z_x)(w − z_w) + b = Σ x·(w − z_w) + (b − z_x · Σ(w − z_w)),    x stored codes

w − z_w that does not fit int8 is the sum of two filters, or three: every tap is then read as often.

Groups of few channels are taken together, each with zeros for the channels of the others:

    [outputs, taps, depth] in 32 groups  →  [outputs, taps, 4 · depth] in 8 groups
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.dead_taps import Band, windows_of
from calib8.engine.emit.rescale import NO_SUM, layer_fields, sum_fields
from calib8.engine.emit.widths import sized
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import NO_VIEW, NONE, View
from calib8.engine.frames import FramesConv, FramesDepthwise, runs
from calib8.engine.fuse import Work
from calib8.engine.pack import LANES, pack_weights, packed_bytes, panel_widths
from calib8.program.instructions import Conv, ConvTranspose, FullyConnected, Weighted

UNIT_CYCLES: Final = (0.0, 1.15, 2.05, 3.0, 4.0)
"""What a panel of 16 · index channels costs per pixel and four bytes of depth, and below, per pixel alone."""

PIXEL_CYCLES: Final = (0.0, 6.0, 7.0, 10.0, 10.0)

INT8_MIN: Final = -128
INT8_MAX: Final = 127


Taps: TypeAlias = npt.NDArray[np.int8] | npt.NDArray[np.int16]
"""Weights minus their zero points, −255 … 255: int8 if they are int8 without zero points."""


def emit_conv(work: Work, out: Emitter) -> None:
    """One Conv step, or several where parts of the output see other taps."""
    step = work.instruction
    assert isinstance(step, Conv)
    image, target = out.view(step.inputs[0]), out.view(work.output)
    weight, groups = merged_groups(centred_weight(step), step.groups)
    for rows, columns in windows_of(step, out.program):
        part, offsets = _part_of_filter(weight, step, image, rows, columns)
        output = _part_of_image(target, rows, columns, out.item_size(work.output))
        residual = NO_VIEW
        if work.residual >= 0:
            size = out.item_size(work.residual)
            residual = _part_of_image(out.view(work.residual), rows, columns, size)
        emit_filter(work, out, image, output, part, offsets, step.strides, groups, residual)


def emit_frames_conv(work: Work, out: Emitter) -> None:
    """A Conv step for every run of output images whose frames are equally far apart."""
    step = work.instruction
    assert isinstance(step, FramesConv)
    image, target = out.view(step.inputs[0]), out.view(work.output)
    weight, groups = merged_groups(centred_weight(step), step.groups)
    part, offsets = _over_frames(weight, step, image)
    for output, source in runs(step.first):
        read = some_images(image, source, out.item_size(step.inputs[0]))
        place = range(output, output + len(source))
        written = some_images(target, place, out.item_size(work.output))
        residual = NO_VIEW
        if work.residual >= 0:
            residual = some_images(out.view(work.residual), place, out.item_size(work.residual))
        emit_filter(work, out, read, written, part, offsets, step.strides, groups, residual)


def _over_frames(weight: Taps, step: FramesConv, image: View) -> tuple[Taps, npt.NDArray[np.int64]]:
    """The filter [outputs, taps, depth] of a kernel over frames, and the offsets of its taps."""
    outputs, rows, columns, depth = weight.shape
    down = frame_rows(step, rows, image)
    across = (np.arange(columns) * step.dilations[1] - step.pads[1]) * image.column_stride
    if step.dilations[1] == 1 and depth == image.column_stride:
        return weight.reshape(outputs, rows, columns * depth), down + across[0]
    return weight.reshape(outputs, rows * columns, depth), (down[:, None] + across).reshape(-1)


def frame_rows(step: FramesConv | FramesDepthwise, rows: int, image: View) -> npt.NDArray[np.int64]:
    """Elements from the pixel of an output in its first frame to each row of a kernel."""
    row, frame = np.divmod(np.arange(rows), step.depth)
    down = (row * step.dilations[0] - step.pads[0]) * image.row_stride
    places: npt.NDArray[np.int64] = down + frame * step.step * image.image_stride
    return places


def some_images(view: View, images: range, item: int) -> View:
    """Images of a view, equally far apart."""
    start = view.offset + images.start * view.image_stride * item
    return replace(view, offset=start, images=len(images), image_stride=images.step * view.image_stride)


def _part_of_filter(
    weight: Taps, step: Conv, image: View, rows: Band, columns: Band
) -> tuple[Taps, npt.NDArray[np.int64]]:
    """The taps of a window as a filter [outputs, taps, depth], and their offsets in the image."""
    kept = weight[:, rows.taps.start : rows.taps.stop, columns.taps.start : columns.taps.stop]
    outputs, kernel_rows, kernel_columns, depth = kept.shape
    down, across = (
        band.outputs.start * step.strides[axis] - step.pads[axis] + np.array(band.taps) * step.dilations[axis]
        for axis, band in enumerate((rows, columns))
    )
    if step.dilations[1] == 1 and depth == image.column_stride:
        # pixels of a kernel row lie side by side: one tap per row
        offsets = down * image.row_stride + across[0] * image.column_stride
        return kept.reshape(outputs, kernel_rows, kernel_columns * depth), offsets
    offsets = (down[:, None] * image.row_stride + across * image.column_stride).reshape(-1)
    return kept.reshape(outputs, kernel_rows * kernel_columns, depth), offsets


def _part_of_image(view: View, rows: Band, columns: Band, item: int) -> View:
    """The outputs of a window as an image of their own."""
    first = rows.outputs.start * view.row_stride + columns.outputs.start * view.column_stride
    sizes = {"rows": len(rows.outputs), "columns": len(columns.outputs)}
    return replace(view, offset=view.offset + first * item, **sizes)


def emit_fully_connected(work: Work, out: Emitter) -> None:
    """A Conv step with one tap."""
    step = work.instruction
    assert isinstance(step, FullyConnected)
    weight = centred_weight(step)[:, None, :]
    offsets, residual = np.zeros(1, np.int64), out.view(work.residual)
    emit_filter(
        work, out, out.view(step.inputs[0]), out.view(work.output), weight, offsets, (1, 1), 1, residual
    )


def centred_weight(step: Weighted) -> Taps:
    """``w − z_w`` of weights with the output channels first; int8 weights without zero points as they are."""
    if step.weight.dtype == np.int8 and not step.weight_zero_point.any():
        return step.weight.astype(np.int8, copy=False)
    points = step.weight_zero_point.astype(np.int16).reshape(-1, *(1,) * (step.weight.ndim - 1))
    result: Taps = step.weight.astype(np.int16) - points
    return result


def merged_groups(weight: Taps, groups: int) -> tuple[Taps, int]:
    """The filter [output channels, …, depth] of a layer with fewer groups, and their number."""
    if groups == 1:
        return weight, groups
    outputs, depth = weight.shape[0] // groups, weight.shape[-1]
    taps = int(np.prod(weight.shape[1:-1]))

    def cycles(together: int) -> float:
        quads = taps * -(-together * depth // 4)
        widths = panel_widths(together * outputs)
        per_pixel = [quads * UNIT_CYCLES[width] + PIXEL_CYCLES[width] for width in widths]
        return float(groups // together * sum(per_pixel))

    together = min((count for count in range(1, groups + 1) if groups % count == 0), key=cycles)
    merged = np.zeros((*weight.shape[:-1], together, depth), weight.dtype)
    place = np.arange(weight.shape[0]) // outputs % together
    for number in range(together):
        merged[place == number, ..., number, :] = weight[place == number]
    return merged.reshape(*weight.shape[:-1], together * depth), groups // together


def int8_layers(weight: Taps) -> list[npt.NDArray[np.int8]]:
    """int8 arrays whose sum is ``weight``: one where it fits, else two, three for a weight of 255."""
    if weight.dtype == np.int8:
        return [weight.astype(np.int8, copy=False)]
    layers: list[npt.NDArray[np.int8]] = []
    rest = weight
    while rest.any() or not layers:
        layers.append(np.clip(rest, INT8_MIN, INT8_MAX).astype(np.int8))
        rest = rest - layers[-1]
    return layers


@dataclass(frozen=True, eq=False)
class PackedFilter:
    """Weights of a Conv step, packed when they are written.

    Attributes:
        taps: int8 [output channels, taps, depth], those of several layers one after the other.
        groups: so many filters.
        size: bytes of all packed panels.
        offsets: of the taps, as often as there are layers.
        widths: of the panels of a group.
        depth: bytes per tap, a multiple of 4.
        places: [groups, padded outputs], the output channel of every place of the arrays per channel.
    """

    taps: npt.NDArray[np.int8]
    groups: int
    size: int
    offsets: npt.NDArray[np.int64]
    widths: tuple[int, ...]
    depth: int
    places: npt.NDArray[np.int64]

    def written(self, out: Emitter) -> int:
        """Packs them straight into the constants, the groups one after the other; their byte offset there."""
        offset, memory = out.constants.room(self.size)
        channels, count, depth = self.taps.shape
        parts = self.taps.reshape(self.groups, channels // self.groups, count, depth)
        for part, place in zip(parts, memory.view(np.int8).reshape(self.groups, -1), strict=True):
            pack_weights(part, self.widths, place)
        return offset


def packed_filter(weight: Taps, offsets: npt.NDArray[np.int64], groups: int) -> PackedFilter:
    """A filter [output channels, taps, depth] as the kernels read it."""
    layers = int8_layers(weight)
    taps = np.concatenate(layers, axis=1) if len(layers) > 1 else layers[0]
    channels, count, depth = taps.shape
    outputs = channels // groups
    widths = panel_widths(outputs)
    inside = np.minimum(np.arange(sum(widths) * LANES), outputs - 1)
    return PackedFilter(
        taps=taps,
        groups=groups,
        size=groups * packed_bytes(count, depth, widths),
        offsets=np.concatenate([offsets] * len(layers)).astype(np.int64),
        widths=widths,
        depth=-(-depth // 4) * 4,
        places=inside + np.arange(groups)[:, None] * outputs,
    )


def emit_filter(
    work: Work,
    out: Emitter,
    image: View,
    target: View,
    weight: Taps,
    offsets: npt.NDArray[np.int64],
    strides: tuple[int, int],
    groups: int,
    residual: View = NO_VIEW,
) -> None:
    """The step for a filter [output channels, taps, depth] over the pixels of two views, or of three."""
    step = work.instruction
    assert isinstance(step, Weighted)
    packed = packed_filter(weight, offsets, groups)
    places, channels = packed.places, weight.shape[0]
    sums = weight.sum(axis=(1, 2), dtype=np.int64)
    bias = (step.bias - out.stored_zero_point(step.inputs[0]) * sums)[places].astype(np.int32)
    rescale, activation = layer_fields(
        out, step.rescale, step.low, step.high, step.outputs[0], channels, places.reshape(-1)
    )
    layer = steps.Conv(
        input=image,
        output=target,
        row_step=strides[0],
        column_step=strides[1],
        taps=packed.offsets.size,
        tap_offsets=out.constant(packed.offsets),
        depth=packed.depth,
        groups=groups,
        group_channels=image.channels // groups,
        outputs=channels // groups,
        panels=len(packed.widths),
        panel_widths=out.constant(np.array(packed.widths, np.int32)),
        padded_outputs=places.shape[1],
        weights=packed.written(out),
        weight_bytes=packed.size // groups,
        bias=out.constant(bias),
        weight_sums=out.constant(sums[places].astype(np.int32)),
        rescale=rescale,
        sum=NO_SUM if work.add is None else sum_fields(out, work.add),
        residual_right=int(work.add is not None and work.add.inputs[1] == work.residual),
        residual=residual,
        table=fused_table(work, out),
        activation=activation,
    )
    pixels = target.images * target.rows * target.columns
    out.add(sized(layer, work, out), work, pixels * _products(step, weight, groups))


def _products(step: Weighted, weight: Taps, groups: int) -> int:
    """Products per pixel; the zeros between groups that were merged do not count."""
    declared = step.groups if isinstance(step, Conv | ConvTranspose) else 1
    return weight.size * groups // declared


def fused_table(work: Work, out: Emitter) -> int:
    """The constant of the table of a fused Lookup, or none."""
    return NONE if work.lookup is None else out.constant(stored_table(work.lookup.table, work, out))


def stored_table(table: npt.NDArray[Any], work: Work, out: Emitter) -> npt.NDArray[np.uint8]:
    """A table of the codes of a work's output, by stored code, as stored codes."""
    result: npt.NDArray[np.uint8] = (table.astype(np.int32) + out.shift(work.output)).astype(np.uint8)
    return result


EMIT: Final[Emits] = {
    Conv: emit_conv,
    FramesConv: emit_frames_conv,
    FullyConnected: emit_fully_connected,
}
