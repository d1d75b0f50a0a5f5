"""Functions of one tensor, and of two: tables of codes, RealPair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import Lookup, Maximum, RealPair
from calib8.program.lower_tmfile.builder import Builder, stored
from calib8.program.lower_tmfile.options import number, whole
from calib8.program.ops.real import PairKind
from calib8.program.rounding.real import MOST, Function, by_library, real_table, wrapped_table
from calib8.program.rules import F32
from calib8.tmfile.graph import Node

SIGMOID_LEAST: Final = np.float32(-30)
"""Below it Tengine's Sigmoid takes this number; a limit above is in its source and does nothing."""

PAIRS: Final[Mapping[int, PairKind]] = {0: "product", 2: "sum", 4: "difference"}
"""Type of an Eltwise of two tensors → kind of RealPair."""

LARGER: Final = 6


def _square(values: F32) -> F32:
    return values * values


def _floor(values: F32) -> F32:
    result: F32 = np.floor(values)
    return result


ALONE: Final[Mapping[int, Function]] = {
    7: by_library(lambda value: 1.0 / math.sqrt(value) if value else math.inf),
    11: by_library(math.log),
    12: by_library(math.exp),
    13: by_library(math.sqrt),
    14: _floor,
    15: _square,
}
"""Type of an Eltwise of one tensor → its function."""


def relu(builder: Builder, node: Node) -> None:
    """ReLU, or with a slope below 0."""
    slope = np.float32(number(node, "negative_slope"))

    def apply(values: F32) -> F32:
        below = values * slope if slope else np.float32(0)
        return np.where(values < 0, below, values).astype(np.float32)

    _table(builder, node, apply, "Relu" if slope == 0 else "LeakyRelu")


def sigmoid(builder: Builder, node: Node) -> None:
    """1 / (1 + e⁻ˣ) in float64, rounded to float32."""
    exact = by_library(lambda value: 1.0 / (1.0 + math.exp(-value)))
    _table(builder, node, lambda values: exact(np.maximum(values, SIGMOID_LEAST)), "Sigmoid")


def clip(builder: Builder, node: Node) -> None:
    """A clamp; its codes wrap around beyond the type's."""
    low, high = np.float32(number(node, "min")), np.float32(number(node, "max"))

    def apply(values: F32) -> F32:
        below = np.where(values > high, high, values)
        return np.where(below < low, low, below).astype(np.float32)

    source, place = builder.number(node.inputs[0]), node.outputs[0]
    scales = builder.slots[source].scale, builder.slot_of(place, ()).scale
    builder.look_up(node, source, place, wrapped_table(apply, *scales), "Clip")


def prelu(builder: Builder, node: Node) -> None:
    """A slope below 0 for every channel of an image; slopes are float16."""
    x = builder.image(node.inputs[0])
    slopes = builder.constant(node.inputs[1], "float16").reshape(-1).astype(np.float32)
    if slopes.size != x.shape[3]:
        raise NoFormError(f"it has {slopes.size} slopes for {x.shape[3]} channels")

    def apply(values: F32) -> F32:
        zero = np.float32(0)
        return np.maximum(values, zero) + slopes[:, None] * np.minimum(values, zero)

    _table(builder, node, apply, "PRelu")


def _table(builder: Builder, node: Node, function: Function, name: str) -> None:
    source, place = builder.number(node.inputs[0]), node.outputs[0]
    scales = builder.slots[source].scale, builder.slot_of(place, ()).scale
    builder.look_up(node, source, place, real_table(function, *scales), name)


def eltwise(builder: Builder, node: Node) -> None:
    """A function of one tensor or of two, by its type."""
    (kind,) = whole(node, "type")
    if kind in ALONE:
        _table(builder, node, ALONE[kind], f"Eltwise{kind}")
        return
    if kind not in PAIRS and kind != LARGER:
        raise NoFormError(f"its type {kind} has no integer form here")
    if len(node.inputs) != 2:
        raise NoFormError(f"it has {len(node.inputs)} inputs")
    a, b = _operands(builder, node, kind)
    place = node.outputs[0]
    if kind == LARGER:
        _larger(builder, node, a, b)
        return
    target = builder.write(place)
    builder.steps.append(RealPair(builder.name(node), (a, b), (target,), PAIRS[kind], -MOST, MOST))


def _larger(builder: Builder, node: Node, a: int, b: int) -> None:
    """The larger of two numbers: that of their codes in the scale of the result, for rounding is monotone."""
    name, place = builder.name(node), node.outputs[0]
    shape = stored(builder.tensor(place).shape)
    scale = builder.slot_of(place, shape).scale
    sides: list[int] = []
    for source in (a, b):
        table = real_table(lambda values: values, builder.slots[source].scale, scale)
        like = builder.slot_of(place, builder.slots[source].shape)
        side = builder.between(like, like.shape, "side")
        builder.steps.append(Lookup(name, (source,), (side,), table, "Rescale"))
        sides.append(side)
    target = builder.write(place)
    builder.steps.append(Maximum(name, (sides[0], sides[1]), (target,)))


def _operands(builder: Builder, node: Node, kind: int) -> tuple[int, int]:
    """Slots of both sides, the longer one first, the other spread as Tengine does.

    Raises:
        NoFormError: sizes that Tengine's kernel does not take, or takes wrongly.
    """
    a, b = (builder.operand(place, node) for place in node.inputs)
    sizes = [int(np.prod(builder.slots[slot].shape, dtype=np.int64)) for slot in (a, b)]
    if sizes[0] < sizes[1]:
        a, b, sizes = b, a, sizes[::-1]
    long, short = builder.slots[a].shape, builder.slots[b].shape
    if len(long) not in (3, 4):
        raise NoFormError(f"its input has {len(long)} axes, Tengine's kernel takes 3 or 4")
    if long == short:
        return a, b
    name = builder.name(node)
    channels = _channels(long)
    if kind != LARGER and sizes[1] == 1:
        return a, builder.reshape(name, b, (1,) * len(long))
    if kind != LARGER and sizes[1] == channels != sizes[0] and _one_sample(long):
        spread = (1, 1, 1, channels) if len(long) == 4 else _beside(long)
        return a, builder.reshape(name, b, spread)
    joined = " and ".join(str(list(builder.tensor(place).shape)) for place in node.inputs)
    raise NoFormError(f"it joins {joined}, which Tengine's kernel does not")


def _channels(shape: tuple[int, ...]) -> int:
    """As Tengine counts them: samples times channels, or of three axes the first longer than 1."""
    if len(shape) == 4:
        return shape[0] * shape[3]
    return shape[1] if shape[0] == 1 else shape[0]


def _one_sample(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 or shape[0] == 1


def _beside(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, shape[1], 1) if shape[0] == 1 else (shape[0], 1, 1)
