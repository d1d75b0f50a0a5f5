"""Networks drawn layer by layer with random weights, nodes in the order in which torchvision exports them.

    weights ~ N(0, 2 / fan-in)         (He: keeps the power E[x²] through convolution and ReLU)
    BatchNormalization variance = 2 · E[x²] of its input's input, so that its output has a variance near 1

Accuracy of such a network means nothing; its speed, its memory and the life in its activations do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


@dataclass(frozen=True)
class Tensor:
    """A tensor [N, channels, height, width], or [N, channels] where height is 0.

    Attributes:
        name: of the value.
        channels, height, width: its sizes.
        power: E[x²] as far as the kind of layer tells.
    """

    name: str
    channels: int
    height: int
    width: int
    power: float = 1.0


@dataclass
class Drawing:
    """A network while it is drawn; ``macs`` counts the products of its convolutions and matrices."""

    name: str
    rng: np.random.Generator
    macs: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def image(self, size: int) -> Tensor:
        """The input: normalized pixels [N, 3, size, size]."""
        self.inputs.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, size, size]))
        return Tensor("input", 3, size, size)

    def model(self, outputs: Sequence[Tensor]) -> onnx.ModelProto:
        """The finished model."""
        ports = []
        for x in outputs:
            sizes = [x.channels, x.height, x.width] if x.height else [x.channels]
            ports.append(helper.make_tensor_value_info(x.name, TensorProto.FLOAT, ["N", *sizes]))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, ports, self.constants)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)

    def conv(
        self,
        x: Tensor,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        *,
        pad: int | tuple[int, int] | None = None,
        groups: int = 1,
        bias: bool = True,
    ) -> Tensor:
        """Convolution; ``pad`` rows and columns of zeros around it, None for those that keep the size."""
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        above, left = (pad, pad) if isinstance(pad, int) else pad or (rows // 2, columns // 2)
        shape = (channels, x.channels // groups, rows, columns)
        fan_in = int(np.prod(shape[1:]))
        names = [x.name, self._constant(self._he(shape, fan_in))]
        if bias:
            names.append(self._constant(self.rng.normal(0, 0.1, channels)))
        height = (x.height + 2 * above - rows) // stride + 1
        width = (x.width + 2 * left - columns) // stride + 1
        self.macs += height * width * channels * fan_in
        return self._node(
            "Conv",
            names,
            Tensor("", channels, height, width, 2 * x.power),
            kernel_shape=[rows, columns],
            strides=[stride, stride],
            pads=[above, left, above, left],
            group=groups,
        )

    def batch_norm(self, x: Tensor) -> Tensor:
        """BatchNormalization whose statistics are those of its input."""
        n, deviation = x.channels, np.sqrt(x.power)
        arrays = [
            self.rng.uniform(0.5, 1.5, n),
            self.rng.normal(0, 0.2, n),
            self.rng.normal(0, 0.2, n) * deviation,
            np.full(n, x.power),
        ]
        names = [x.name, *map(self._constant, arrays)]
        return self._node("BatchNormalization", names, replace(x, power=1.16), epsilon=1e-5)

    def layer_norm(self, x: Tensor) -> Tensor:
        """LayerNormalization over the channels, which move behind the pixels for it."""
        n = x.channels
        names = [self._constant(self.rng.uniform(0.5, 1.5, n)), self._constant(self.rng.normal(0, 0.2, n))]
        result = replace(x, power=1.16)
        if not x.height:
            return self._node("LayerNormalization", [x.name, *names], result, axis=-1, epsilon=1e-6)
        x = self._node("Transpose", [x.name], x, perm=[0, 2, 3, 1])
        x = self._node("LayerNormalization", [x.name, *names], result, axis=-1, epsilon=1e-6)
        return self._node("Transpose", [x.name], result, perm=[0, 3, 1, 2])

    def unit(
        self,
        x: Tensor,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        *,
        pad: int | tuple[int, int] | None = None,
        groups: int = 1,
        activation: str = "relu",
    ) -> Tensor:
        """Convolution, BatchNormalization, activation."""
        x = self.conv(x, channels, kernel, stride, pad=pad, groups=groups, bias=False)
        return self.activate(self.batch_norm(x), activation)

    def activate(self, x: Tensor, activation: str) -> Tensor:
        """``relu``, ``relu6``, ``silu``, ``gelu`` (by its formula, as PyTorch writes it) or ``none``."""
        if activation == "none":
            return x
        if activation == "relu6":
            limits = [self._constant(np.float32(limit)) for limit in (0, 6)]
            return self._node("Clip", [x.name, *limits], replace(x, power=x.power / 2))
        if activation == "silu":
            gate = self._node("Sigmoid", [x.name], x)
            return self._node("Mul", [x.name, gate.name], replace(x, power=x.power * 0.36))
        if activation == "gelu":
            root, one, half = (self._constant(np.float32(value)) for value in (np.sqrt(2), 1, 0.5))
            y = self._node("Erf", [self._node("Div", [x.name, root], x).name], x)
            y = self._node("Mul", [x.name, self._node("Add", [y.name, one], x).name], x)
            return self._node("Mul", [y.name, half], replace(x, power=x.power * 0.43))
        return self._node("Relu", [x.name], replace(x, power=x.power / 2))

    def scale(self, x: Tensor) -> Tensor:
        """A factor per channel."""
        factors = self._constant(self.rng.uniform(0.3, 0.7, (x.channels, 1, 1)))
        return self._node("Mul", [x.name, factors], replace(x, power=0.26 * x.power))

    def add(self, x: Tensor, y: Tensor, activation: str = "none") -> Tensor:
        """Sum of two tensors, activated."""
        total = self._node("Add", [x.name, y.name], replace(x, power=x.power + y.power))
        # Of a sum with something positive a ReLU keeps more than half; too low a power would grow from block
        # to block.
        return replace(self.activate(total, activation), power=total.power)

    def concat(self, xs: Sequence[Tensor]) -> Tensor:
        """Channels of all of them side by side."""
        channels = sum(x.channels for x in xs)
        power = sum(x.channels * x.power for x in xs) / channels
        return self._node(
            "Concat", [x.name for x in xs], replace(xs[0], channels=channels, power=power), axis=1
        )

    def pool(
        self, x: Tensor, op_type: str, kernel: int, stride: int, *, pad: int = 0, ceil: bool = False
    ) -> Tensor:
        """``MaxPool`` or ``AveragePool`` (which counts its padding); ``ceil`` rounds the size up."""
        up = stride - 1 if ceil else 0
        height, width = ((size + 2 * pad - kernel + up) // stride + 1 for size in (x.height, x.width))
        more = {"ceil_mode": 1} if ceil else {}
        more |= {"count_include_pad": 1} if op_type == "AveragePool" and pad else {}
        return self._node(
            op_type,
            [x.name],
            replace(x, height=height, width=width),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            **more,
        )

    def double(self, x: Tensor) -> Tensor:
        """Nearest upsampling by 2."""
        scales = self._constant(np.float32([1, 1, 2, 2]))
        size = replace(x, height=2 * x.height, width=2 * x.width)
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._node("Resize", [x.name, "", scales], size, **how)

    def global_pool(self, x: Tensor) -> Tensor:
        """Mean of every channel, flattened."""
        # relu of a unit normal: mean² = 0.16 of E[x²] = 0.5
        x = self._node("GlobalAveragePool", [x.name], replace(x, height=1, width=1, power=0.4 * x.power))
        return self.flatten(x)

    def flatten(self, x: Tensor) -> Tensor:
        """One row per image."""
        flat = replace(x, channels=x.channels * x.height * x.width, height=0, width=0)
        return self._node("Flatten", [x.name], flat, axis=1)

    def dense(self, x: Tensor, channels: int) -> Tensor:
        """Fully connected layer."""
        weight = self._constant(self._he((channels, x.channels), x.channels))
        names = [x.name, weight, self._constant(self.rng.normal(0, 0.1, channels))]
        self.macs += channels * x.channels
        return self._node("Gemm", names, replace(x, channels=channels, power=2 * x.power), transB=1)

    def _he(self, shape: tuple[int, ...], fan_in: int) -> npt.NDArray[np.float32]:
        return self.rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))

    def _constant(self, values: npt.ArrayLike) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def _node(self, op_type: str, names: Sequence[str], result: Tensor, **attributes: object) -> Tensor:
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, names, [name], name=name, **attributes))
        return replace(result, name=name)
