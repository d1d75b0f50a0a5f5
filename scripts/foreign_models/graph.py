"""Writes ONNX graphs line by line, with weights and images from seeded random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.generic]
F32 = npt.NDArray[np.float32]

SIZE = 16
CLASSES = 10


def images(count: int, seed: int, channels: int = 3, size: int = SIZE) -> F32:
    """Smooth random images [count, channels, size, size] in [-1, 1], steps of 1/64, of uneven colour."""
    generator = np.random.default_rng(seed)
    coarse = generator.uniform(-1, 1, (count, channels, size // 4, size // 4))
    smooth = coarse.repeat(4, axis=2).repeat(4, axis=3)
    colour = generator.uniform(-0.7, 0.7, (count, channels, 1, 1))
    noisy = 0.7 * smooth + colour + generator.normal(0, 0.15, smooth.shape)
    return (np.rint(np.clip(noisy, -1, 1) * 64) / 64).astype(np.float32)


class Graph:
    """A graph under construction: every method adds nodes and returns the name of the tensor they make."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.numbers = itertools.count()

    def input(self, name: str, shape: Sequence[int | str], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(
        self, tensor: str, name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[int] | None = None
    ) -> None:
        """Names a tensor that a node makes and gives it out; shape inference finds a shape not given."""
        for node in self.nodes:
            node.input[:] = [name if used == tensor else used for used in node.input]
            node.output[:] = [name if made == tensor else made for made in node.output]
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def constant(self, array: Array, name: str = "") -> str:
        name = name or f"constant_{next(self.numbers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str:
        """One node. With several outputs the name of the first is returned, the others end in _1, _2 …"""
        name = f"{op.lower()}_{next(self.numbers)}"
        names = [name, *(f"{name}_{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, names, name=name, domain=domain, **attributes))
        return name

    def weights(self, outputs: int, *others: int) -> F32:
        """He-initialised; the magnitude of output channels differs, so that per-channel scales pay."""
        deviation = np.sqrt(2 / max(int(np.prod(others)), 1))
        drawn = self.generator.normal(0, deviation, (outputs, *others))
        strength = 2 ** self.generator.uniform(-1.5, 0.5, (outputs, *[1] * len(others)))
        return (drawn * strength).astype(np.float32)

    def uniform(self, low: float, high: float, *shape: int) -> F32:
        return self.generator.uniform(low, high, shape).astype(np.float32)

    def conv(
        self,
        source: str,
        channels: tuple[int, int],
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        padded: bool = True,
    ) -> str:
        """Convolution with bias that pads by half its kernel or not; ``channels`` are those in and out."""
        weight = self.constant(self.weights(channels[1], channels[0] // groups, kernel, kernel))
        bias = self.constant(self.uniform(-0.3, 0.3, channels[1]))
        return self.node(
            "Conv",
            source,
            weight,
            bias,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2 if padded else 0] * 4,
            group=groups,
        )

    def batch_norm(self, source: str, channels: int) -> str:
        bounds = ((0.6, 1.4), (-0.3, 0.3), (-0.2, 0.2), (0.5, 1.5))
        return self.node(
            "BatchNormalization", source, *(self.constant(self.uniform(*pair, channels)) for pair in bounds)
        )

    def gemm(self, source: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        """Fully connected; rows of weights sum to 0, so that what all features share decides no class."""
        rows = np.float32(gain) * self.weights(outputs, inputs)
        weight, bias = self.constant(rows - rows.mean(1, keepdims=True)), self.uniform(-0.3, 0.3, outputs)
        return self.node("Gemm", source, weight, self.constant(bias), transB=1)

    def model(self, name: str, opset: int = 17, contrib: bool = False) -> onnx.ModelProto:
        """The finished model: shapes inferred, checked."""
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        domains = [helper.make_opsetid("", opset)] + [helper.make_opsetid("com.microsoft", 1)] * contrib
        version = helper.find_min_ir_version_for(domains, ignore_unknown=True)
        made = helper.make_model(
            graph, opset_imports=domains, ir_version=max(version, 7), producer_name="calib8 tests"
        )
        made = onnx.shape_inference.infer_shapes(made, strict_mode=not contrib)
        onnx.checker.check_model(made)
        return made
