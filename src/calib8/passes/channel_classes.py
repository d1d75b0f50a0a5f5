"""Which channels of a graph must have one common factor, so that factors leave its function what it is.

    layer A ─► t ─┐                         t, u, v share a factor per channel: A and B write it,
                  Add ─► v ─┬─► layer C     C and D take it away again
    layer B ─► u ─┘         └─► layer D

A class is a set of channels of tensors between layers that are scaled together. Ops that treat every channel
by itself, f(s·x) = s·f(x), hand a class on; additions make two classes one; Concat, Split, Slice, Gather,
Transpose and reshapes move channels. What cannot have a factor is in class ``FIXED``: channels of the
graph's inputs and outputs, and what any other op reads or yields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import constant, input_at, int_attribute, ints_attribute, is_activation, rank
from calib8.ops.groups import ARITHMETIC, FUNCTIONS, POOLS, RESHAPING, SCALING
from calib8.ops.questions import divides, is_standard
from calib8.passes.layer_channels import LayerChannels, layer_channels
from calib8.passes.place import clip_limits

Classes = npt.NDArray[np.int64]
"""A class per element of a tensor, broadcast: an axis along which nothing differs has size 1."""

FIXED: Final = 0
"""The class whose factor is 1."""

HOMOGENEOUS: Final = (FUNCTIONS & SCALING) | {"Identity"}
SUMS: Final = (ARITHMETIC & SCALING) - {"Mean"}  # a Mean would do as well


@dataclass(frozen=True)
class ClassedLayer:
    """A layer between classes.

    Attributes:
        channels: its constants.
        read: class of every input channel, int64 [inputs].
        written: class of every output channel, int64 [outputs].
    """

    channels: LayerChannels
    read: Classes
    written: Classes

    def scaled(self, factors: npt.NDArray[np.float64]) -> LayerChannels:
        """The constants with a factor per class, float64 [classes]."""
        return self.channels.scaled(inputs=1.0 / factors[self.read], outputs=factors[self.written])


@dataclass(frozen=True)
class ChannelClasses:
    """The classes of a graph.

    Attributes:
        count: number of classes, ``FIXED`` among them.
        layers: all weighted layers whose constants are known, in graph order.
        tensors: name → class of its elements, see ``Classes``; of computed float32 tensors.
    """

    count: int
    layers: tuple[ClassedLayer, ...]
    tensors: Mapping[str, Classes]

    def along_channels(self, name: str, channels: int) -> Classes | None:
        """Class of every channel (axis 1) of a tensor, int64 [channels]; None where another axis matters."""
        found = self.tensors.get(name)
        if found is None or not along_axis(found, 1) or found.size not in (1, channels):
            return None
        return np.array(np.broadcast_to(found.reshape(-1), channels))


def channel_classes(model: ir.Model) -> ChannelClasses:
    """Finds the classes of a prepared float graph."""
    walk = ChannelWalk()
    for node in model.graph:
        walk.visit(node)
    for value in model.graph.outputs:
        walk.fix(value)
    return walk.found()


class ChannelWalk:
    """The classes so far: numbers that may turn out to be one (``parents``)."""

    def __init__(self, *, through_limits: bool = False) -> None:
        """``through_limits``: a Clip from 0 hands classes on, as where nothing reaches its upper limit."""
        self.through_limits = through_limits
        self.parents = [FIXED]
        self.classes: dict[ir.Value, Classes] = {}
        self.layers: list[tuple[LayerChannels, Classes, Classes]] = []

    def visit(self, node: ir.Node) -> None:
        """Gives classes to what a node yields; nodes without activations are no concern."""
        reads = [value for value in node.inputs if value is not None and is_activation(value)]
        if not reads and not any(is_activation(value) for value in node.outputs):
            return
        layer = layer_channels(node)
        if layer is not None and self._layer(node, layer):
            return
        rule = _RULES.get(node.op_type) if is_standard(node) else None
        found = rule(self, node) if rule is not None else None
        if found is None or any(rank(value) is None for value in node.outputs):
            for value in reads:
                self.fix(value)
            return
        for value, classes in zip(node.outputs, found, strict=False):
            self.classes[value] = classes

    def give(self, value: ir.Value, axis: int, axes: int, count: int) -> Classes:
        """New classes for the ``count`` channels of a value, which it returns: int64 [count]."""
        first = len(self.parents)
        self.parents += range(first, first + count)
        new = np.arange(first, first + count)
        shape = [1] * axes
        shape[axis] = count
        self.classes[value] = new.reshape(shape)
        return new

    def of(self, value: ir.Value | None) -> Classes:
        """Classes of a value, ``FIXED`` throughout where none are known."""
        found = None if value is None else self.classes.get(value)
        return np.full((1,) * (rank(value) or 0), FIXED) if found is None else found

    def fix(self, value: ir.Value) -> None:
        """No factor for any channel of a value."""
        for one in np.unique(self.of(value)):
            self.join(int(one), FIXED)

    def join(self, one: int, other: int) -> None:
        """Two classes become one."""
        low, high = sorted((self.root(one), self.root(other)))
        self.parents[high] = low

    def root(self, one: int) -> int:
        """The smallest number of a class."""
        while self.parents[one] != one:
            self.parents[one] = self.parents[self.parents[one]]
            one = self.parents[one]
        return one

    def together(self, arrays: Sequence[Classes]) -> Classes | None:
        """Classes of what adds values up; None where shapes do not fit."""
        axes = max(array.ndim for array in arrays)
        wide = [array.reshape((1,) * (axes - array.ndim) + array.shape) for array in arrays]
        try:
            wide = list(np.broadcast_arrays(*wide))
        except ValueError:
            return None
        for array in wide[1:]:
            for pair in np.unique(np.stack([wide[0].reshape(-1), array.reshape(-1)], axis=1), axis=0):
                self.join(*(int(one) for one in pair))
        return np.array(wide[0])

    def _layer(self, node: ir.Node, layer: LayerChannels) -> bool:
        """Whether a layer could be taken up: what it reads differs along its channels alone."""
        source = node.inputs[0]
        axes = rank(source)
        if source is None or axes is None:
            return False
        axis = layer.layer.channel_axis(axes)
        read = self.of(source)
        if not along_axis(read, axis) or read.size not in (1, layer.inputs):
            return False
        written = self.give(node.outputs[0], axis, axes, layer.outputs)
        self.layers.append((layer, np.broadcast_to(read.reshape(-1), layer.inputs), written))
        return True

    def found(self) -> ChannelClasses:
        """The classes under numbers without gaps."""
        roots = np.array([self.root(one) for one in range(len(self.parents))])
        kept, numbers = np.unique(roots, return_inverse=True)
        layers = tuple(
            ClassedLayer(layer, numbers[read], numbers[written]) for layer, read, written in self.layers
        )
        tensors = {value.name or "": numbers[classes] for value, classes in self.classes.items()}
        return ChannelClasses(len(kept), layers, tensors)


Rule = Callable[[ChannelWalk, ir.Node], "list[Classes] | None"]


def _same(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """f(s·x) = s·f(x), element by element; a slope is a constant."""
    if any(is_activation(value) for value in node.inputs[1:] if value is not None):
        return None
    return [walk.of(node.inputs[0])]


def _clip(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """An upper limit would have to differ from channel to channel."""
    low, high = clip_limits(node)
    passes = (low, high) == (0.0, np.inf) or (walk.through_limits and low == 0.0 and high > 0.0)
    return [walk.of(node.inputs[0])] if passes else None


def _pool(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Windows over the axes behind the channels; indices of maxima do not differ by factors."""
    found = walk.of(node.inputs[0])
    return [found] if along_axis(found, 1) else None


