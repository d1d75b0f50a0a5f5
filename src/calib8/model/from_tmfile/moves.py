"""Operators that arrange values, cut them out or join them along axes.

What only gives a tensor another shape takes that which the file states: Tengine's options for it differ with
the format that a model came from.
"""

from __future__ import annotations

import math
from typing import Final

from calib8.errors import NoFormError
from calib8.model.from_tmfile.builder import Builder
from calib8.model.from_tmfile.elementwise import inputs, number, whole
from calib8.tmfile.graph import Node

UNUSED: Final = -2
"""Stands for an axis that a Reduction does not name."""

REDUCTIONS: Final = {
    0: "ReduceSum", 1: "ReduceMean", 3: "ReduceSumSquare", 4: "ReduceMax", 5: "ReduceMin", 6: "ReduceProd",
    7: "ReduceL2", 9: "ReduceLogSum", 10: "ReduceLogSumExp",
}  # fmt: skip
"""Type of a Reduction → ONNX."""

PAD_MODES: Final = {0: "constant", 1: "edge", 2: "reflect"}


def as_stated(builder: Builder, node: Node) -> None:
    """The same values in the shape that the file states."""
    have, out = builder.shape(node.inputs[0]), builder.shape(node.outputs[0])
    if math.prod(have) != math.prod(out):
        raise NoFormError(f"{list(have)} does not become {list(out)}")
    builder.reshaped(node, builder.read(node.inputs[0]))


def flatten(builder: Builder, node: Node) -> None:
    """All axes but the first joined."""
    have, out = builder.shape(node.inputs[0]), builder.shape(node.outputs[0])
    if out == (have[0], math.prod(have[1:])):
        builder.write(node, "Flatten", [builder.read(node.inputs[0])], axis=1)
    else:
        as_stated(builder, node)


def concat(builder: Builder, node: Node) -> None:
    """Joined along an axis."""
    builder.write(node, "Concat", inputs(builder, node), axis=whole(node, "axis")[0])


def transpose(builder: Builder, node: Node) -> None:
    """Axes in another order."""
    perm = [int(str(axis)) for axis in _listed(node, "perm")]
    builder.write(node, "Transpose", [builder.read(node.inputs[0])], perm=perm)


def _listed(node: Node, name: str) -> tuple[object, ...]:
    value = node.options[name]
    return value if isinstance(value, tuple) else ()


def permute(builder: Builder, node: Node) -> None:
    """Axes in another order, as Caffe has it."""
    perm = whole(node, "order0", "order1", "order2", "order3")[: len(builder.shape(node.inputs[0]))]
    builder.write(node, "Transpose", [builder.read(node.inputs[0])], perm=perm)


