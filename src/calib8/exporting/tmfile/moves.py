"""Operators that arrange values, cut them out or join them along axes, from ONNX to Tengine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.tmfile.elementwise import gone
from calib8.exporting.tmfile.images import MAX, pool_options
from calib8.exporting.tmfile.net import MOST_AXES, Net, split_options
from calib8.model.graph import input_at, int_attribute, ints_attribute, reduced_axes
from calib8.tmfile.graph import Option, made_name

UNUSED: Final = -2
"""Stands for an axis that a Reduction does not name."""

LONGEST: Final = 2**31 - 1

END_OF_FLATTEN: Final = 3
"""The last axis that Flatten joins, as the converter writes it."""


def reshape(net: Net, node: ir.Node) -> None:
    """The same values in another shape, whatever the ONNX op: Tengine's own for it name few axes."""
    shape = net.shape(node.outputs[0])
    options: dict[str, Option] = {"is_mxnet": 0, "reverse": 0, "shape": shape, "is_onnx": 1}
    net.write(node, "Reshape", [net.read(node.inputs[0])], **options)


def flatten(net: Net, node: ir.Node) -> None:
    """All axes but the first joined."""
    if int_attribute(node, "axis", 1) != 1 or len(net.shape(node.inputs[0])) > MOST_AXES:
        reshape(net, node)
        return
    net.write(node, "Flatten", [net.read(node.inputs[0])], axis=1, end_axis=END_OF_FLATTEN)


def _axis(net: Net, node: ir.Node, default: int) -> int:
    return int_attribute(node, "axis", default) % len(net.shape(node.inputs[0]))


def along_axis(op: str) -> Callable[[Net, ir.Node], None]:
    """Softmax and its like."""

    def add(net: Net, node: ir.Node) -> None:
        net.write(node, op, [net.read(node.inputs[0])], axis=_axis(net, node, -1))

    return add


def concat(net: Net, node: ir.Node) -> None:
    """Joined along an axis."""
    net.write(node, "Concat", [net.read(value) for value in node.inputs], axis=_axis(net, node, 0))


def transpose(net: Net, node: ir.Node) -> None:
    """Axes in another order."""
    rank = len(net.shape(node.inputs[0]))
    perm = ints_attribute(node, "perm", tuple(reversed(range(rank))))
    net.write(node, "Transpose", [net.read(node.inputs[0])], perm=perm)


def cut(net: Net, node: ir.Node) -> None:
    """A part along one axis after the other."""
    shape = net.shape(node.inputs[0])
    starts, ends = (list(map(int, net.array(node.inputs[at]))) for at in (1, 2))
    stated, steps = input_at(node, 3), input_at(node, 4)
    axes = list(range(len(starts))) if stated is None else [int(axis) for axis in net.array(stated)]
    strides = [1] * len(starts) if steps is None else [int(step) for step in net.array(steps)]
    parts = [
        (axis % len(shape), *slice(first, end, step).indices(shape[axis]))
        for axis, first, end, step in zip(axes, starts, ends, strides, strict=True)
    ]
    parts = [part for part in parts if part[1:] != (0, shape[part[0]], 1)]
    if _thins(shape, parts):
        _thinned(net, node, {axis: step for axis, _, _, step in parts})
        return
    _check_parts(shape, parts)
    tensor, sizes = net.read(node.inputs[0]), list(shape)
    for axis, begin, end, step in parts[:-1]:
        sizes[axis] = len(range(begin, end, step))
        base = made_name(node.outputs[0].name, f"axis{axis}")
        tensor = net.emit(base, sizes, "Slice", [tensor], **_cut_options(axis, begin, end, step))
    if parts:
        net.write(node, "Slice", [tensor], **_cut_options(*parts[-1]))
    else:
        gone(net, node)


def _thins(shape: tuple[int, ...], parts: list[tuple[int, int, int, int]]) -> bool:
    """Every so many pixels of an image are kept, from the first one on."""
    whole = all(axis in (2, 3) and (begin, end) == (0, shape[axis]) for axis, begin, end, _ in parts)
    return len(shape) == MOST_AXES and bool(parts) and whole and all(part[3] > 0 for part in parts)


def _thinned(net: Net, node: ir.Node, steps: Mapping[int, int]) -> None:
    """As a max pool over single pixels, for which Tengine has an int8 kernel; it has none that cuts."""
    options = pool_options(MAX, (1, 1), (steps.get(2, 1), steps.get(3, 1)), [(0, 0), (0, 0)], 0)
    net.write(node, "Pooling", [net.read(node.inputs[0])], **options)


def _check_parts(shape: tuple[int, ...], parts: list[tuple[int, int, int, int]]) -> None:
    """What Tengine's kernel takes."""
    for _, begin, end, step in parts:
        if step < 1:
            raise NoFormError(f"it goes in steps of {step}")
        if end <= begin:
            raise NoFormError("nothing is left of it")
        if len(shape) not in (3, MOST_AXES) or (step > 1 and len(shape) != MOST_AXES):
            raise NoFormError(f"it cuts a tensor of {len(shape)} axes in steps of {step}")


def _cut_options(axis: int, begin: int, end: int, step: int) -> dict[str, Option]:
    return {
        "axis": axis, "slice_points": (), "begins": (), "sizes": (), "is_caffe": 0, "is_mxnet": 0,
        "is_onnx": 1, "begin": begin, "end": end, "step": step,
    }  # fmt: skip


def split(net: Net, node: ir.Node) -> None:
    """Cut into parts along an axis."""
    shape, axis = net.shape(node.inputs[0]), _axis(net, node, 0)
    if len(shape) > MOST_AXES:
        raise NoFormError(f"it cuts a tensor of {len(shape)} axes")
    if not all(value.name and (value.uses() or value.is_graph_output()) for value in node.outputs):
        raise NoFormError("a part of it is not read")
    sizes = [net.shape(value)[axis] for value in node.outputs]
    net.write(node, "Split", [net.read(node.inputs[0])], **split_options(axis, sizes))


def reduction(kind: int) -> Callable[[Net, ir.Node], None]:
    """Sums, means and the like along axes, by the type."""

    def add(net: Net, node: ir.Node) -> None:
        shape = net.shape(node.inputs[0])
        axes = sorted(reduced_axes(node, len(shape)))
        if len(shape) > MOST_AXES or not axes:
            raise NoFormError(f"it reduces axes {axes} of {len(shape)}")
        named = axes + [UNUSED] * (MOST_AXES - len(axes))
        options: dict[str, Option] = {f"dim_{at}": axis for at, axis in enumerate(named)}
        keep = int_attribute(node, "keepdims", 1)
        net.write(node, "Reduction", [net.read(node.inputs[0])], **options, type=kind, keepdim=keep)

    return add


def reduce_l2(net: Net, node: ir.Node) -> None:
    """Root of the sum of squares along an axis."""
    axes = reduced_axes(node, len(net.shape(node.inputs[0])))
    if len(axes) != 1:
        raise NoFormError(f"it reduces {len(axes)} axes; Tengine's reduces one")
    keep = int_attribute(node, "keepdims", 1)
    net.write(node, "ReduceL2", [net.read(node.inputs[0])], axis=axes.pop(), keepdim=keep)
