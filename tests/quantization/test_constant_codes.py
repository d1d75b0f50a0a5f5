"""Constants behind a DequantizeLinear: which are coded arrays, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8.quantization.qdq import constant_codes_of

TYPES = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8, "int4": onnx.TensorProto.INT4,
         "uint4": onnx.TensorProto.UINT4, "int32": onnx.TensorProto.INT32,
         "float8": onnx.TensorProto.FLOAT8E4M3FN}  # fmt: skip


def node(codes: Any, scale: Any, kind: str = "int8", points: Any = None, **attributes: int) -> ir.Node:
    """DequantizeLinear of a constant."""
    array = np.asarray(codes)
    stored = [onnx.helper.make_tensor("q", TYPES[kind], array.shape, array.reshape(-1))]
    stored.append(onnx.numpy_helper.from_array(np.asarray(scale, np.float32), "s"))
    inputs = ["q", "s"]
    if points is not None:
        values = np.asarray(points)
        stored.append(onnx.helper.make_tensor("z", TYPES[kind], values.shape, values.reshape(-1)))
        inputs.append("z")
    made = onnx.helper.make_node("DequantizeLinear", inputs, ["y"], **attributes)
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([made], "net", [], [result], stored)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    return next(iter(ir.from_proto(model).graph))


@pytest.mark.parametrize(
    ("found", "axis", "shape"),
    [
        (node([[1, 2], [3, 4]], 0.5), None, ()),
        (node([[1, 2], [3, 4]], [0.5, 0.25], axis=0), 0, (2,)),
        (node([[1, 2], [3, 4]], [0.5, 0.25], axis=-1), 1, (2,)),
        (node([[1, 2]], [0.5], axis=0), 0, (1,)),
        (node([[1, 2], [3, 4]], [0.5, 0.25], points=[0, 3]), 1, (2,)),
        (node([[1, 2], [3, 4]], 0.5, "int32"), None, ()),
    ],
)
def test_codes_with_their_scales(found: ir.Node, axis: int | None, shape: tuple[int, ...]) -> None:
    coded = constant_codes_of(found)
    assert coded is not None and coded.axis == axis and coded.scale.shape == shape
    assert coded.scale.dtype == np.float32 and np.asarray(coded.zero_point).dtype == np.int64


@pytest.mark.parametrize(("kind", "dtype"), [("int4", np.int8), ("uint4", np.uint8)])
def test_codes_of_4_bits_are_given_as_bytes(kind: str, dtype: type) -> None:
    coded = constant_codes_of(node([[1, 2], [3, 7]], 0.5, kind, points=1))
    assert coded is not None and coded.values.dtype == dtype
    assert coded.real.tolist() == [[0.0, 0.5], [1.0, 3.0]]


@pytest.mark.parametrize(
    "found",
    [
        node([[1, 2], [3, 4]], [0.5, 0.25, 0.125], axis=1),
        node([[1, 2], [3, 4]], [[0.5], [0.25]], axis=1, block_size=2),
        node([[1, 2], [3, 4]], 0.0),
        node([[1, 2], [3, 4]], [0.5, -0.25], axis=1),
        node([[1, 2], [3, 4]], np.nan),
        node(3, [0.5], axis=0),
        node([[1, 2], [3, 4]], [0.5, 0.25], points=[1, 2, 3]),
        node([1.0, 2.0], 0.5, "float8"),
    ],
)
def test_what_is_no_coded_array(found: ir.Node) -> None:
    assert constant_codes_of(found) is None


def test_computed_parameters_are_none() -> None:
    found = node([1, 2], 0.5)
    found.replace_input_with(1, ir.Value(name="computed"))
    assert constant_codes_of(found) is None
