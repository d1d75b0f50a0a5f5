"""A small int8 model to open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnx_ir as ir

import calib8
from small_models import Array, normal, onnx_model

CONV = "Conv<pads=[1,1,1,1]>"
WEIGHTS: dict[str, Array] = {"w": normal(8, 3, 3, 3), "b": normal(8), "u": normal(4, 8, 3, 3, seed=1)}
BODY = f"c = {CONV}(x, w, b) r = Relu(c) y = {CONV}(r, u)"
FEEDS = {"x": normal(1, 3, 6, 6, seed=2)}


def quantized(axes: str = "N,3,6,6", body: str = BODY, **options: Any) -> onnx.ModelProto:
    """The int8 form of conv → relu → conv."""
    proto = onnx_model(f"float[{axes}] x", "float[A,B,C,D] y", body, WEIGHTS)
    return int8(proto, (3, 6, 6), **options)


def int8(proto: onnx.ModelProto, sizes: Sequence[int], **options: Any) -> onnx.ModelProto:
    """The int8 form of a model with an input x of these sizes."""
    data = [{"x": normal(1, *sizes, seed=seed)} for seed in range(3)]
    return ir.to_proto(calib8.quantize(proto, data, method="minmax", **options).model)


def float_between(batch: str = "1") -> onnx.ModelProto:
    """A model whose last layer stays float: a Float call of its plan."""
    body = f"c = {CONV}(x, w, b) s = Sin(c) y = {CONV}(s, u)"
    model = onnx_model(f"float[{batch},3,6,6] x", "float[A,B,C,D] y", body, WEIGHTS)
    model.graph.node[2].name = "last"
    data = [{"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(3)]
    return ir.to_proto(calib8.quantize(model, data, method="minmax", keep_float=["last"]).model)
