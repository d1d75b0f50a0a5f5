"""Known faults, each planted into a float network or its int8 form, with what a diagnosis has to name.

A fault that keeps the float function breaks int8 alone; wrong statistics and wrong images break both. Behind
SiLU a factor is nearly kept: SiLU(f·x) is f·Relu(x) but near 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from fault_places import Feeds, Network, NoSpotError, Spot, middle, one_by_one, with_codes

LOUD, WIDE, NARROW, UNEVEN, OUTLIER, APART = 500.0, 64.0, 0.1, 64.0, 200.0, 16.0


@dataclass(frozen=True)
class Fault:
    """What was planted, and what a diagnosis has to say.

    Attributes:
        kind: its name.
        model: the float network.
        causes: one of these is the cause of the finding.
        nodes: the finding names one of these; empty: the data as a whole.
        channel: that its text names; None: none is to blame.
        cure: that its advice, or a repair that it asks for, names.
        ranges: given when the network is quantized.
        broken: what becomes of the int8 network.
        calibration: what it is calibrated with in place of the images; empty: nothing else.
        images: settings of the preprocessing that differ from the right ones.
    """

    kind: str
    model: onnx.ModelProto
    causes: tuple[str, ...]
    nodes: tuple[str, ...]
    channel: int | None
    cure: str
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    broken: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda proto: proto
    calibration: Feeds = ()
    images: Mapping[str, Any] = field(default_factory=dict)


def giant_channel(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A channel 500 times as large, its reader's weights as much smaller."""
    network = Network(proto)
    spot = middle(network.spots())
    channel = int(np.argmax(network.channels(spot.last, feeds)))
    network.rescaled(spot, channel, LOUD)
    network.reader_scaled(spot.second, channel, 1.0 / LOUD)
    causes = ("scale", "batch normalization")
    nodes = (*network.called(spot.first), *network.called(network.makers[spot.last]))
    cure = "equalize-through" if network.makers[spot.last].op_type == "Mul" else "cle"
    return Fault("giant channel", network.proto, causes, nodes, channel, cure)


def _constant(network: Network, spot: Spot, channel: int, value: float) -> None:
    """The channel of a place becomes a constant."""
    weight = network.array(spot.first.input[1])
    weight[channel] = 0.0
    network.put(spot.first.input[1], weight)
    for node, values in ((spot.first, {2: value}), (spot.norm, {1: 1.0, 2: value, 3: 0.0, 4: 1.0})):
        for place, number in values.items():
            if node is not None and (node is spot.norm or spot.norm is None) and place < len(node.input):
                array = network.array(node.input[place])
                array[channel] = number
                network.put(node.input[place], array)


