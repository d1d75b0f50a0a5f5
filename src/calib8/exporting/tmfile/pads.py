"""Pixels and channels around an image, from ONNX to Tengine, as operators that Tengine computes right.

constant    Concat of constants and the image, axis by axis
edge        Split off the first and the last row or column; Concat with those several times
reflect     Pad

Tengine's own Pad writes beside its rows where left and right differ, and reads beside its image where it
repeats the last row; and it has no int8 form, which Split and Concat have.
Source: OAID Tengine, ``source/device/cpu/op/pad/pad_ref.c`` (commit c73708ce).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.tmfile.elementwise import gone
from calib8.exporting.tmfile.net import Net
from calib8.model.graph import input_at
from calib8.tmfile.graph import Option, made_name

REFLECT = 2
"""Mode of a Pad."""

Sizes = tuple[int, ...]
Wrap = Callable[[str, Sizes, int, tuple[int, int]], list[str]]
"""Tensor, its sizes, an axis, how many before and behind → what a Concat joins."""


def pad(net: Net, node: ir.Node) -> None:
    """Pixels around an image, or channels beside it."""
    shape = net.image(node.inputs[0])
    mode = node.attributes["mode"].as_string() if "mode" in node.attributes else "constant"
    if mode not in ("constant", "edge", "reflect") or input_at(node, 3) is not None:
        raise NoFormError(f"its mode '{mode}' or its axes are unknown")
    sizes, value = [int(size) for size in net.array(node.inputs[1])], input_at(node, 2)
    if min(sizes) < 0:
        raise NoFormError("it cuts pixels off")
    fill = 0.0 if value is None else float(net.array(value).reshape(-1)[0])
    around = {axis: (sizes[axis], sizes[axis + 4]) for axis in range(4) if sizes[axis] or sizes[axis + 4]}
    if not around:
        gone(net, node)
    elif mode == "reflect":
        _reflected(net, node, sizes)
    elif mode == "edge":
        _joined(net, node, shape, around, _edges(net, node))
    else:
        _joined(net, node, shape, around, _constants(net, node, fill))


def _reflected(net: Net, node: ir.Node, sizes: Sequence[int]) -> None:
    if any((*sizes[:2], *sizes[4:6])):
        raise NoFormError("it reflects channels")
    options: dict[str, Option] = {
        f"{axis}_{side}": sizes[number + 4 * side] for number, axis in enumerate("nchw") for side in (0, 1)
    }
    net.write(node, "Pad", [net.read(node.inputs[0])], **options, mode=REFLECT, value=0.0)


def _joined(net: Net, node: ir.Node, shape: Sizes, around: dict[int, tuple[int, int]], wrap: Wrap) -> None:
    """A Concat for each axis, the innermost one first."""
    tensor = net.read(node.inputs[0])
    for axis in sorted(around, reverse=True):
        inputs = wrap(tensor, shape, axis, around[axis])
        shape = _with_size(shape, axis, shape[axis] + sum(around[axis]))
        if axis == min(around):
            net.write(node, "Concat", inputs, axis=axis)
        else:
            title = made_name(node.outputs[0].name, f"axis{axis}")
            tensor = net.emit(title, shape, "Concat", inputs, axis=axis)


def _with_size(shape: Sizes, axis: int, size: int) -> Sizes:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _constants(net: Net, node: ir.Node, fill: float) -> Wrap:
    """A number before and behind."""

    def wrap(tensor: str, shape: Sizes, axis: int, many: tuple[int, int]) -> list[str]:
        sides = [
            [net.new_const(f"{node.outputs[0].name}/fill", _filled(shape, axis, size, fill))] if size else []
            for size in many
        ]
        return [*sides[0], tensor, *sides[1]]

    return wrap


def _filled(shape: Sizes, axis: int, size: int, fill: float) -> np.ndarray[Sizes, np.dtype[np.float32]]:
    return np.full(_with_size(shape, axis, size), fill, np.float32)


def _edges(net: Net, node: ir.Node) -> Wrap:
    """The first and the last of an axis several times."""

    def wrap(tensor: str, shape: Sizes, axis: int, many: tuple[int, int]) -> list[str]:
        length = shape[axis]
        if length == 1:
            return [tensor] * (sum(many) + 1)
        first, last = (min(1, size) for size in many)
        if length < first + last + 1:  # two, both of which are repeated
            first, last, rest = 1, 1, 0
        else:
            rest = length - first - last
        sizes = [size for size in (first, rest, last) if size]
        parts = net.emit_parts(made_name(node.outputs[0].name, f"part{axis}"), tensor, axis, [
            _with_size(shape, axis, size) for size in sizes
        ])  # fmt: skip
        return [*parts[:1] * many[0], *parts, *parts[-1:] * many[1]]

    return wrap
