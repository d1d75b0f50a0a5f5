"""Linear Resize: two neighbours and a fraction for every output row and column; to codes, or to float32."""

from __future__ import annotations

from typing import Final

from calib8.engine import steps
from calib8.engine.emitter import Emits, Emitter
from calib8.engine.fuse import Work
from calib8.program.instructions import ResizeLinear


def emit_resize_linear(work: Work, out: Emitter) -> None:
    """One step; weights of a pixel are multiplied when it runs."""
    step, source, codes = work.instruction, work.instruction.inputs[0], work.instruction.outputs[0]
    assert isinstance(step, ResizeLinear)
    shared = {
        "input": out.view(source),
        "row_low": out.constant(step.rows.low),
        "row_high": out.constant(step.rows.high),
        "row_fraction": out.constant(step.rows.fraction),
        "column_low": out.constant(step.columns.low),
        "column_high": out.constant(step.columns.high),
        "column_fraction": out.constant(step.columns.fraction),
        "input_scale": out.slot(source).scale,
        "output_scale": out.slot(codes).scale,
        "input_zero": out.slot(source).zero_point,
        "output_zero": out.slot(codes).zero_point,
        "input_shift": out.shift(source),
        "output_shift": out.shift(codes),
    }
    if work.dequantize is None:
        rounding = steps.ResizeLinear.kinds[step.rows.rounding]
        out.add(steps.ResizeLinear(output=out.view(work.output), rounding=rounding, **shared), work)
        return
    (buffer, offset), item = out.place(work.output), out.item_size(work.output)
    image, channel, row, _ = (stride * item for stride in out.strides(work.output))
    rows, columns = out.slot(work.output).shape[2:]
    floats = steps.ResizeToFloat(
        target_buffer=buffer, target_offset=offset, rows=rows, columns=columns, image_stride=image,
        channel_stride=channel, row_stride=row, **shared,
    )  # fmt: skip
    out.add(floats, work)


EMIT: Final[Emits] = {
    ResizeLinear: emit_resize_linear,
}