def shuffle_channel(builder: Builder, node: Node) -> None:
    """Channels of all groups in turns."""
    batch, channels, rows, columns = builder.image(node.inputs[0])
    (group,) = whole(node, "group")
    if group < 1 or channels % group:
        raise NoFormError(f"{channels} channels are not {group} groups")
    title = builder.name(node.outputs[0])
    sizes = builder.numbers(f"{title}/groups/shape", [batch, group, channels // group, rows, columns])
    groups = builder.emit(f"{title}/groups", "Reshape", [builder.read(node.inputs[0]), sizes])
    builder.reshaped(node, builder.emit(f"{title}/turned", "Transpose", [groups], perm=[0, 2, 1, 3, 4]))


def _axis(builder: Builder, node: Node) -> int:
    rank = len(builder.shape(node.inputs[0]))
    (axis,) = whole(node, "axis")
    if not -rank <= axis < rank:
        raise NoFormError(f"it has no axis {axis}")
    return axis % rank


def split(builder: Builder, node: Node) -> None:
    """Cut into parts along an axis, or given on several times."""
    value, title = builder.read(node.inputs[0]), builder.name(node.outputs[0])
    if node.options["is_caffe"]:
        _copies(builder, node)
        return
    axis = _axis(builder, node)
    sizes = [builder.shape(place)[axis] for place in node.outputs]
    if sum(sizes) != builder.shape(node.inputs[0])[axis]:
        raise NoFormError(f"parts of {sizes} do not make {builder.shape(node.inputs[0])[axis]}")
    builder.write(node, "Split", [value, builder.numbers(f"{title}/sizes", sizes)], axis=axis)


def _copies(builder: Builder, node: Node) -> None:
    for place in node.outputs:
        builder.write(
            Node(f"{node.name}/{place}", node.op, node.inputs, (place,)), "Identity",
            [builder.read(node.inputs[0])],
        )  # fmt: skip


def cut(builder: Builder, node: Node) -> None:
    """A part along an axis (ONNX, MXNet), parts along an axis (Caffe), or a part along all (TensorFlow)."""
    title, value = builder.name(node.outputs[0]), builder.read(node.inputs[0])
    have, out = builder.shape(node.inputs[0]), builder.shape(node.outputs[0])
    if node.options["is_caffe"]:
        axis = _axis(builder, node)
        sizes = [builder.shape(place)[axis] for place in node.outputs]
        if sum(sizes) != have[axis]:
            raise NoFormError(f"parts of {sizes} do not make {have[axis]}")
        builder.write(node, "Split", [value, builder.numbers(f"{title}/sizes", sizes)], axis=axis)
        return
    if node.options["is_onnx"] or node.options["is_mxnet"]:
        axis = _axis(builder, node)
        begin, step = whole(node, "begin", "step")
        begins, steps, axes = [begin + have[axis] * (begin < 0)], [max(step, 1)], [axis]
    else:
        axes = list(range(len(have)))
        begins, steps = [int(str(at)) for at in _listed(node, "begins")], [1] * len(have)
        if len(begins) != len(have):
            raise NoFormError(f"it begins at {begins} of {list(have)}")
    ends = [at + (out[axis] - 1) * step + 1 for at, step, axis in zip(begins, steps, axes, strict=True)]
    if any(not 0 <= at < end <= have[axis] for at, end, axis in zip(begins, ends, axes, strict=True)):
        raise NoFormError(f"{begins} … {ends} does not lie in {list(have)}")
    numbers = [
        builder.numbers(f"{title}/{name}", values)
        for name, values in (("begins", begins), ("ends", ends), ("axes", axes), ("steps", steps))
    ]
    builder.write(node, "Slice", [value, *numbers])


def pad(builder: Builder, node: Node) -> None:
    """Pixels around an image."""
    (mode,) = whole(node, "mode")
    if mode not in PAD_MODES:
        raise NoFormError(f"its mode {mode} is unknown")
    before, after = whole(node, "n_0", "c_0", "h_0", "w_0"), whole(node, "n_1", "c_1", "h_1", "w_1")
    builder.image(node.inputs[0])
    title = builder.name(node.outputs[0])
    values = [builder.read(node.inputs[0]), builder.numbers(f"{title}/pads", before + after)]
    if mode == 0:
        values.append(builder.numbers(f"{title}/value", number(node, "value"), "float32"))
    builder.write(node, "Pad", values, mode=PAD_MODES[mode])


def reduction(builder: Builder, node: Node) -> None:
    """Sums, means and the like along axes."""
    kind, keep = whole(node, "type", "keepdim")
    if kind not in REDUCTIONS:
        raise NoFormError(f"its type {kind} is unknown")
    rank = len(builder.shape(node.inputs[0]))
    named = [axis for axis in whole(node, "dim_0", "dim_1", "dim_2", "dim_3") if axis != UNUSED]
    axes = sorted({rank - 1 if axis == -1 else axis for axis in named} or range(rank))
    _reduced(builder, node, REDUCTIONS[kind], axes, keep)


def reduce_l2(builder: Builder, node: Node) -> None:
    """Root of the sum of squares along an axis."""
    _reduced(builder, node, "ReduceL2", [_axis(builder, node)], whole(node, "keepdim")[0])


def _reduced(builder: Builder, node: Node, op: str, axes: list[int], keep: int) -> None:
    value, title = builder.read(node.inputs[0]), builder.name(node.outputs[0])
    if op == "ReduceSum":  # its axes are an input in operator set 17
        found = builder.emit(
            f"{title}/sum", op, [value, builder.numbers(f"{title}/axes", axes)], keepdims=int(bool(keep))
        )
    else:
        found = builder.emit(f"{title}/reduced", op, [value], axes=axes, keepdims=int(bool(keep)))
    builder.reshaped(node, found)
