"""Volumes [N, C, D, H, W] as images, so that all that there is for images serves them too.

    frames   [N, D, H, W, C] in memory are the images [N·D, H, W, C]; nothing is moved
    joined   the frames that an output frame reads, row by row, as one image: of a kernel of k frames
             row h·k + j of image i  =  row h of frame first(i) + j·dilation

A kernel over depth, rows and columns is one over k·rows and columns of such images, with the strides and pads
of its rows k times as large. The products are the same and so are their sums in int32, in any order.

A kernel whose rows are dilated gets the rows of every output row by themselves:

             row (y·rows + r)·k + j  =  row y·stride + r·dilation of frame first(i) + j·dilation
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import ints_attribute
from calib8.program.instructions import Gather, Instruction, Pad, Reshape
from calib8.program.lower.builder import Builder, Ports
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import image_order, logical_order
from calib8.program.ops.windows import Window
from calib8.program.program import Slot

VOLUME: Final = (0, 2, 3, 4, 1)
"""Depth, rows, columns, channels: the order of a volume in memory."""

Places = npt.NDArray[np.int32]
Widths = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Frames:
    """The frames of volumes as images.

    Attributes:
        image: codes [count · frames, rows, columns, channels] in memory.
        count: volumes, N.
    """

    image: Coded
    count: int


@dataclass(frozen=True)
class Joined:
    """An image in which a kernel over depth is one over rows.

    Attributes:
        image: codes [N · output frames, …, columns, channels] in memory.
        stride, dilation, pads: of the rows of that kernel, pads (before, after).
    """

    image: Coded
    stride: int
    dilation: int
    pads: tuple[int, int]


def windows_of(builder: Builder, node: ir.Node, source: Coded) -> tuple[Window, Window, Window]:
    """The window of a layer or pool along depth, rows and columns."""
    kernel, strides, dilations = (
        ints_attribute(node, name, (1, 1, 1)) for name in ("kernel_shape", "strides", "dilations")
    )
    pads, sizes = ints_attribute(node, "pads", (0,) * 6), builder.shape(source)[2:]
    depth, rows, columns = (
        Window(sizes[i], kernel[i], strides[i], dilations[i], pads[i], pads[i + 3]) for i in range(3)
    )
    return depth, rows, columns


def frames_of(builder: Builder, source: Coded) -> Frames:
    """The frames of a tensor of five axes."""
    volume = builder.in_order(source, VOLUME)
    count, frames, *sizes = builder.slots[volume.slot].shape
    return Frames(in_shape(builder, volume, (count * frames, *sizes), "frames"), count)


def sizes_of(builder: Builder, frames: Frames) -> tuple[int, int, int, int]:
    """Frames of a volume, rows, columns, channels."""
    images, rows, columns, channels = builder.slots[frames.image.slot].shape
    return images // frames.count, rows, columns, channels


def in_shape(builder: Builder, source: Coded, shape: Sequence[int], to: ir.Value | str) -> Coded:
    """The same memory in another shape: images of four axes have their channels last, others their own order.

    Made once for every shape, but for a tensor of the graph, which gets a slot of its own.
    """
    order = VOLUME if len(shape) == len(VOLUME) else image_order(len(shape))
    if isinstance(to, ir.Value):
        return builder.moved(source, shape, order, lambda ports: Reshape(*ports), to)
    if builder.slots[source.slot].shape == tuple(shape):
        return Coded(source.slot, order)
    return arranged(builder, source, shape, lambda ports: Reshape(*ports), to)


def arranged(
    builder: Builder,
    source: Coded,
    shape: Sequence[int],
    make: Callable[[Ports], Instruction],
    to: str,
    key: object = None,
) -> Coded:
    """Codes moved by one instruction, made once for every ``key`` and shape."""
    order = image_order(len(shape)) if len(shape) == 4 else logical_order(len(shape))
    place = (source.slot, tuple(shape), key)
    if place not in builder.arranged:
        builder.arranged[place] = builder.moved(source, shape, order, make, to).slot
    return Coded(builder.arranged[place], order)


def padded(builder: Builder, frames: Frames, widths: Widths) -> Frames:
    """Frames, rows and columns of zeros around every volume; widths are (before, after) of each."""
    if not any(map(any, widths)):
        return frames
    depth, rows, columns, channels = sizes_of(builder, frames)
    sizes = [
        before + size + after for size, (before, after) in zip((depth, rows, columns), widths, strict=True)
    ]
    before, after = ([pair[side] for pair in widths] for side in (0, 1))
    zero = builder.slots[frames.image.slot].zero_point
    if frames.count == 1:
        shape: tuple[int, ...] = (*sizes, channels)
        lead: tuple[int, ...] = ()
        source = frames.image
    else:
        shape, lead = (frames.count, *sizes, channels), (0,)
        source = in_shape(builder, frames.image, (frames.count, depth, rows, columns, channels), "volumes")

    def make(ports: Ports) -> Instruction:
        return Pad(*ports, (*lead, *before, 0), (*lead, *after, 0), zero)

    result = arranged(builder, source, shape, make, "padded", (*before, *after))
    return Frames(
        in_shape(builder, result, (frames.count * sizes[0], *sizes[1:], channels), "frames"), frames.count
    )


def picked_frames(builder: Builder, frames: Frames, places: Places) -> Frames:
    """Some frames of every volume, by their index in it."""
    depth, *sizes = sizes_of(builder, frames)
    every = (np.arange(frames.count)[:, None] * depth + places).reshape(-1)
    if every.size == frames.count * depth and np.array_equal(every, np.arange(every.size)):
        return frames
    return Frames(_gathered(builder, frames.image, every, (every.size, *sizes)), frames.count)


def picked_rows(builder: Builder, frames: Frames, places: Places, shape: Sequence[int]) -> Coded:
    """Rows of the frames of every volume.

    Args:
        builder: the program.
        frames: what is picked from.
        places: of one volume: row of frame f is f · rows + row.
        shape: of the resulting images, those of all volumes.
    """
    depth, rows, columns, channels = sizes_of(builder, frames)
    every = (np.arange(frames.count)[:, None] * (depth * rows) + places.reshape(-1)).reshape(-1)
    flat = in_shape(builder, frames.image, (frames.count * depth * rows, columns, channels), "rows")
    picked = _gathered(builder, flat, every, (every.size, columns, channels))
    return in_shape(builder, picked, shape, "joined")


def _gathered(builder: Builder, source: Coded, places: npt.NDArray[np.int64], shape: Sequence[int]) -> Coded:
    indices = places.astype(np.int32)
    return arranged(
        builder, source, shape, lambda ports: Gather(*ports, 0, indices), "picked", indices.tobytes()
    )


def joined(builder: Builder, frames: Frames, depth: Window, rows: Window, outputs: Sequence[int]) -> Joined:
    """The images that a kernel reads whose rows are those of all its frames.

    Args:
        builder: the program.
        frames: the input.
        depth, rows: the window.
        outputs: frames and rows of the result.
    """
    first = np.arange(outputs[0], dtype=np.int32) * np.int32(depth.stride)
    pads = (rows.before, rows.after)
    if depth.kernel == 1:
        whole = padded(builder, frames, ((depth.before, depth.after), (0, 0), (0, 0)))
        return Joined(picked_frames(builder, whole, first).image, rows.stride, rows.dilation, pads)
    apart = rows.dilation > 1 and rows.kernel > 1
    whole = padded(builder, frames, ((depth.before, depth.after), pads if apart else (0, 0), (0, 0)))
    _, height, width, channels = sizes_of(builder, whole)
    read = (first[:, None] + np.arange(depth.kernel) * depth.dilation) * height
    kernel = depth.kernel * (rows.kernel if apart else 1)
    if apart:
        starts = np.arange(outputs[1])[:, None] * rows.stride + np.arange(rows.kernel) * rows.dilation
        places = read[:, None, None, :] + starts[None, :, :, None]
    else:
        places = read[:, None, :] + np.arange(height)[None, :, None]
    tall = places.size // outputs[0]
    shape = (frames.count * outputs[0], tall, width, channels)
    image = picked_rows(builder, whole, places.astype(np.int32), shape)
    if apart:
        return Joined(image, kernel, 1, (0, 0))
    return Joined(image, rows.stride * kernel, 1, (pads[0] * kernel, pads[1] * kernel))


def as_volume(builder: Builder, name: str, slot: int) -> None:
    """The last step writes images; a Reshape makes of them the volume that it was to write.

    Args:
        builder: the program; its last step writes ``slot``.
        name: of the Reshape.
        slot: of five axes, channels last.

    Raises:
        NoFormError: it holds sums with a scale per channel, which nothing moves.
    """
    volume = builder.slots[slot]
    refuse_sums(volume)
    count, frames, *sizes = volume.shape
    shape = (count * frames, *sizes)
    images = builder.slot(
        Slot(f"{volume.name}/frames", shape, volume.dtype, volume.scales, volume.zero_point)
    )
    step = builder.steps[-1]
    builder.steps[-1] = replace(step, outputs=(images,))
    builder.steps.append(Reshape(name, (images,), (slot,)))


def refuse_sums(volume: Slot) -> None:
    """Raises NoFormError of sums with a scale per channel: a move carries one."""
    if volume.scales.size > 1:
        raise NoFormError("no quantizer reads its result, whose channels have scales of their own")
