"""Known faults, each planted into a float network or its int8 form, with what a diagnosis has to name.

    Conv A ─ [BatchNormalization] ─ [Relu | SiLU] ─ Conv B      a place: what most faults are planted in

A fault that keeps the float function breaks int8 alone; wrong statistics and wrong images break both. Behind
SiLU a factor is nearly kept: SiLU(f·x) is f·Relu(x) but near 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnxruntime import InferenceSession, SessionOptions

Array = np.ndarray[Any, Any]
Images = dict[str, Any]
Place = TypeVar("Place")
LOUD, WIDE, NARROW, UNEVEN, OUTLIER = 500.0, 64.0, 0.1, 64.0, 200.0


class NoSpotError(Exception):
    """The network has no place for a fault."""


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
    images: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spot:
    """Conv, the BatchNormalization behind it, and the Conv that alone reads both."""

    first: onnx.NodeProto
    norm: onnx.NodeProto | None
    last: str
    second: onnx.NodeProto


class Network:
    """A float network that is changed in place."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        """Copies it; constants become initializers."""
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(proto)
        self.makers = {name: node for node in self.proto.graph.node for name in node.output}
        self.constants = {tensor.name: tensor for tensor in self.proto.graph.initializer}

    def readers(self, tensor: str) -> list[onnx.NodeProto]:
        """The nodes that read a tensor."""
        return [node for node in self.proto.graph.node if tensor in node.input]

    def array(self, name: str) -> Array:
        """A constant, to be written with ``put``."""
        return numpy_helper.to_array(self.constants[name]).copy()

    def put(self, name: str, array: Array) -> None:
        """Another value of a constant."""
        self.constants[name].CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))

    def called(self, node: onnx.NodeProto) -> tuple[str, ...]:
        """How findings may call a node."""
        output = node.output[0]
        return (node.name or output, output, f"{node.op_type} of '{output}'")

    def spots(self) -> list[Spot]:
        """All places whose parameters nothing else reads."""
        found = []
        for node in self.proto.graph.node:
            if node.op_type == "Conv" and self.own(node):
                norm, tensor = self.behind(node)
                readers = self.readers(tensor)
                if len(readers) == 1 and readers[0].op_type == "Conv" and self.own(readers[0]):
                    found.append(Spot(node, norm, tensor, readers[0]))
        return found

    def behind(self, node: onnx.NodeProto) -> tuple[onnx.NodeProto | None, str]:
        """The BatchNormalization behind a Conv, and the tensor where its activation ends."""
        tensor, norm = node.output[0], None
        while True:
            readers = self.readers(tensor)
            if len(readers) == 1 and readers[0].op_type == "BatchNormalization" and norm is None:
                norm = readers[0] if self.own(readers[0]) else None
                if norm is None:
                    return None, tensor
                tensor = norm.output[0]
            elif len(readers) == 1 and readers[0].op_type == "Relu":
                tensor = readers[0].output[0]
            elif (product := self.silu(tensor)) is not None:
                tensor = product.output[0]
            else:
                return norm, tensor

    def silu(self, tensor: str) -> onnx.NodeProto | None:
        """The Mul of tensor · Sigmoid(tensor), where nothing else reads either."""
        readers = {one.op_type: one for one in self.readers(tensor)}
        if set(readers) != {"Sigmoid", "Mul"} or len(self.readers(readers["Sigmoid"].output[0])) != 1:
            return None
        product = readers["Mul"]
        return product if set(product.input) == {tensor, readers["Sigmoid"].output[0]} else None

    def activated(self, spot: Spot, value: float) -> float:
        """What the activation of a place makes of a value."""
        if self.makers[spot.last].op_type == "Mul":
            return value / (1.0 + float(np.exp(-value)))
        return max(value, 0.0) if self.makers[spot.last].op_type == "Relu" else value

    def layers(self) -> list[tuple[onnx.NodeProto, onnx.NodeProto, str]]:
        """Convs with a bias or a normalization, the node behind them (Relu, SiLU), and its output."""
        found = []
        for node in self.proto.graph.node:
            if node.op_type != "Conv" or not self.own(node):
                continue
            norm, tensor = self.behind(node)
            plain = norm is None and tensor == node.output[0]
            if (len(node.input) > 2 or norm is not None) and not plain:
                found.append((node, self.makers[tensor], tensor))
        return found

    def own(self, node: onnx.NodeProto) -> bool:
        """Whether nothing else reads the parameters of a node."""
        names = [name for name in node.input[1:] if name]
        return all(name in self.constants and len(self.readers(name)) == 1 for name in names)

    def rescaled(self, spot: Spot, channel: int, factor: float) -> None:
        """What the first Conv and its normalization give for a channel, times a factor."""
        names = spot.first.input[1:] if spot.norm is None else spot.norm.input[1:3]
        for name in names:
            array = self.array(name)
            array[channel] *= factor
            self.put(name, array)

    def reader_scaled(self, node: onnx.NodeProto, channel: int, factor: float) -> None:
        """What a Conv reads of a channel, times a factor; of a depthwise one the filter of the channel."""
        weight = self.array(node.input[1])
        weight[(channel,) if group(node) > 1 else (slice(None), channel)] *= factor
        self.put(node.input[1], weight)

    def width(self, tensor: str) -> int:
        """Channels of a tensor."""
        infos = shape_inference.infer_shapes(self.proto).graph.value_info
        shapes = {one.name: one.type.tensor_type.shape.dim for one in infos}
        return int(shapes[tensor][1].dim_value)

    def channels(self, tensor: str, feeds: Sequence[Mapping[str, Array]]) -> Array:
        """Largest magnitude per channel of a tensor, float64 [C]."""
        copy = shape_inference.infer_shapes(self.proto)
        copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(tensor))
        options = SessionOptions()
        options.log_severity_level = 3
        session = InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
        runs = [session.run([tensor], dict(one))[0] for one in feeds]
        return np.abs(np.concatenate(runs)).max(axis=(0, 2, 3)).astype(np.float64)


def group(node: onnx.NodeProto) -> int:
    """Of a Conv."""
    return next((one.i for one in node.attribute if one.name == "group"), 1)


def one_by_one(network: Network, node: onnx.NodeProto) -> bool:
    """A Conv without a neighbourhood, that reads all channels."""
    return network.array(node.input[1]).shape[2:] == (1, 1) and group(node) == 1


def middle(spots: Sequence[Place]) -> Place:
    """One of them that is neither the first nor the last.

    Raises:
        NoSpotError: there is none.
    """
    if not spots:
        raise NoSpotError
    return spots[len(spots) // 2]


Feeds = Sequence[Mapping[str, Array]]


def giant_channel(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A channel 500 times as large, its reader's weights as much smaller."""
    network = Network(proto)
    spot = middle(network.spots())
    channel = int(np.argmax(network.channels(spot.last, feeds)))
    network.rescaled(spot, channel, LOUD)
    network.reader_scaled(spot.second, channel, 1.0 / LOUD)
    causes = ("scale", "batch normalization")
    nodes = (*network.called(spot.first), *network.called(network.makers[spot.last]))
    return Fault("giant channel", network.proto, causes, nodes, channel, "cle")


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
    norm = middle([spot for spot in network.spots() if spot.norm is not None]).norm
    assert norm is not None
    network.put(norm.input[4], 25.0 * network.array(norm.input[4]))
    return Fault(
        "wrong variance", network.proto, ("statistics",), network.called(norm), None, "mean and variance"
    )


