"""Places in a float network for faults, and what changes the network there.

Conv A ─ [BatchNormalization] ─ [Relu | SiLU] ─ Conv B      a place: what most faults are planted in
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnxruntime import InferenceSession, SessionOptions

Array = np.ndarray[Any, Any]
Feeds = Sequence[Mapping[str, Array]]
Place = TypeVar("Place")


class NoSpotError(Exception):
    """The network has no place for a fault."""


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
        """Copies it."""
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(proto)
        self._look()

    def _look(self) -> None:
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

    def values(self, tensors: Sequence[str], feeds: Feeds) -> Iterator[list[Array]]:
        """What some tensors are, run by run."""
        copy = shape_inference.infer_shapes(self.proto)
        outputs = {one.name for one in copy.graph.output}
        added = (name for name in tensors if name not in outputs)
        copy.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in added)
        options = SessionOptions()
        options.log_severity_level = 3
        session = InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for one in feeds:
            yield session.run(list(tensors), dict(one))

    def channels(self, tensor: str, feeds: Feeds) -> Array:
        """Largest magnitude per channel of a tensor, float64 [C]."""
        runs = [array for [array] in self.values([tensor], feeds)]
        return np.abs(np.concatenate(runs)).max(axis=(0, 2, 3)).astype(np.float64)

    def normalize(self, feeds: Feeds) -> None:
        """Puts normalizations back behind layers with a bias and an activation, where the file has none.

        They have the statistics of these runs; the function stays what it is. Initializers are added.
        """
        if any(node.op_type == "BatchNormalization" for node in self.proto.graph.node):
            return
        layers = [first for first, _, _ in self.layers()]
        moments = [np.zeros((2, self.array(layer.input[2]).size)) for layer in layers]
        for arrays in self.values([layer.output[0] for layer in layers], feeds):
            for found, array in zip(moments, arrays, strict=True):
                wide = np.moveaxis(array.astype(np.float64), 1, 0).reshape(array.shape[1], -1)
                found += np.stack([wide.mean(axis=1), np.square(wide).mean(axis=1)]) / len(feeds)
        nodes = list(self.proto.graph.node)
        for layer, (mean, square) in zip(layers, moments, strict=True):
            nodes.insert(nodes.index(layer) + 1, self._normalized(layer, mean, square - mean**2))
        del self.proto.graph.node[:]
        self.proto.graph.node.extend(nodes)
        self._look()

    def _normalized(self, layer: onnx.NodeProto, mean: Array, variance: Array) -> onnx.NodeProto:
        """What stands behind a layer that leaves its bias to it: γ = √(σ² + ε), β = μ + b, μ, σ²."""
        result, bias = layer.output[0], self.array(layer.input[2])
        sums, names = f"{result}/sums", [f"{result}/{part}" for part in ("gamma", "beta", "mean", "variance")]
        found = (np.sqrt(variance + 1e-5), mean, mean - bias, variance)
        tensors = (
            numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in zip(names, found, strict=True)
        )
        self.proto.graph.initializer.extend(tensors)
        layer.output[0] = sums
        del layer.input[2]
        return onnx.helper.make_node(
            "BatchNormalization", [sums, *names], [result], name=f"{layer.name or result}/norm", epsilon=1e-5
        )


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


def with_codes(int8: onnx.ModelProto, tensor: str, low: float, high: float) -> onnx.ModelProto:
    """An int8 graph whose Concat that yields a tensor reads and yields uint8 codes of one range."""
    found = onnx.ModelProto()
    found.CopyFrom(int8)
    scale = np.float32((high - low) / 255.0)
    names = [f"{tensor}/scale", f"{tensor}/zero_point"]
    stored = (scale, np.uint8(np.clip(round(-low / float(scale)), 0, 255)))
    found.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(one), name) for name, one in zip(names, stored, strict=True)
    )
    nodes = []
    for node in int8.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if tensor not in node.output:
            nodes.append(copy)
            continue
        copy.output[0] = f"{tensor}/joined"
        for place, name in enumerate(node.input):
            nodes += _pair(name, f"{name}/coded", names)
            copy.input[place] = f"{name}/coded"
        nodes += [copy, *_pair(f"{tensor}/joined", tensor, names)]
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found


def _pair(source: str, result: str, numbers: Sequence[str]) -> list[onnx.NodeProto]:
    """Codes of a tensor, and what they stand for."""
    return [
        onnx.helper.make_node("QuantizeLinear", [source, *numbers], [f"{result}/codes"], name=f"{result}/Q"),
        onnx.helper.make_node(
            "DequantizeLinear", [f"{result}/codes", *numbers], [result], name=f"{result}/DQ"
        ),
    ]
