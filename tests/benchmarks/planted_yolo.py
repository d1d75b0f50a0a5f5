"""A small detector of the form that YOLOv8 has: SiLU, no normalizations, C2f blocks, boxes from bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime import InferenceSession

from small_models import normal, onnx_model

SIDE, WIDTH, BINS, CLASSES = 32, 16, 4, 3
HALF = WIDTH // 2
TAIL = """
    all = Concat<axis=2>(fine, coarse) bins, logits = Split<axis=1>(all, parts)
    shaped = Reshape(bins, by_bins) moved = Transpose<perm=[0, 2, 1, 3]>(shaped)
    soft = Softmax<axis=1>(moved) dfl = Conv(soft, dfl_w) sides = Reshape(dfl, by_sides)
    low = Slice(sides, zero, two, one) high = Slice(sides, two, four, one)
    first = Sub(places, low) second = Add(places, high)
    sum = Add(first, second) middle = Div(sum, half) size = Sub(second, first)
    square = Concat<axis=1>(middle, size) boxes = Mul(square, strides)
    scores = Sigmoid(logits) y = Concat<axis=1>(boxes, scores)
"""


def pictures(count: int = 24) -> Any:
    """uint8 [count, SIDE, SIDE, 3]: grey noise with blocks of other colours."""
    rng = np.random.default_rng(3)
    found = rng.integers(80, 140, (count, SIDE, SIDE, 3))
    for picture in found:
        for _ in range(5):
            row, column = rng.integers(0, SIDE - 9, 2)
            picture[row : row + 9, column : column + 9] += rng.integers(-60, 60, 3)
    return np.clip(found, 0, 255).astype(np.uint8)


class _Builder:
    """Text and weights of a network."""

    def __init__(self) -> None:
        self.text, self.constants = list[str](), dict[str, Any]()

    def conv(self, name: str, source: str, shape: tuple[int, ...], step: int = 1) -> None:
        edge, seed = shape[-1] // 2, len(self.constants)
        form = f"pads=[{edge},{edge},{edge},{edge}], strides=[{step},{step}]"
        self.text.append(f"{name} = Conv<{form}>({source}, {name}_w, {name}_b)")
        self.constants |= {
            f"{name}_w": normal(*shape, seed=seed),
            f"{name}_b": np.zeros(shape[0], np.float32),
        }

    def layer(self, name: str, source: str, shape: tuple[int, ...], step: int = 1) -> None:
        """A convolution and its SiLU."""
        self.conv(f"{name}_c", source, shape, step)
        self.text.append(f"{name}_s = Sigmoid({name}_c) {name} = Mul({name}_c, {name}_s)")

    def c2f(self, name: str, source: str, width: int, *, adds: bool) -> None:
        """Half of the channels go through two layers more; all parts meet in a Concat."""
        self.layer(f"{name}_i", source, (WIDTH, width, 1, 1))
        self.text.append(f"{name}_p, {name}_q = Split<axis=1>({name}_i, halves)")
        self.layer(f"{name}_m", f"{name}_q", (HALF, HALF, 3, 3))
        self.layer(f"{name}_n", f"{name}_m", (HALF, HALF, 3, 3))
        last = f"{name}_n"
        if adds:
            last = f"{name}_a"
            self.text.append(f"{last} = Add({name}_q, {name}_n)")
        self.text.append(f"{name}_j = Concat<axis=1>({name}_p, {name}_q, {last})")
        self.layer(name, f"{name}_j", (WIDTH, WIDTH + HALF, 1, 1))

    def head(self, name: str, source: str) -> None:
        """Bins of four sides, and class scores, of one level."""
        for part, many in (("box", 4 * BINS), ("cls", CLASSES)):
            self.layer(f"{name}_{part}0", source, (WIDTH, WIDTH, 3, 3))
            self.layer(f"{name}_{part}1", f"{name}_{part}0", (WIDTH, WIDTH, 3, 3))
            self.conv(f"{name}_{part}", f"{name}_{part}1", (many, WIDTH, 1, 1))
        self.text.append(f"{name}_both = Concat<axis=1>({name}_box, {name}_cls)")
        self.text.append(f"{name} = Reshape({name}_both, flat)")


def yolo(images: Any) -> onnx.ModelProto:
    """x [N, 3, SIDE, SIDE] of pixel / 255 → y [N, 4 + CLASSES, places]."""
    net = _Builder()
    net.layer("l0", "x", (WIDTH, 3, 3, 3), 2)
    net.layer("l1", "l0", (WIDTH, WIDTH, 3, 3), 2)
    net.c2f("l2", "l1", WIDTH, adds=True)
    net.layer("l3", "l2", (WIDTH, WIDTH, 3, 3), 2)
    net.c2f("l4", "l3", WIDTH, adds=True)
    net.text.append('up = Resize<mode="nearest">(l4, , by) neck = Concat<axis=1>(up, l2)')
    net.c2f("l5", "neck", 2 * WIDTH, adds=False)
    net.layer("l6", "l5", (WIDTH, WIDTH, 3, 3), 2)
    net.text.append("pan = Concat<axis=1>(l6, l4)")
    net.c2f("l7", "pan", 2 * WIDTH, adds=False)
    net.head("fine", "l5")
    net.head("coarse", "l7")
    grids = (SIDE // 4, SIDE // 8)
    places = sum(side * side for side in grids)
    corners = [np.stack(np.meshgrid(*[np.arange(side) + 0.5] * 2)).reshape(2, -1) for side in grids]
    net.constants |= {
        "halves": np.int64([HALF] * 2), "flat": np.int64([0, 4 * BINS + CLASSES, -1]),
        "by": np.float32([1, 1, 2, 2]), "parts": np.int64([4 * BINS, CLASSES]),
        "by_bins": np.int64([0, 4, BINS, -1]), "by_sides": np.int64([0, 4, -1]),
        "dfl_w": np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1), "half": np.float32(2.0),
        "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "four": np.int64([4]),
        "places": np.concatenate(corners, axis=1)[None].astype(np.float32),
        "strides": np.float32([[[SIDE // side for side in grids for _ in range(side * side)]]]),
    }  # fmt: skip
    inputs, outputs = f"float[N,3,{SIDE},{SIDE}] x", f"float[N,{4 + CLASSES},{places}] y"
    proto = onnx_model(inputs, outputs, "\n".join(net.text) + TAIL, net.constants)
    _fit(proto, np.ascontiguousarray((images.astype(np.float32) / 255).transpose(0, 3, 1, 2)))
    return proto


def _fit(proto: onnx.ModelProto, fed: Any) -> None:
    """Every layer as a folded normalization leaves it: channels of deviation about 1, means about 0."""
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    for number, node in enumerate(
        node for node in proto.graph.node if len(node.input) == 3 and node.op_type == "Conv"
    ):
        name = node.output[0]
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        copy.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        session = InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
        [values] = session.run([name], {"x": fed})
        many = values.shape[1]
        gain = (0.7 + 0.3 * np.abs(normal(many, seed=500 + number))) / values.std(axis=(0, 2, 3))
        base = 0.5 * normal(many, seed=700 + number) - 2.0 * name.endswith("_cls")
        weight = numpy_helper.to_array(stored[f"{name}_w"]) * gain[:, None, None, None]
        for key, array in ((f"{name}_w", weight), (f"{name}_b", base - gain * values.mean(axis=(0, 2, 3)))):
            stored[key].CopyFrom(numpy_helper.from_array(array.astype(np.float32), key))
