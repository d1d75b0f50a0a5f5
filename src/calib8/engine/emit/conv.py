"""Conv and FullyConnected: packed weights, taps as offsets, zero points folded into the bias.

    acc = Σ (x − z_x)(w − z_w) + b = Σ x·(w − z_w) + (b − z_x · Σ(w − z_w)),    x stored codes

w − z_w that does not fit int8 is the sum of two filters: every tap is then read twice.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine import steps
from calib8.engine.emit.rescale import NO_SUM, rescale_fields, sum_fields
from calib8.engine.emitter import Emitter
from calib8.engine.fields import NO_VIEW, NONE, View
from calib8.engine.fuse import Work
from calib8.engine.pack import LANES, conv_scratch, pack_weights, panel_widths
from calib8.program.costs import macs
from calib8.program.instructions import Conv, FullyConnected, Weighted

INT8_MIN: Final = -128
INT8_MAX: Final = 127


def emit_conv(work: Work, out: Emitter) -> None:
    """One Conv step."""
    step = work.instruction
    assert isinstance(step, Conv)
    image = out.view(step.inputs[0])
    outputs, kernel_rows, kernel_columns, depth = step.weight.shape
    rows = np.arange(kernel_rows) * step.dilations[0] - step.pads[0]
    columns = np.arange(kernel_columns) * step.dilations[1] - step.pads[1]
    weight = centred_weight(step)
    if step.dilations[1] == 1 and depth == image.column_stride:
        # pixels of a kernel row lie side by side: one tap per row
        offsets = rows * image.row_stride + columns[0] * image.column_stride
        weight = weight.reshape(outputs, kernel_rows, kernel_columns * depth)
    else:
        offsets = (rows[:, None] * image.row_stride + columns * image.column_stride).reshape(-1)
        weight = weight.reshape(outputs, kernel_rows * kernel_columns, depth)
    _emit(work, out, image, out.view(work.output), weight, offsets, step.strides, step.groups)


def emit_fully_connected(work: Work, out: Emitter) -> None:
    """A Conv step with one tap."""
    step = work.instruction
    assert isinstance(step, FullyConnected)
    weight = centred_weight(step)[:, None, :]
    offsets = np.zeros(1, np.int64)
    _emit(work, out, out.view(step.inputs[0]), out.view(work.output), weight, offsets, (1, 1), 1)


def centred_weight(step: Weighted) -> npt.NDArray[np.int32]:
    """``w − z_w`` of weights with the output channels first."""
    points = step.weight_zero_point.reshape(-1, *(1,) * (step.weight.ndim - 1))
    result: npt.NDArray[np.int32] = step.weight.astype(np.int32) - points
    return result


def int8_layers(weight: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int8]]:
    """int8 arrays whose sum is ``weight`` (within −255 … 255): one, or two where one does not hold it."""
    first = np.clip(weight, INT8_MIN, INT8_MAX)
    rest = weight - first
    layers = [first, rest] if rest.any() else [first]
    if rest.any() and (rest.min() < INT8_MIN or rest.max() > INT8_MAX):
        raise AssertionError("weights minus zero point lie within −255 … 255")
    return [layer.astype(np.int8) for layer in layers]


def _emit(
    work: Work,
    out: Emitter,
    image: View,
    target: View,
    weight: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    strides: tuple[int, int],
    groups: int,
) -> None:
    """The step for a filter [output channels, taps, depth]."""
    step = work.instruction
    assert isinstance(step, Weighted)
    layers = int8_layers(weight)
    offsets = np.concatenate([offsets] * len(layers)).astype(np.int64)
    taps = np.concatenate(layers, axis=1)
    channels, count, depth = taps.shape
    outputs = channels // groups
    widths = panel_widths(outputs)
    padded = sum(widths) * LANES
    packed = [pack_weights(part, widths) for part in taps.reshape(groups, outputs, count, depth)]
    places = np.minimum(np.arange(padded), outputs - 1) + np.arange(groups)[:, None] * outputs
    sums = weight.sum(axis=(1, 2), dtype=np.int64)
    bias = (step.bias - out.stored_zero_point(step.inputs[0]) * sums)[places].astype(np.int32)
    out.scratch(conv_scratch(count * -(-depth // 4) * 4))
    out.add(
        steps.Conv(
            input=image,
            output=target,
            row_step=strides[0],
            column_step=strides[1],
            taps=count,
            tap_offsets=out.constant(offsets),
            depth=-(-depth // 4) * 4,
            groups=groups,
            group_channels=image.channels // groups,
            outputs=outputs,
            panels=len(widths),
            panel_widths=out.constant(np.array(widths, np.int32)),
            padded_outputs=padded,
            weights=out.constant(np.concatenate(packed)),
            weight_bytes=packed[0].size,
            bias=out.constant(bias),
            weight_sums=out.constant(sums[places].astype(np.int32)),
            rescale=rescale_fields(
                out, step.rescale, step.low, step.high, step.outputs[0], channels, places.reshape(-1)
            ),
            sum=NO_SUM if work.add is None else sum_fields(out, work.add),
            residual_right=int(work.add is not None and work.add.inputs[1] == work.residual),
            residual=NO_VIEW if work.residual < 0 else out.view(work.residual),
            table=NONE if work.lookup is None else out.constant(stored_table(work, out)),
            order=0,
            block=0,
        ),
        work,
        macs(out.program, step) or 0,
    )


def stored_table(work: Work, out: Emitter) -> npt.NDArray[np.uint8]:
    """The table of a fused Lookup, from stored to stored codes."""
    assert work.lookup is not None
    table = work.lookup.table
    result: npt.NDArray[np.uint8] = (table.astype(np.int32) + out.shift(work.output)).astype(np.uint8)
    return result


def emit_conv_transpose(work: Work, out: Emitter) -> None:
    """TODO."""
    raise NotImplementedError(work.name)
