"""Networks of which none, one or all layers have to be float, and samples for them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import onnx

from small_models import normal, onnx_model

BODY = """
a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
r1 = Relu(a)
b = Conv<pads = [1, 1, 1, 1]>(r1, w2, b2)
r2 = Relu(b)
c = Conv<pads = [1, 1, 1, 1]>(r2, w3)
p = GlobalAveragePool(c)
y = Flatten(p)
"""

COARSE = "b"
"""Name of the layer that int8 destroys, of ``one_coarse_layer``."""


def even_net() -> onnx.ModelProto:
    """Three layers that int8 serves well: x float[N,3,6,6] → y float[N,5]."""
    return _net(normal(4, 4, 3, 3, seed=2))


def one_coarse_layer() -> onnx.ModelProto:
    """The same function classes, but one weight of 3000 per output channel, on a channel that is always 0.

    It alone decides about the scale of its channel: all others of the layer round to 0.
    """
    weight = normal(4, 4, 3, 3, seed=2)
    weight[:, 0] = 3000.0
    return _net(weight)


def _net(weight: npt.NDArray[np.float32]) -> onnx.ModelProto:
    bias = normal(4, seed=4)
    bias[0] = -1000.0  # channel 0 is dead
    constants = {
        "w1": normal(4, 3, 3, 3, seed=1), "b1": bias, "w2": weight, "b2": normal(4, seed=5),
        "w3": normal(5, 4, 3, 3, seed=3),
    }  # fmt: skip
    return _called("float[N,3,6,6] x", "float[N,5] y", BODY, constants)


def _called(x: str, y: str, body: str, constants: dict[str, npt.NDArray[np.float32]]) -> onnx.ModelProto:
    """Every node is called as what it yields."""
    model = onnx_model(x, y, body, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


LOUD: Final = "r1"
"""The tensor that 8 bits ruin, of ``one_loud_tensor``."""


def one_loud_tensor() -> onnx.ModelProto:
    """A channel of r1 is a hundred times as loud as the others, for nothing: no weight listens to it."""
    first, bias, second = normal(4, 3, 3, 3, seed=1), normal(4, seed=4), normal(4, 4, 3, 3, seed=2)
    first[1] *= 100.0
    bias[1] *= 100.0
    second[:, 1] = 0.0
    constants = {
        "w1": first, "b1": bias, "w2": second, "b2": normal(4, seed=5), "w3": normal(5, 4, 3, 3, seed=3),
    }  # fmt: skip
    return _called("float[N,3,6,6] x", "float[N,5] y", BODY, constants)


def deep_net(layers: int = 10) -> onnx.ModelProto:
    """Many layers that int8 serves alike: what it costs to be better is spread over all of them."""
    body, constants = "x0 = Identity(x)\n", dict[str, npt.NDArray[np.float32]]()
    for index in range(layers):
        constants[f"w{index}"] = normal(3, 3, 3, 3, seed=index) / 4.0
        body += f"c{index} = Conv<pads = [1, 1, 1, 1]>(x{index}, w{index})\nx{index + 1} = Relu(c{index})\n"
    return _pooled(body, f"x{layers}", constants, 3)


def added_net(blocks: int = 3) -> onnx.ModelProto:
    """Residual blocks: additions called s0, s1 …"""
    body = "t0 = Conv<pads = [1, 1, 1, 1]>(x, w0)\n"
    constants = {"w0": normal(8, 3, 3, 3, seed=0)}
    for index in range(blocks):
        constants[f"v{index}"] = normal(8, 8, 3, 3, seed=10 + index) / 16.0
        body += f"c{index} = Conv<pads = [1, 1, 1, 1]>(t{index}, v{index})\n"
        body += f"s{index} = Add(c{index}, t{index})\nt{index + 1} = Identity(s{index})\n"
    return _pooled(body, f"t{blocks}", constants, 8)


def unequal_net() -> onnx.ModelProto:
    """HardSwish between layers whose channels are up to 100-fold apart: equalized through the function."""
    sizes = np.geomspace(10, 0.1, 8).astype(np.float32).reshape(8, 1, 1, 1)
    body = "c0 = Conv<pads = [1, 1, 1, 1]>(x, w0)\nx1 = HardSwish(c0)\n"
    body += "c1 = Conv<group = 8, pads = [1, 1, 1, 1]>(x1, w1)\nx2 = Relu(c1)\n"
    constants = {"w0": normal(8, 3, 3, 3, seed=0) * sizes, "w1": normal(8, 1, 3, 3, seed=1) / sizes}
    return _pooled(body, "x2", constants, 8)


def _pooled(
    body: str, last: str, constants: dict[str, npt.NDArray[np.float32]], channels: int
) -> onnx.ModelProto:
    """Ends in a pool and a Gemm; every node is called as what it yields."""
    constants["w"] = normal(channels, 5, seed=99)
    body += f"p = GlobalAveragePool({last})\nf = Flatten(p)\ny = Gemm(f, w)"
    return _called("float[N,3,6,6] x", "float[N,5] y", body, constants)


def inputs(count: int = 48, seed: int = 0) -> npt.NDArray[np.float32]:
    """[count, 3, 6, 6]."""
    return np.random.default_rng(seed).normal(0.0, 1.0, (count, 3, 6, 6)).astype(np.float32)


def float_classes(model: onnx.ModelProto, samples: npt.NDArray[np.float32]) -> list[int]:
    """The best class of every sample."""
    from small_models import run

    return [int(np.argmax(run(model, {"x": sample[None]})[0])) for sample in samples]