def outlier_weight(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A weight 200 times as large as the others of its filter, for an input channel that is always 0."""
    network = Network(proto)
    spot = middle([one for one in network.spots() if one_by_one(network, one.second)])
    quiet = int(np.argmin(network.channels(spot.last, feeds)))
    _constant(network, spot, quiet, 0.0)
    weight = network.array(spot.second.input[1])
    channel = int(np.argmax(np.abs(weight).sum(axis=(1, 2, 3))))
    weight[channel, quiet] = OUTLIER * np.abs(weight[channel]).max()
    network.put(spot.second.input[1], weight)
    nodes = network.called(spot.second)
    return Fault("outlier weight", network.proto, ("weights",), nodes, channel, "scales")


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
    return Fault("narrow range", network.proto, ("clipped",), nodes, None, "Leave --range", ranges)


def wide_range(proto: onnx.ModelProto, feeds: Feeds) -> Fault:
    """A range 64 times as wide as what the tensor reaches: four codes are left."""
    network, nodes, ranges = _with_range(proto, feeds, WIDE)
    return Fault("wide range", network.proto, ("unused",), nodes, None, "Leave --range", ranges)


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
    "exchanged colours": exchanged_colours,
    "other units": other_units,
}
"""Each kind and what plants it; an entry raises ``NoSpotError`` where the network has no place for it."""