def dead_normalization(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A channel of a normalization that reads a constant alone: its σ² is almost 0, and the gain is huge."""
    network = Network(proto)
    network.normalize(feeds)
    fitting = [
        (spot, norm, last)
        for spot in network.spots()
        for norm, last in [network.behind(spot.second)]
        if norm is not None and spot.norm is not None and one_by_one(network, spot.second)
    ]
    before, norm, last = middle(fitting)
    assert norm is not None
    second = before.second
    quiet = int(np.argmin(network.channels(before.last, feeds)))
    channel = int(np.argmax(network.channels(last, feeds)))
    _constant(network, before, quiet, 0.37)
    weight = network.array(second.input[1])
    weight[channel] = 0.0
    weight[channel, quiet] = 5.0
    network.put(second.input[1], weight)
    bias = network.array(second.input[2])[channel] if len(second.input) > 2 else 0.0
    for place, number in ((1, 1.0), (3, 5.0 * network.activated(before, 0.37) + bias), (4, 1e-12)):
        array = network.array(norm.input[place])
        array[channel] = number
        network.put(norm.input[place], array)
    causes = ("batch normalization",)
    nodes = (*network.called(second), *network.called(norm), *network.called(before.first))
    return Fault("dead normalization", network.proto, causes, nodes, channel, "constant-channels")


def wrong_variance(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A normalization whose variance is 25 times what it was."""
    network = Network(proto)
    network.normalize(feeds)
    norm = middle([spot for spot in network.spots() if spot.norm is not None]).norm
    assert norm is not None
    network.put(norm.input[4], 25.0 * network.array(norm.input[4]))
    return Fault(
        "wrong variance", network.proto, ("statistics",), network.called(norm), None, "mean and variance"
    )


def outlier_weight(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A weight 200 times as large as the others of its filter, for an input channel that is always 0.

    In a layer of few channels, where the loudest one is not drowned by the others.
    """
    network = Network(proto)
    fitting = [one for one in network.spots() if one_by_one(network, one.second)]
    inner = [one for one in fitting if network.behind(one.second)[1] != one.second.output[0]]
    if not fitting:
        raise NoSpotError
    spot = min(inner or fitting, key=lambda one: len(network.array(one.second.input[1])))
    quiet = int(np.argmin(network.channels(spot.last, feeds)))
    _constant(network, spot, quiet, 0.0)
    weight = network.array(spot.second.input[1])
    channel = int(np.argmax(network.channels(network.behind(spot.second)[1], feeds)))
    weight[channel, quiet] = OUTLIER * np.abs(weight[channel]).max()
    network.put(spot.second.input[1], weight)
    nodes = network.called(spot.second)
    return Fault("outlier weight", network.proto, ("weights",), nodes, channel, "constant-channels")


def _uneven_places(network: Network) -> list[tuple[onnx.NodeProto, int, onnx.NodeProto]]:
    """Concats that a Conv reads, and an input of each that only comes of one layer, a Conv or its norm."""
    found = []
    for node in network.proto.graph.node:
        readers = network.readers(node.output[0])
        if node.op_type != "Concat" or len(readers) != 1 or readers[0].op_type != "Conv":
            continue
        for layer in network.proto.graph.node:
            if layer.op_type == "Conv" and network.own(layer):
                norm, tensor = network.behind(layer)
                if tensor in node.input and len(network.readers(tensor)) == 1:
                    found.append((node, list(node.input).index(tensor), layer if norm is None else norm))
                    break
    return found


def uneven_branches(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """An input of a Concat 64 times as large as the others, its reader's weights as much smaller."""
    network = Network(proto)
    node, place, layer = middle(_uneven_places(network))
    size = len(network.array(layer.input[1]))
    start = sum(network.width(name) for name in node.input[:place])
    for name in layer.input[1:3]:
        network.put(name, UNEVEN * network.array(name))
    [reader] = network.readers(node.output[0])
    for channel in range(start, start + size):
        network.reader_scaled(reader, channel, 1.0 / UNEVEN)
    nodes = network.called(node)
    return Fault("uneven branches", network.proto, ("branches",), nodes, None, "Keep the Concat in float")


def _with_range(
    proto: onnx.ModelProto, feeds: Feeds, factor: float
) -> tuple[Network, tuple[str, ...], dict[str, Any]]:
    network = Network(proto)
    first, last, tensor = middle(network.layers())
    reach = float(network.channels(tensor, feeds).max())
    nodes = (*network.called(first), *network.called(last))
    return network, nodes, {tensor: (-factor * reach, factor * reach)}


def narrow_range(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A range of a tenth of what the tensor reaches."""
    network, nodes, ranges = _with_range(proto, feeds, NARROW)
    return Fault("narrow range", network.proto, ("clipped",), nodes, None, "Leave out --range", ranges)


def wide_range(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A range 64 times as wide as what the tensor reaches: four codes are left."""
    network, nodes, ranges = _with_range(proto, feeds, WIDE)
    return Fault("wide range", network.proto, ("unused",), nodes, None, "Leave out --range", ranges)


def wrapped_bias(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """The int32 bias of one channel runs over, as in tools that do not look."""
    network = Network(proto)
    first, last, tensor = middle(network.layers())
    channel = int(np.argmax(network.channels(tensor, feeds)))
    node = first.name or first.output[0]

    def broken(int8: onnx.ModelProto) -> onnx.ModelProto:
        coded = Network(int8)
        convs = (one for one in int8.graph.node if one.op_type == "Conv")
        layer = next(one for one in convs if node in (one.name, *one.output))
        codes = coded.makers[layer.input[2]].input[0]
        array = numpy_helper.to_array(coded.constants[codes]).copy()
        array[channel] = np.int64(array[channel]) + 2**31 - 2**32 * (array[channel] >= 0)
        coded.constants[codes].CopyFrom(numpy_helper.from_array(array, codes))
        return coded.proto

    nodes = (*network.called(first), *network.called(last))
    return Fault("wrapped bias", network.proto, ("bias",), nodes, channel, "overflow", broken=broken)


def one_scale(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """Boxes and scores of one output have codes of one scale, as in tools that do not look at outputs."""
    network = Network(proto)
    outputs = {one.name for one in proto.graph.output}
    ends = [node for node in proto.graph.node if node.op_type == "Concat" and node.output[0] in outputs]
    node = middle(ends)
    parts = [np.concatenate([run.ravel() for run in runs])
             for runs in zip(*network.values(list(node.input), feeds), strict=True)]  # fmt: skip
    reaches = [float(np.abs(part).max()) for part in parts]
    if max(reaches) < APART * min(reaches):
        raise NoSpotError
    low, high = min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)
    low = min(low, 0.0)

    def broken(int8: onnx.ModelProto) -> onnx.ModelProto:
        return with_codes(int8, node.output[0], low, high)

    nodes = network.called(node)
    return Fault(
        "one scale", network.proto, ("branches",), nodes, None, "Keep the Concat in float", broken=broken
    )


def blank_images(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """Calibrated with pictures of a covered lens."""
    rng = np.random.default_rng(0)
    blank = [{name: rng.normal(0.0, 0.01, array.shape).astype(array.dtype) for name, array in one.items()}
             for one in feeds]  # fmt: skip
    cure = "Calibrate again with data like these"
    return Fault("blank images", proto, ("input",), (), None, cure, calibration=blank)


def exchanged_colours(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """Blue first where the network was trained with red first."""
    return Fault("exchanged colours", proto, ("statistics",), (), None, "--color", images={"color": "other"})


def other_units(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """Pixels of 0 … 1 without a mean, or where these are right as they are, 0 … 255."""
    images = {"scale": "other"}
    cure = "mean, scale and colour order"
    return Fault("other units", proto, ("statistics", "input"), (), None, cure, images=images)


KINDS: dict[str, Callable[[onnx.ModelProto, Feeds], Fault]] = {
    "giant channel": giant_channel,
    "dead normalization": dead_normalization,
    "wrong variance": wrong_variance,
    "outlier weight": outlier_weight,
    "uneven branches": uneven_branches,
    "narrow range": narrow_range,
    "wide range": wide_range,
    "wrapped bias": wrapped_bias,
    "one scale": one_scale,
    "blank images": blank_images,
    "exchanged colours": exchanged_colours,
    "other units": other_units,
}
"""Each kind and what plants it; an entry raises ``NoSpotError`` where the network has no place for it."""
