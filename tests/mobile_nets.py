"""A network of inverted residuals whose channels differ by orders, and images that it tells apart.

Factors go out of one layer and into the next: the function is that of a harmless network, one scale for a
whole weight sees channels of very different size.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from small_models import Array, onnx_model, run

CLASSES, SIZE, WIDTH, WIDER, BLOCKS = 10, 12, 12, 24, 3
DECADES = 2.0
"""Channels differ by up to 10^DECADES."""


def images(count: int, seed: int) -> tuple[Array, Array]:
    """float32 [count, 3, SIZE, SIZE] and their classes: a pattern per class under noise."""
    patterns = np.random.default_rng(1).standard_normal((CLASSES, 3, SIZE, SIZE))
    random = np.random.default_rng(seed)
    classes = random.integers(0, CLASSES, count)
    noise = 0.5 * random.standard_normal((count, 3, SIZE, SIZE))
    return (patterns[classes] + noise).astype(np.float32), classes


def mobile_net() -> onnx.ModelProto:
    """The network, its last layer fitted to the classes (nearest mean)."""
    constants, body = _features()
    features, classes = images(400, seed=2)
    shapes = f"float[N,3,{SIZE},{SIZE}] x"
    extractor = onnx_model(shapes, f"float[N,{WIDER}] f", body, constants)
    values = run(extractor, {"x": features})[0].astype(np.float64)
    means = np.stack([values[classes == label].mean(axis=0) for label in range(CLASSES)])
    spread = np.linalg.pinv(np.cov((values - means[classes]).T) + 1e-3 * np.eye(WIDER) * values.var())
    weight = means @ spread
    bias = -0.5 * np.sum(weight * means, axis=1)
    head = {"fc": weight.astype(np.float32), "fcb": bias.astype(np.float32)}
    whole = f"{body} y = Gemm<transB=1>(f, fc, fcb)"
    return onnx_model(shapes, f"float[N,{CLASSES}] y", whole, {**constants, **head})


def _features() -> tuple[Mapping[str, Array], str]:
    """Constants and nodes up to the pooled features."""
    random = np.random.default_rng(3)
    constants: dict[str, Array] = {}

    def weight(name: str, outputs: int, inputs: int, kernel: int) -> None:
        deviation = np.sqrt(2.0 / (inputs * kernel * kernel))
        constants[name] = (deviation * random.standard_normal((outputs, inputs, kernel, kernel))).astype(
            np.float32
        )
        constants[f"{name}b"] = (0.1 * random.standard_normal(outputs)).astype(np.float32)

    weight("w0", WIDTH, 3, 3)
    lines = ["c0 = Conv<pads=[1,1,1,1]>(x, w0, w0b) t0 = Relu(c0)"]
    for block in range(1, BLOCKS + 1):
        weight(f"e{block}", WIDER, WIDTH, 1)
        weight(f"d{block}", WIDER, 1, 3)
        weight(f"p{block}", WIDTH, WIDER, 1)
        _uneven(constants, block, random)
        lines.append(
            f"""a{block} = Conv(t{block - 1}, e{block}, e{block}b) r{block} = Relu(a{block})
                v{block} = Conv<group={WIDER}, pads=[1,1,1,1]>(r{block}, d{block}, d{block}b)
                s{block} = Relu(v{block})
                q{block} = Conv(s{block}, p{block}, p{block}b) t{block} = Add(q{block}, t{block - 1})"""
        )
    weight("l", WIDER, WIDTH, 1)
    lines.append(f"l0 = Conv(t{BLOCKS}, l, lb) l1 = Relu(l0) g = GlobalAveragePool(l1) f = Flatten(g)")
    return constants, " ".join(lines)


def _uneven(constants: dict[str, Array], block: int, random: np.random.Generator) -> None:
    """Factors between the three layers of a block: the function stays."""
    for first, second, depthwise in ((f"e{block}", f"d{block}", True), (f"d{block}", f"p{block}", False)):
        factors = (10.0 ** random.uniform(-DECADES / 2, DECADES / 2, WIDER)).astype(np.float32)
        constants[first] = constants[first] * factors.reshape(-1, 1, 1, 1)
        constants[f"{first}b"] = constants[f"{first}b"] * factors
        shape = (-1, 1, 1, 1) if depthwise else (1, -1, 1, 1)
        constants[second] = constants[second] / factors.reshape(shape)
