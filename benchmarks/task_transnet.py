"""TransNet V2, which finds where shots of a film begin: an ONNX model from its weights, layer by layer.

    frames [1, 3, F, 27, 48], 0 … 255 → three blocks of dilated layers 3-D → 128 similarities of neighbours by
    what the blocks found, 128 by colours → 1024 → a probability for each frame

A layer is 1×3×3 and then 3×1×1 with dilations of 1, 2, 4 and 8 frames side by side (Souček and Lokoč, 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from task_tfjs import Layers

F32 = npt.NDArray[np.float32]

FRAMES: Final = 20
ROWS, COLUMNS = 27, 48
OPSET: Final = 17
EPSILON: Final = 0.001
BLOCKS: Final = 3
DILATIONS: Final = (1, 2, 4, 8)
NEIGHBOURS: Final = 101
COLOURS: Final = 512
"""Eight shades of each of red, green and blue."""


def trans_net(weights: Mapping[str, F32], frames: int = FRAMES) -> bytes:
    """The file, with an input ``frames`` and an output ``begins``, [1, 1, F, 1]."""
    made = Layers()
    x = made.node("Mul", "frames", made.constant(np.float32(1 / 255)))
    found = list[str]()
    for block in range(BLOCKS):
        x = _block(made, weights, f"SDDCNN.{block}.DDCNN", x)
        found.append(x)
    alike = _alike(made, weights, found, frames)
    colours = _near(made, weights, "color_hist_layer.fc", _histograms(made, frames), frames)
    moved = made.node("Transpose", x, perm=[0, 2, 3, 4, 1])
    flat = made.node("Reshape", moved, made.constant(np.array([1, frames, -1])))
    features = made.node("Concat", colours, alike, flat, axis=2)
    hidden = made.node("Relu", _dense(made, weights, "fc1", features))
    whole = made.node("Sigmoid", _dense(made, weights, "cls_layer1", hidden))
    result = made.node("Reshape", whole, made.constant(np.array([1, 1, frames, 1])))
    return _file(made, result, frames)


def _file(made: Layers, result: str, frames: int) -> bytes:
    """The graph of all nodes."""
    made.node("Identity", result)
    made.nodes[-1].output[:] = ["begins"]
    sizes = {"frames": (1, 3, frames, ROWS, COLUMNS), "begins": (1, 1, frames, 1)}
    one, other = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()
    )
    graph = helper.make_graph(made.nodes, "shots", [one], [other], made.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


def _block(made: Layers, weights: Mapping[str, F32], name: str, x: str) -> str:
    """Two dilated layers, the first one's result added to the second's, a mean of 2×2."""
    first = made.node("Relu", _layer(made, weights, f"{name}.0", x))
    second = made.node("Relu", _layer(made, weights, f"{name}.1", first))
    whole = made.node("Add", second, first)
    return made.node("AveragePool", whole, kernel_shape=[1, 2, 2], strides=[1, 2, 2])


def _layer(made: Layers, weights: Mapping[str, F32], name: str, x: str) -> str:
    """Four dilations side by side, normalized."""
    parts = [_dilated(made, weights, f"{name}.Conv3D_{frames}.layers", x, frames) for frames in DILATIONS]
    own = ("weight", "bias", "running_mean", "running_var")
    given = [made.constant(weights[f"{name}.bn.{part}"]) for part in own]
    return made.node("BatchNormalization", made.node("Concat", *parts, axis=1), *given, epsilon=EPSILON)


def _dilated(made: Layers, weights: Mapping[str, F32], name: str, x: str, frames: int) -> str:
    """1×3×3, then 3×1×1 with a dilation."""
    places = made.node(
        "Conv", x, made.constant(weights[f"{name}.0.weight"]), kernel_shape=[1, 3, 3],
        pads=[0, 1, 1, 0, 1, 1],
    )  # fmt: skip
    return made.node(
        "Conv", places, made.constant(weights[f"{name}.1.weight"]), kernel_shape=[3, 1, 1],
        dilations=[frames, 1, 1], pads=[frames, 0, 0, frames, 0, 0],
    )  # fmt: skip


def _dense(made: Layers, weights: Mapping[str, F32], name: str, x: str) -> str:
    matrix = made.constant(np.ascontiguousarray(weights[f"{name}.weight"].T))
    return made.node("Add", made.node("MatMul", x, matrix), made.constant(weights[f"{name}.bias"]))


def _alike(made: Layers, weights: Mapping[str, F32], found: list[str], frames: int) -> str:
    """Similarities of frames by the means of what the blocks found."""
    means = [made.node("ReduceMean", x, axes=[3, 4], keepdims=0) for x in found]
    rows = made.node("Transpose", made.node("Concat", *means, axis=1), perm=[0, 2, 1])
    features = _dense(made, weights, "frame_sim_layer.projection", rows)
    return _near(made, weights, "frame_sim_layer.fc", features, frames)


def _near(made: Layers, weights: Mapping[str, F32], name: str, rows: str, frames: int) -> str:
    """Cosines of each frame and the 50 before and behind it, through a layer.

    Cosines of all pairs lie in rows with 50 zeros on either side; row f of the result begins at column f.
    """
    length = made.node("ReduceL2", rows, axes=[2], keepdims=1)
    unit = made.node("Div", rows, made.node("Max", length, made.constant(np.float32(1e-12))))
    pairs = made.node("MatMul", unit, made.node("Transpose", unit, perm=[0, 2, 1]))
    side = NEIGHBOURS // 2
    padded = made.node("Pad", pairs, made.constant(np.array([0, 0, side, 0, 0, side])))
    flat = made.node("Reshape", padded, made.constant(np.array([1, -1])))
    places = np.arange(frames)[:, None] * (frames + 2 * side + 1) + np.arange(NEIGHBOURS)
    return made.node(
        "Relu", _dense(made, weights, name, made.node("Gather", flat, made.constant(places), axis=1))
    )


def _histograms(made: Layers, frames: int) -> str:
    """How many pixels of each frame have each of 512 colours, [1, F, 512]."""
    shades = made.node("Floor", made.node("Mul", "frames", made.constant(np.float32(1 / 32))))
    factors = np.array([64, 8, 1], np.float32).reshape(1, 3, 1, 1, 1)
    bins = made.node(
        "ReduceSum", made.node("Mul", shades, made.constant(factors)), made.constant(np.array([1]))
    )
    places = made.node("Cast", bins, to=TensorProto.INT64)
    flat = made.node("Reshape", places, made.constant(np.array([1, frames, ROWS * COLUMNS])))
    zeros, ones = (np.full((1, frames, count), value, np.float32) for count, value in
                   ((COLOURS, 0), (ROWS * COLUMNS, 1)))  # fmt: skip
    return made.node(
        "ScatterElements", made.constant(zeros), flat, made.constant(ones), axis=2, reduction="add"
    )  # fmt: skip
