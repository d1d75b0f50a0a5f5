"""ConvTranspose: one Conv step per phase, a place that output pixels can have between two input pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.engine.emit.conv import Taps, centred_weight, emit_filter
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fields import View
from calib8.engine.fuse import Work
from calib8.engine.phases import Phase, phases
from calib8.program.instructions import ConvTranspose


def emit_conv_transpose(work: Work, out: Emitter) -> None:
    """A Conv step per pair of phases."""
    step = work.instruction
    assert isinstance(step, ConvTranspose) and work.add is None
    image, target = out.view(step.inputs[0]), out.view(work.output)
    weight = centred_weight(step)
    down, across = (
        list(phases(weight.shape[axis + 1], step.strides[axis], step.dilations[axis], step.pads[axis], size))
        for axis, size in ((0, target.rows), (1, target.columns))
    )
    for rows in down:
        for columns in across:
            taps, offsets = phase_filter(weight, rows, columns, image)
            part = _part(target, rows, columns, step.strides, out.item_size(work.output))
            emit_filter(work, out, image, part, taps, offsets, (1, 1), step.groups)


def phase_filter(
    weight: Taps, rows: Phase, columns: Phase, image: View
) -> tuple[Taps, npt.NDArray[np.int64]]:
    """Taps of a pair of phases as a filter [outputs, taps, depth] and their offsets in the input.

    Taps of one row whose pixels lie side by side are one tap; without any there is one of zeros.
    """
    outputs, _, _, depth = weight.shape
    if not rows.taps or not columns.taps:
        return np.zeros((outputs, 1, depth), weight.dtype), np.zeros(1, np.int64)
    down = np.array([offset for offset, _ in rows.taps], np.int64) * image.row_stride
    across = np.array([offset for offset, _ in columns.taps], np.int64)
    kept = weight[:, [index for _, index in rows.taps]][:, :, [index for _, index in columns.taps]]
    if depth == image.column_stride and (np.diff(across) == 1).all():
        return kept.reshape(outputs, len(down), -1), down + across[0] * image.column_stride
    offsets = (down[:, None] + across * image.column_stride).reshape(-1)
    return kept.reshape(outputs, offsets.size, depth), offsets


def _part(view: View, rows: Phase, columns: Phase, strides: tuple[int, int], item: int) -> View:
    """The pixels of a pair of phases as an image of their own."""
    first = rows.first * view.row_stride + columns.first * view.column_stride
    return replace(
        view,
        offset=view.offset + first * item,
        rows=rows.count,
        columns=columns.count,
        row_stride=view.row_stride * strides[0],
        column_stride=view.column_stride * strides[1],
    )


EMIT: Final[Emits] = {
    ConvTranspose: emit_conv_transpose,
}
