"""Detectors of faces from weights of face-api.js: ONNX models, built layer by layer.

A weight is stored as 8-bit numbers, ``weight = number · scale + min``. The layers are those that face-api.js
runs: a MobileNet v1 with the heads of an SSD, and a network of separable layers with a grid of anchors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

F32 = npt.NDArray[np.float32]

OPSET = 13
SSD_SIDE = 512
TINY_SIDE = 416
SSD_EPSILON = 0.001
SLOPE = 0.1
STRIDES_OF_2 = (2, 4, 6, 12)
"""Depthwise layers of MobileNet v1 that halve the picture."""
CENTRE_SCALE, SIZE_SCALE = 10.0, 5.0
"""By which the offsets of the SSD's boxes were multiplied for training."""


def stored_weights(manifest: bytes, numbers: bytes) -> dict[str, F32]:
    """Name → weight, for the real-valued ones."""
    found, start = dict[str, F32](), 0
    for entry in (entry for group in json.loads(manifest) for entry in group["weights"]):
        form = entry.get("quantization")
        dtype = np.dtype(form["dtype"] if form else entry["dtype"])
        count = int(np.prod(entry["shape"]))
        values = np.frombuffer(numbers, dtype, count, start).reshape(entry["shape"])
        start += count * dtype.itemsize
        if entry["dtype"] == "float32":
            real = values * form["scale"] + form["min"] if form else values
            found[entry["name"]] = real.astype(np.float32)
    return found


class Layers:
    """Nodes and constants of a graph under construction; methods return the name of what they compute."""

    def __init__(self) -> None:
        self.nodes = list[onnx.NodeProto]()
        self.constants = list[TensorProto]()

    def constant(self, value: npt.NDArray[np.generic]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def conv(self, x: str, weight: F32, bias: F32, stride: int = 1, pads: tuple[int, ...] = ()) -> str:
        """A layer with weights [rows, columns, in, out]; depthwise: [rows, columns, channels, 1]."""
        rows, columns, inputs, outputs = weight.shape
        depthwise = outputs == 1 and len(bias) == inputs
        moved = weight.transpose(2, 3, 0, 1) if depthwise else weight.transpose(3, 2, 0, 1)
        return self.node(
            "Conv", x, self.constant(np.ascontiguousarray(moved)), self.constant(bias),
            kernel_shape=[rows, columns], strides=[stride, stride], pads=list(pads) or [0] * 4,
            group=inputs if depthwise else 1,
        )  # fmt: skip

    def relu6(self, x: str) -> str:
        zero, six = (self.constant(np.float32(limit)) for limit in (0.0, 6.0))
        return self.node("Clip", x, zero, six)

    def model(self, side: int, outputs: Mapping[str, tuple[int, ...]], renamed: Mapping[str, str]) -> bytes:
        """The file, with an input ``image`` and outputs under names of their own."""
        for node in self.nodes:
            node.output[:] = [renamed.get(name, name) for name in node.output]
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, side, side))
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()
        ]
        graph = helper.make_graph(self.nodes, "faces", [image], results, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(made)
        return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


def same(kernel: int, stride: int) -> tuple[int, ...]:
    """Padding SAME of TensorFlow for an even size: the odd pixel comes after the picture."""
    whole = max(kernel - stride, 0)
    before = whole // 2
    return (before, before, whole - before, whole - before)


def tiny_face(weights: Mapping[str, F32]) -> bytes:
    """TinyFaceDetector: [1, 25, 13, 13], five anchors of four numbers and an objectness.

    image → conv 3×3 → (pool → separable)·5 → pool with stride 1 → conv 1×1
    """
    made = Layers()
    x = made.conv("image", weights["conv0/filters"], weights["conv0/bias"])
    x, side = made.node("LeakyRelu", x, alpha=SLOPE), TINY_SIDE - 2
    for layer in range(1, 6):
        odd = side % 2
        x = made.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, odd, odd])
        side = (side + odd) // 2
        depthwise = weights[f"conv{layer}/depthwise_filter"]
        x = made.conv(x, depthwise, np.zeros(depthwise.shape[2], np.float32), pads=(1, 1, 1, 1))
        x = made.conv(x, weights[f"conv{layer}/pointwise_filter"], weights[f"conv{layer}/bias"])
        x = made.node("LeakyRelu", x, alpha=SLOPE)
    x = made.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    x = made.conv(x, weights["conv8/filters"], weights["conv8/bias"])
    return made.model(TINY_SIDE, {"grid": (1, 25, side, side)}, {x: "grid"})


