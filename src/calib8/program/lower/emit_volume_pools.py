"""Pools over depth, rows and columns.

    MaxPool      over rows and columns of every frame, then over the frames: a maximum of maxima
    AveragePool  over the joined rows of the frames of a window, so that its taps are summed once and in the
                 order depth, rows, columns, and the mean is rounded once. Windows that reach beyond the
                 volume by as many frames and rows are pools of their own, without the taps out there.

Images, and what has fewer axes, go to ``emit_pools``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import int_attribute
from calib8.program.instructions import AveragePool, Concat, Instruction, MaxPool, Reshape
from calib8.program.lower import emit_pools
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.results import Target, coded_source, deliver
from calib8.program.lower.volumes import (
    VOLUME,
    Frames,
    arranged,
    frames_of,
    in_shape,
    padded,
    picked_frames,
    picked_rows,
    sizes_of,
    windows_of,
)
from calib8.program.ops.windows import Window
from calib8.program.program import Slot
from calib8.program.rounding.pools import average_rule


def max_pool(builder: Builder, node: ir.Node) -> None:
    """Largest code of a window."""
    source, value = coded_source(builder, node), node.outputs[0]
    if len(source.order) != len(VOLUME):
        emit_pools.max_pool(builder, node)
        return
    emit_pools.refuse_indices(builder, node)
    depth, rows, columns = windows_of(builder, node, source)
    outputs = shape_of(value)[2:]
    frames = frames_of(builder, source)
    if depth.kernel == 1:
        frames = picked_frames(builder, frames, np.arange(outputs[0], dtype=np.int32) * depth.stride)
    _, *_, channels = sizes_of(builder, frames)
    images = builder.slots[frames.image.slot].shape[0]
    image = _largest(builder, frames.image, (rows, columns), (images, *outputs[1:], channels), "pooled")
    if depth.kernel > 1:
        flat = (frames.count, images // frames.count, outputs[1] * outputs[2], channels)
        line = in_shape(builder, image, flat, "depth")
        still = Window(flat[2], 1, 1, 1, 0, 0)
        image = _largest(builder, line, (depth, still), (frames.count, outputs[0], *flat[2:]), "pooled")
    builder.forms[value] = in_shape(builder, image, (frames.count, *outputs, channels), value)


def _largest(
    builder: Builder, image: Coded, windows: tuple[Window, Window], shape: tuple[int, ...], to: str
) -> Coded:
    """A MaxPool over images, none where its windows are single places."""
    if all(window.kernel == window.stride == 1 and window.room + 1 == window.size for window in windows):
        return image
    rows, columns = windows
    pads = (rows.before, columns.before, rows.after, columns.after)

    def make(ports: tuple[str, tuple[int, ...], tuple[int, ...]]) -> Instruction:
        return MaxPool(
            *ports,
            (rows.kernel, columns.kernel),
            (rows.stride, columns.stride),
            pads,
            (rows.dilation, columns.dilation),
        )

    return arranged(builder, image, shape, make, to, windows)


@dataclass(frozen=True)
class Band:
    """Outputs along one axis, one after the other, whose windows have as many taps inside.

    Attributes:
        starts: first tap of each.
        taps: how many.
    """

    starts: tuple[int, ...]
    taps: int


def bands(window: Window, outputs: int) -> list[Band]:
    """All outputs along an axis."""
    places = []
    for output in range(outputs):
        begin = output * window.stride - window.before
        first = max(begin, 0)
        places.append((first, max(min(begin + window.kernel, window.size) - first, 1)))
    groups = groupby(places, key=lambda place: place[1])
    return [Band(tuple(start for start, _ in members), taps) for taps, members in groups]


def average_pool(builder: Builder, node: ir.Node) -> None:
    """Mean of a window."""
    source = coded_source(builder, node)
    if len(source.order) != len(VOLUME):
        emit_pools.average_pool(builder, node)
        return
    windows = windows_of(builder, node, source)
    emit_pools.refuse_dilations(node)
    whole = all(window.kernel == window.size and window.before == window.after == 0 for window in windows)
    if builder.profile == "onnx" and whole:
        emit_pools.mean(builder, node)  # ONNX Runtime takes its global kernel
        return
    frames = frames_of(builder, source)
    if int_attribute(node, "count_include_pad", 0):
        widths = tuple((window.before, window.after) for window in windows)
        frames = padded(builder, frames, widths)
        windows = tuple(  # type: ignore[assignment]
            Window(w.size + w.before + w.after, w.kernel, w.stride, 1, 0, 0) for w in windows
        )
    _emit_average(builder, node, source, frames, windows)


def _emit_average(
    builder: Builder, node: ir.Node, source: Coded, frames: Frames, windows: tuple[Window, Window, Window]
) -> None:
    own = builder.kind(source)
    outputs = shape_of(node.outputs[0])[2:]

    def make(to: Target) -> Instruction:
        pool = _Average(builder, frames, windows, outputs, own, to)
        return Reshape(to.name, (pool.volume(),), to.outputs)

    if builder.profile == "tflite":
        emit_pools.rounded(builder, node, VOLUME, own, make)
    else:
        deliver(builder, node, VOLUME, make)


@dataclass(frozen=True)
class _Average:
    """The pools that one AveragePool over three axes becomes, and where their results go."""

    builder: Builder
    frames: Frames
    windows: tuple[Window, Window, Window]
    outputs: tuple[int, ...]
    own: CodeType
    to: Target

    def volume(self) -> int:
        """The slot of the images of all frames."""
        depth = bands(self.windows[0], self.outputs[0])
        parts = [self._frames(band) for band in depth]
        channels = self.builder.slots[parts[0]].shape[-1]
        count = self.frames.count
        if len(parts) == 1:
            return parts[0]
        volumes = []
        for slot, band in zip(parts, depth, strict=True):
            shape = (count, len(band.starts), *self.outputs[1:], channels)
            volumes.append(self._slot(shape))
            self.builder.steps.append(Reshape(self.to.name, (slot,), (volumes[-1],)))
        return self._joined(volumes, 1, (count, *self.outputs, channels))

    def _frames(self, band: Band) -> int:
        """Output frames whose windows have as many frames."""
        starts = np.array(band.starts, np.int32)
        if band.taps == 1:
            image = picked_frames(self.builder, self.frames, starts).image
            rows = self.windows[1]
            tall = (rows.kernel, rows.stride, rows.before, rows.after)
            return self._pooled(image.slot, tall, len(band.starts), self.outputs[1])
        parts = [self._rows(starts, band.taps, rows) for rows in bands(self.windows[1], self.outputs[1])]
        if len(parts) == 1:
            return parts[0]
        images, _, *rest = self.builder.slots[parts[0]].shape
        return self._joined(parts, 1, (images, self.outputs[1], *rest))

    def _rows(self, starts: npt.NDArray[np.int32], taps: int, rows: Band) -> int:
        """Output rows of these frames whose windows have as many rows, too."""
        _, height, width, channels = sizes_of(self.builder, self.frames)
        frame = (starts[:, None] + np.arange(taps)) * height
        row = np.array(rows.starts)[:, None] + np.arange(rows.taps)
        places = frame[:, None, :, None] + row[None, :, None, :]
        tall = taps * rows.taps
        shape = (self.frames.count * len(starts), len(rows.starts) * tall, width, channels)
        image = picked_rows(self.builder, self.frames, places.astype(np.int32), shape)
        return self._pooled(image.slot, (tall, tall, 0, 0), len(starts), len(rows.starts))

    def _pooled(self, image: int, rows: tuple[int, int, int, int], frames: int, height: int) -> int:
        kernel, stride, before, after = rows
        columns, channels = self.windows[2], self.builder.slots[image].shape[-1]
        result = self._slot((self.frames.count * frames, height, self.outputs[2], channels))
        taps = kernel * columns.kernel
        rule = average_rule(self.builder.profile, self.own.qparams, self.to.kind.qparams, taps)
        self.builder.steps.append(
            AveragePool(
                self.to.name,
                (image,),
                (result,),
                (kernel, columns.kernel),
                (stride, columns.stride),
                (before, columns.before, after, columns.after),
                False,
                rule,
                self.to.low,
                self.to.high,
            )
        )
        return result

    def _joined(self, parts: list[int], axis: int, shape: tuple[int, ...]) -> int:
        result = self._slot(shape)
        self.builder.steps.append(Concat(self.to.name, tuple(parts), (result,), axis))
        return result

    def _slot(self, shape: tuple[int, ...]) -> int:
        kind = self.to.kind
        return self.builder.slot(
            Slot(f"{self.to.name}/part", shape, kind.dtype, kind.scales, kind.zero_point)
        )