def _mean(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Over axes along which nothing differs."""
    found, listed = walk.of(node.inputs[0]), constant(input_at(node, 1))
    chosen = ints_attribute(node, "axes", ()) if listed is None else [int(one) for one in listed]
    axes = [axis % found.ndim for axis in chosen] or list(range(found.ndim))
    if any(found.shape[axis] > 1 for axis in axes):
        return None
    return [found if int_attribute(node, "keepdims", 1) else np.squeeze(found, tuple(axes))]


def _resize(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Sizes of axes along which nothing differs."""
    found = walk.of(node.inputs[0])
    return [found] if _sizes_stay(node, found) else None


def _pad(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """With zeros, or with what is there, beside axes along which nothing differs."""
    found, mode = walk.of(node.inputs[0]), node.attributes.get("mode")
    value = constant(input_at(node, 2))
    zeros = input_at(node, 2) is None or (value is not None and not np.any(value))
    if (mode is None or mode.as_string() == "constant") and not zeros:
        return None
    return [found] if _sizes_stay(node, found) else None


def _sum(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """All that is added has one factor; a constant has none."""
    if any(constant(value) is not None for value in node.inputs):
        return None
    found = walk.together([walk.of(value) for value in node.inputs])
    return None if found is None else [found]


def _product(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Of a tensor and constants, or a tensor and a gate, which has no factor."""
    left, right = node.inputs
    if constant(right) is not None or constant(left) is not None:
        source = left if constant(left) is None else right
        found = walk.of(source)
        return [found] if rank(source) == rank(node.outputs[0]) else None
    if divides(node) or left is right or left is None or right is None:
        return None
    gate, kept = (left, right) if not np.any(walk.of(left)) else (right, left)
    walk.fix(gate)
    axes = rank(node.outputs[0]) or 0
    found = walk.of(kept)
    return [found.reshape((1,) * (axes - found.ndim) + found.shape)]


def _concat(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Side by side along the axis of the channels; one class along another axis."""
    arrays = [walk.of(value) for value in node.inputs]
    axis = int_attribute(node, "axis", 1) % arrays[0].ndim
    if all(array.shape[axis] == 1 for array in arrays) and any(
        array.size > 1 and array.shape[other] > 1 for array in arrays for other in range(array.ndim)
    ):
        found = walk.together(arrays)
        return None if found is None else [found]
    parts = []
    for value, array in zip(node.inputs, arrays, strict=True):
        size = _size(value, axis)
        if not along_axis(array, axis) or size is None:
            return None
        parts.append(np.repeat(array, size, axis) if array.shape[axis] == 1 else array)
    return [np.concatenate(parts, axis)]


def _split(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Parts of the channels, or of another axis."""
    found = walk.of(node.inputs[0])
    axis = int_attribute(node, "axis", 0) % found.ndim
    if found.shape[axis] == 1:
        return [found] * len(node.outputs)
    sizes = [_size(value, axis) for value in node.outputs]
    ends = np.cumsum([size or 0 for size in sizes])
    if None in sizes or ends[-1] != found.shape[axis]:
        return None
    return list(np.split(found, ends[:-1], axis))


def _slice(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Some of the channels, or of another axis."""
    found = walk.of(node.inputs[0])
    starts, ends, axes, steps = (constant(input_at(node, index)) for index in range(1, 5))
    if starts is None or ends is None:
        return None
    which = range(starts.size) if axes is None else [int(axis) % found.ndim for axis in axes]
    strides = np.ones(starts.size, np.int64) if steps is None else steps
    for axis, start, end, step in zip(which, starts, ends, strides, strict=True):
        if found.shape[axis] > 1:
            chosen = range(found.shape[axis])[slice(int(start), int(end), int(step))]
            found = np.take(found, list(chosen), axis)
    return [found]


def _gather(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Channels in another order."""
    found, indices = walk.of(node.inputs[0]), constant(input_at(node, 1))
    axis = int_attribute(node, "axis", 0) % found.ndim
    if indices is None or found.shape[axis] == 1:
        return None
    return [np.take(found, indices.astype(np.int64), axis)]


def _transpose(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    found = walk.of(node.inputs[0])
    return [found.transpose(ints_attribute(node, "perm", tuple(range(found.ndim))[::-1]))]


def _reshape(walk: ChannelWalk, node: ir.Node) -> list[Classes] | None:
    """Element by element behind the batch axis, which must stay; sizes must be known."""
    found, before, after = walk.of(node.inputs[0]), _sizes(node.inputs[0]), _sizes(node.outputs[0])
    if before is None or after is None or len(found) > 1 or np.prod(before) != np.prod(after):
        return None
    wide = np.broadcast_to(found[0], before).reshape(after)
    for axis in range(wide.ndim):
        first = np.take(wide, [0], axis)
        wide = first if np.all(wide == first) else wide
    return [np.array(wide)[None]]


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    """Sizes behind the first axis, None where one is not known."""
    if value is None or value.shape is None or value.shape.rank() < 1:
        return None
    sizes = list(value.shape)[1:]
    return tuple(sizes) if all(isinstance(size, int) for size in sizes) else None  # type: ignore[arg-type]


def _size(value: ir.Value | None, axis: int) -> int | None:
    size = None if value is None or value.shape is None else value.shape[axis]
    return size if isinstance(size, int) else None


def along_axis(found: Classes, axis: int) -> bool:
    """Whether nothing differs along any other axis."""
    return found.ndim > axis and found.size == found.shape[axis]


def _sizes_stay(node: ir.Node, found: Classes) -> bool:
    """Whether every axis along which classes differ has the same known size before and behind."""
    before, after = node.inputs[0], node.outputs[0]
    differing = [axis for axis, size in enumerate(found.shape) if size > 1]
    sizes = ((_size(before, axis), _size(after, axis)) for axis in differing)
    return all(old is not None and old == new for old, new in sizes)


_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(HOMOGENEOUS, _same),
    **dict.fromkeys(POOLS, _pool),
    **dict.fromkeys(SUMS, _sum),
    **dict.fromkeys(RESHAPING, _reshape),
    "Clip": _clip,
    "Concat": _concat,
    "Div": _product,
    "Gather": _gather,
    "Mul": _product,
    "Pad": _pad,
    "ReduceMean": _mean,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}
"""Op → its rule: the classes of its outputs, None where channels do not go through."""