def ssd(weights: Mapping[str, F32]) -> bytes:
    """SSD MobileNet v1: boxes [1, 5118, 4] as corners in fractions of the picture, scores [1, 5118, 1]."""
    made = Layers()
    x, eleventh = backbone(made, weights)
    levels = [eleventh, x]
    for layer in range(8):
        name, stride = f"Prediction/Conv2d_{layer}_pointwise", 1 + layer % 2
        kernel = weights[f"{name}/weights"]
        bias = weights[f"{name}/convolution_bn_offset"]
        x = made.relu6(made.conv(x, kernel, bias, stride, same(len(kernel), stride)))
        if stride == 2:
            levels.append(x)
    offsets = made.node("Concat", *heads(made, weights, levels, "Box"), axis=1)
    classes = made.node("Concat", *heads(made, weights, levels, "Class"), axis=1)
    boxes = decoded(made, offsets, weights["Output/extra_dim"])
    face = made.node("Slice", classes, *(made.constant(np.array([place])) for place in (1, 2, 2)))
    scores, rows = made.node("Sigmoid", face), weights["Output/extra_dim"].shape[1]
    shapes = {"boxes": (1, rows, 4), "scores": (1, rows, 1)}
    return made.model(SSD_SIDE, shapes, {boxes: "boxes", scores: "scores"})


def backbone(made: Layers, weights: Mapping[str, F32]) -> tuple[str, str]:
    """MobileNet v1 with BatchNormalization folded; its last layer and the eleventh."""
    first = "MobilenetV1/Conv2d_0_pointwise"
    bias = weights[f"{first}/convolution_bn_offset"]
    x = made.relu6(made.conv("image", weights[f"{first}/weights"], bias, 2, same(3, 2)))
    eleventh = x
    for layer in range(1, 14):
        name = f"MobilenetV1/Conv2d_{layer}"
        norm = {
            part: weights[f"{name}_depthwise/BatchNorm/{part}"]
            for part in ("gamma", "beta", "moving_mean", "moving_variance")
        }
        factor = norm["gamma"] / np.sqrt(norm["moving_variance"] + np.float32(SSD_EPSILON))
        kernel = weights[f"{name}_depthwise/depthwise_weights"] * factor[:, None]
        stride = 2 if layer in STRIDES_OF_2 else 1
        x = made.conv(x, kernel, norm["beta"] - norm["moving_mean"] * factor, stride, same(3, stride))
        bias = weights[f"{name}_pointwise/convolution_bn_offset"]
        x = made.relu6(made.conv(made.relu6(x), weights[f"{name}_pointwise/weights"], bias))
        eleventh = x if layer == 11 else eleventh
    return x, eleventh


def heads(made: Layers, weights: Mapping[str, F32], levels: Sequence[str], kind: str) -> list[str]:
    """The rows of every level."""
    return [head(made, weights, x, level, kind) for level, x in enumerate(levels)]


def head(made: Layers, weights: Mapping[str, F32], x: str, level: int, kind: str) -> str:
    """Rows of four offsets or of three classes at every place of a level; offsets in the order x, y, w, h."""
    part = "BoxEncodingPredictor" if kind == "Box" else "ClassPredictor"
    name, numbers = f"Prediction/BoxPredictor_{level}/{part}", 4 if kind == "Box" else 3
    kernel, bias = weights[f"{name}/weights"], weights[f"{name}/biases"]
    if kind == "Box":
        order = (np.arange(len(bias)).reshape(-1, 4)[:, [1, 0, 3, 2]]).ravel()
        kernel, bias = kernel[..., order], bias[order]
    last = made.node("Transpose", made.conv(x, kernel, bias), perm=[0, 2, 3, 1])
    return made.node("Reshape", last, made.constant(np.array([1, -1, numbers])))


def decoded(made: Layers, offsets: str, priors: F32) -> str:
    """Corners from offsets; priors [1, n, 4] are y, x, y, x."""
    low, high = priors[..., [1, 0]], priors[..., [3, 2]]
    axis = made.constant(np.array([2]))
    parts = [
        made.node("Slice", offsets, *(made.constant(np.array([place])) for place in places), axis)
        for places in ((0, 2), (2, 4))
    ]
    shift = made.node("Mul", parts[0], made.constant((high - low) / np.float32(CENTRE_SCALE)))
    centre = made.node("Add", shift, made.constant((low + high) / np.float32(2)))
    grown = made.node("Exp", made.node("Div", parts[1], made.constant(np.float32(SIZE_SCALE))))
    half = made.node("Mul", grown, made.constant((high - low) / np.float32(2)))
    corners = made.node("Sub", centre, half), made.node("Add", centre, half)
    return made.node("Concat", *corners, axis=2)
