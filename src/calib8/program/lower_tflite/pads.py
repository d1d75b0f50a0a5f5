"""Borders: PAD, PADV2, MIRROR_PAD.

REFLECT     3 2 | 1 2 3 | 2 1         the edge counts once
SYMMETRIC   2 1 | 1 2 3 | 3 2         and twice
"""

from __future__ import annotations

import numpy as np

from calib8.errors import NoFormError
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import chain_from, integers, move
from calib8.tflite.graph import Operator


def pad(builder: Builder, operator: Operator) -> None:
    """PAD: borders of real 0."""
    _pad(builder, operator, builder.codes(operator.outputs[0]).zero_point)


def pad_v2(builder: Builder, operator: Operator) -> None:
    """PADV2: borders of a constant code."""
    values = integers(builder, operator.inputs[2])
    if len(values) != 1:
        raise NoFormError(f"it pads with {len(values)} values")
    _pad(builder, operator, values[0])


def _pad(builder: Builder, operator: Operator, value: int) -> None:
    builder.codes(operator.inputs[0])
    before, after = _borders(builder, operator)
    move(builder, operator, chain_from(builder, operator.inputs[0]).pad(before, after, value))


def mirror_pad(builder: Builder, operator: Operator) -> None:
    """MIRROR_PAD: borders that repeat the tensor backwards."""
    before, after = _borders(builder, operator)
    chain = chain_from(builder, operator.inputs[0])
    edge = 0 if operator.options["mode"] == "SYMMETRIC" else 1
    for axis, (head, tail) in enumerate(zip(before, after, strict=True)):
        size = chain.shape[axis]
        if not (0 <= head <= size - edge and 0 <= tail <= size - edge):
            raise NoFormError(f"it mirrors {head} and {tail} of an axis of {size}")
        if not head and not tail:
            continue
        builder.list_indices(head + size + tail)
        inside = np.arange(size)
        front, back = inside[edge : edge + head][::-1], inside[::-1][edge : edge + tail]
        chain = chain.gather(axis, np.concatenate([front, inside, back]))
    move(builder, operator, chain)


def _borders(builder: Builder, operator: Operator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much comes before and after, per axis."""
    widths = integers(builder, operator.inputs[1])
    if len(widths) != 2 * len(builder.tensor(operator.inputs[0]).shape):
        raise NoFormError(f"it has the borders {list(widths)}")
    return widths[::2], widths[1::2]
