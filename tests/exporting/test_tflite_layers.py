"""Layers written as TFLite: the same codes in LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import codes, single
from exported import CASES, assert_exported_exactly

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import to_tflite
from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rounding.linear import clamp, layer_rescale, sums_rescale

BOUNDS = ((None, None), (0.0, None), (0.0, 6.0), (-1.0, 1.0), (0.3, 2.0), (None, 1.5), (-0.7, None))


def slot(rng: np.random.Generator, name: str, *shape: int, low: float = 0.01, high: float = 0.2) -> Slot:
    """Codes of either type."""
    dtype = str(rng.choice(["int8", "uint8"]))
    limits = np.iinfo(dtype)
    zero_point = int(rng.integers(limits.min, limits.max, endpoint=True))
    return codes(name, *shape, scale=float(rng.uniform(low, high)), zero_point=zero_point, dtype=dtype)


def weighted(rng: np.random.Generator, x: Slot, y: Slot, shape: tuple[int, ...], axis: int) -> dict[str, Any]:
    """Fields of a layer: int8 weights or uint8 ones around their zero point; one scale or one per channel."""
    channels = shape[axis]
    per_channel = rng.random() < 0.7
    scales = rng.uniform(1e-3, 0.03, channels if per_channel else 1).astype(np.float32)
    weight, zero_point = rng.integers(-127, 128, shape).astype(np.int16), 0
    if rng.random() < 0.3:
        zero_point = int(rng.integers(120, 136))
        weight = np.clip(weight + zero_point, 1, 255)
    low, high = clamp("tflite", y, *BOUNDS[rng.integers(len(BOUNDS))])
    return {
        "weight": np.ascontiguousarray(weight.astype(np.uint8 if zero_point else np.int8)),
        "weight_zero_point": np.array([zero_point], np.int32),
        "bias": rng.integers(-3000, 3000, channels, dtype=np.int32),
        "rescale": layer_rescale("tflite", x.scale, scales, y.scale, fully_connected=len(shape) == 2),
        "low": low,
        "high": high,
    }


def sizes(rng: np.random.Generator) -> dict[str, Any]:
    """A window: kernel, strides, dilations, pads, and an image that holds one at least."""
    kernel, strides, dilations = rng.integers(1, 4, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    pads = rng.integers(0, 3, 4) if rng.random() < 0.7 else np.zeros(4, int)
    reach = (kernel - 1) * dilations + 1
    image = np.maximum(reach + rng.integers(0, 7, 2) - pads[:2] - pads[2:], 1)
    if rng.random() < 0.3:  # as SAME has it
        total = np.maximum((-(-image // strides) - 1) * strides + reach - image, 0)
        pads = np.concatenate([total // 2, total - total // 2])
    out = (image + pads[:2] + pads[2:] - reach) // strides + 1
    return {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "image": image,
        "out": out,
    }


def plain(values: np.ndarray) -> tuple[int, ...]:
    return tuple(values.tolist())


def window(found: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(found[name]) for name in ("strides", "pads", "dilations")}


def conv(rng: np.random.Generator) -> Program:
    found, groups = sizes(rng), int(rng.choice([1, 1, 1, 2, 3]))
    inputs, outputs = groups * int(rng.integers(1, 6)), groups * int(rng.integers(1, 6))
    x = slot(rng, "x", int(rng.integers(1, 3)), *plain(found["image"]), inputs)
    y = slot(rng, "y", x.shape[0], *plain(found["out"]), outputs)
    shape = (outputs, *plain(found["kernel"]), inputs // groups)
    return single(op.Conv, [x], y, "tflite", **weighted(rng, x, y, shape, 0), **window(found), groups=groups)


def depthwise(rng: np.random.Generator) -> Program:
    found, channels, multiplier = sizes(rng), int(rng.integers(1, 9)), int(rng.choice([1, 1, 2]))
    found["dilations"] = np.repeat(found["dilations"][:1], 2)
    reach = (found["kernel"] - 1) * found["dilations"] + 1
    found["image"] = np.maximum(found["image"], reach)
    found["out"] = (found["image"] + found["pads"][:2] + found["pads"][2:] - reach) // found["strides"] + 1
    x = slot(rng, "x", 1, *plain(found["image"]), channels)
    y = slot(rng, "y", 1, *plain(found["out"]), channels * multiplier)
    shape = (*plain(found["kernel"]), channels * multiplier)
    return single(op.DepthwiseConv, [x], y, "tflite", **weighted(rng, x, y, shape, 2), **window(found))


def conv_transpose(rng: np.random.Generator) -> Program:
    groups = int(rng.choice([1, 1, 2]))
    inputs, outputs = groups * int(rng.integers(1, 5)), groups * int(rng.integers(1, 5))
    kernel, strides, dilations = rng.integers(1, 4, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    image = rng.integers(1, 7, 2)
    whole = (image - 1) * strides + (kernel - 1) * dilations + 1
    top = np.minimum(rng.integers(0, 3, 2), (whole - 1) // 2)
    bottom = np.clip(rng.integers(-1, 3, 2), 1 - strides, (whole - 1) // 2)
    out = whole - top - bottom
    x, y = slot(rng, "x", 1, *plain(image), inputs), slot(rng, "y", 1, *plain(out), outputs)
    fields = weighted(rng, x, y, (outputs, *plain(kernel), inputs // groups), 0)
    pads = (*plain(top), *plain(np.maximum(bottom, 0)))
    return single(
        op.ConvTranspose, [x], y, "tflite", **fields,
        strides=plain(strides), pads=pads, dilations=plain(dilations), groups=groups,
    )  # fmt: skip


def fully_connected(rng: np.random.Generator) -> Program:
    inputs, outputs = int(rng.integers(1, 40)), int(rng.integers(1, 12))
    before = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
    x, y = slot(rng, "x", *before, inputs), slot(rng, "y", *before, outputs)
    return single(op.FullyConnected, [x], y, "tflite", **weighted(rng, x, y, (outputs, inputs), 0))


def mat_mul(rng: np.random.Generator) -> Program:
    rows, depth, columns = (int(size) for size in rng.integers(1, 9, 3))
    batch = int(rng.integers(1, 4))
    a = slot(rng, "a", batch, rows, depth)
    b = replace(slot(rng, "b", int(rng.choice([1, batch])), depth, columns), dtype="int8", zero_point=0)
    a = replace(a, dtype="int8", zero_point=int(rng.integers(-128, 128)))
    y = slot(rng, "y", batch, rows, columns, low=0.05, high=0.8)
    low, high = clamp("tflite", y, *BOUNDS[rng.integers(len(BOUNDS))])
    rule = sums_rescale("tflite", np.array([np.float32(a.scale) * np.float32(b.scale)]), y.scale)
    return single(op.MatMul, [a, b], y, "tflite", rescale=rule, low=low, high=high)


@pytest.mark.parametrize("make", [conv, depthwise, conv_transpose, fully_connected, mat_mul])
def test_layers(make: Any) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_exported_exactly(make(rng), rng)


def test_scales_of_weights_come_out_as_they_went_in() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        x, y = slot(rng, "x", 1, 3), slot(rng, "y", 1, 8)
        scales = np.exp(rng.uniform(-12, 0, 8)).astype(np.float32)
        fields = weighted(rng, x, y, (8, 3), 0)
        fields["rescale"] = layer_rescale("tflite", x.scale, scales, y.scale, fully_connected=True)
        graph = to_tflite(single(op.FullyConnected, [x], y, "tflite", **fields)).graph
        layer = next(found for found in graph.operators if found.op == "FULLY_CONNECTED")
        weight = graph.tensors[layer.inputs[1]]
        assert weight.quantization is not None
        np.testing.assert_array_equal(weight.quantization.scales, scales)


def test_the_lowest_weight_becomes_the_lowest_that_is_allowed() -> None:
    rng = np.random.default_rng(0)
    x, y = slot(rng, "x", 1, 3), slot(rng, "y", 1, 2)
    fields = weighted(rng, x, y, (2, 3), 0)
    fields |= {
        "weight": np.array([[-128, 5, 6], [7, -128, -127]], np.int8),
        "weight_zero_point": np.zeros(1, np.int32),
    }
    exported = to_tflite(single(op.FullyConnected, [x], y, "tflite", **fields))
    assert exported.notes == ("node: 2 weight codes of -128 became -127",)
    data = [tensor.data for tensor in exported.graph.tensors if tensor.name == "node/weight"]
    assert data[0] is not None and data[0].tolist() == [[-127, 5, 6], [7, -127, -127]]


def test_weights_without_room_for_a_zero_point_of_0_are_refused() -> None:
    rng = np.random.default_rng(0)
    x, y = slot(rng, "x", 1, 3), slot(rng, "y", 1, 2)
    fields = weighted(rng, x, y, (2, 3), 0)
    fields |= {
        "weight": np.array([[0, 5, 6], [7, 255, 1]], np.uint8),
        "weight_zero_point": np.full(1, 90, np.int32),
    }
    with pytest.raises(
        UnsupportedModelError, match=r"'node' \(FullyConnected\): its weights are not symmetric"
    ):
        to_tflite(single(op.FullyConnected, [x], y, "tflite", **fields))


def test_an_output_padding_as_large_as_the_stride_is_refused() -> None:
    rng = np.random.default_rng(0)
    x, y = slot(rng, "x", 1, 3, 3, 2), slot(rng, "y", 1, 4, 3, 2)
    program = single(
        op.ConvTranspose, [x], y, "tflite", **weighted(rng, x, y, (2, 1, 1, 2), 0),
        strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1,
    )  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="its output padding is not less than its stride"):
        to_tflite(program)
