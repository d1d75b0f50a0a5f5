"""What an Add of a constant behind a layer adds to its channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, sole_consumer
from calib8.ops.questions import adds, is_standard


@dataclass(frozen=True, eq=False)
class Addition:
    """A constant added to a layer's result.

    Attributes:
        node: the Add.
        values: float32 [channels] or [1].
    """

    node: ir.Node
    values: npt.NDArray[Any]


def addition_behind(
    value: ir.Value,
    axis: int,
    array_of: Callable[[ir.Value | None], npt.NDArray[Any] | None] = constant,
) -> Addition | None:
    """The only reader of a layer's result, if it adds one constant per output channel.

    Args:
        value: the result.
        axis: of the channels in it.
        array_of: the array behind what the Add reads beside it, None where that is no constant.
    """
    node = sole_consumer(value)
    if node is None or not adds(node) or not is_standard(node) or value.shape is None:
        return None
    array = array_of(node.inputs[1] if node.inputs[0] is value else node.inputs[0])
    if array is None or array.ndim > len(value.shape) or node.outputs[0].shape != value.shape:
        return None
    wide = array.reshape((1,) * (len(value.shape) - array.ndim) + array.shape)
    varies = [place for place, size in enumerate(wide.shape) if size != 1]
    return Addition(node, wide.reshape(-1)) if varies in ([], [axis]) else None
