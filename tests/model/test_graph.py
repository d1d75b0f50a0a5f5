"""Questions asked of a graph, and the hash that a calibration table is bound to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from calib8.model.graph import (
    activation_inputs,
    add_constant,
    constant,
    float_attribute,
    graph_inputs,
    graph_outputs,
    input_at,
    int_attribute,
    ints_attribute,
    is_activation,
    model_hash,
    opset_version,
    rank,
    scalar_constant,
    sole_consumer,
    unique_name,
)
from calib8.tensors import TensorSpec
from small_models import graph, normal, onnx_model

CONSTANTS = {"w": normal(4, 3, 3, 3), "lo": np.float32(0), "hi": np.array([6], np.float32)}
BODY = "c = Conv<pads=[1,1,1,1]>(x, w) y = Clip(c, lo, hi)"


def proto() -> onnx.ModelProto:
    model = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", BODY, CONSTANTS)
    model.graph.node[0].name, model.graph.node[1].name = "conv", "clip"
    return model


def small_graph() -> ir.Model:
    return graph("float[N,3,8,8] x", "float[N,4,8,8] y", BODY, CONSTANTS)


def node(model: ir.Model, op_type: str) -> ir.Node:
    return next(node for node in model.graph if node.op_type == op_type)


def test_constants_and_activations_are_told_apart() -> None:
    model = small_graph()
    conv, clip = node(model, "Conv"), node(model, "Clip")
    np.testing.assert_array_equal(constant(conv.inputs[1]), CONSTANTS["w"])
    assert constant(conv.inputs[0]) is None and constant(None) is None
    assert [value.name for value in activation_inputs(conv)] == ["x"]
    assert [value.name for value in activation_inputs(clip)] == ["c"]
    assert is_activation(model.graph.inputs[0]) and not is_activation(model.graph.initializers["w"])


def test_integers_are_no_activations() -> None:
    model = graph("int64[N] i, float[8,4] x", "float[N,4] y", "y = Gather(x, i)")
    assert [value.name for value in activation_inputs(node(model, "Gather"))] == ["x"]


def test_a_default_that_can_be_fed_is_no_constant() -> None:
    model = onnx_model("float[N,3,8,8] x, float[4,3,3,3] w", "float[N,4,6,6] y", "y = Conv(x, w)", CONSTANTS)
    loaded = ir.from_proto(model)
    assert constant(node(loaded, "Conv").inputs[1]) is None
    assert [spec.name for spec in graph_inputs(loaded)] == ["x"]


def test_scalar_constants() -> None:
    clip = node(small_graph(), "Clip")
    assert scalar_constant(clip.inputs[1]) == 0.0
    assert scalar_constant(clip.inputs[2]) == 6.0
    assert scalar_constant(clip.inputs[0]) is None
    assert scalar_constant(node(small_graph(), "Conv").inputs[1]) is None


def test_omitted_inputs_are_none() -> None:
    clip = node(graph("float[N] x", "float[N] y", "y = Clip(x, , hi)", {"hi": np.float32(6)}), "Clip")
    assert input_at(clip, 1) is None and input_at(clip, 7) is None
    assert scalar_constant(input_at(clip, 2)) == 6.0


def test_attributes_and_their_defaults() -> None:
    gemm = node(
        graph("float[N,3] x", "float[N,4] y", "y = Gemm<alpha=0.5, transB=1>(x, w)", {"w": normal(4, 3)}),
        "Gemm",
    )
    assert float_attribute(gemm, "alpha", 1.0) == 0.5 and float_attribute(gemm, "beta", 1.0) == 1.0
    assert int_attribute(gemm, "transB", 0) == 1 and int_attribute(gemm, "transA", 0) == 0
    conv = node(small_graph(), "Conv")
    assert ints_attribute(conv, "pads", ()) == (1, 1, 1, 1) and ints_attribute(conv, "strides", (1, 1)) == (
        1,
        1,
    )


def test_the_sole_consumer() -> None:
    body = "a = Relu(x) b = Relu(a) c = Add(b, b) d = Relu(c) y = Relu(d)"
    model = graph("float[N] x", "float[N] y, float[N] d", body)
    values = {value.name: value for item in model.graph for value in item.outputs}
    consumers = {name: sole_consumer(value) for name, value in values.items()}
    found = {name: consumer.name for name, consumer in consumers.items() if consumer is not None}
    assert found == {"a": "b", "c": "d"}


def test_inputs_outputs_ranks_and_operator_set() -> None:
    model = small_graph()
    assert graph_inputs(model) == (TensorSpec("x", np.dtype(np.float32), ("N", 3, 8, 8)),)
    assert graph_outputs(model) == (TensorSpec("y", np.dtype(np.float32), ("N", 4, 8, 8)),)
    assert str(graph_inputs(model)[0]) == "x: float32 N×3×8×8"
    assert opset_version(model) == 17
    assert rank(model.graph.inputs[0]) == 4 and rank(None) is None and rank(ir.Value(name="u")) is None


def test_shapes_that_are_partly_or_wholly_unknown() -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 0, "H"])
    u = helper.make_tensor_value_info("u", onnx.TensorProto.UINT8, None)
    made = helper.make_graph([], "g", [x, u], [])
    specs = graph_inputs(ir.from_proto(helper.make_model(made)))
    assert specs[0].shape == (None, 0, "H") and str(specs[0]) == "x: float32 ?×0×H"
    assert specs[1] == TensorSpec("u", np.dtype(np.uint8), None)
    assert str(specs[1]) == "u: uint8 unknown shape"


def test_new_names_avoid_every_name_of_the_graph() -> None:
    model = small_graph()
    assert [unique_name(model.graph, base) for base in ("x", "w", "c", "new")] == ["x_1", "w_1", "c_1", "new"]
    first = add_constant(model.graph, "w", np.zeros((2, 0), np.int8))
    second = add_constant(model.graph, "w", np.float32(2.5).reshape(()))
    assert (first.name, second.name) == ("w_1", "w_2")
    assert first.const_value is not None and first.const_value.numpy().shape == (2, 0)
    assert scalar_constant(second) == 2.5 and rank(second) == 0
    assert first.dtype == ir.DataType.INT8


def change_a_weight_bit(model: onnx.ModelProto) -> None:
    array = numpy_helper.to_array(model.graph.initializer[0]).copy()
    array.view(np.uint32).reshape(-1)[17] ^= 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))


def change_an_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute[0].ints[3] = 0


def rename_a_tensor(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = "d"


def swap_the_limits(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[1], model.graph.node[1].input[2] = "hi", "lo"


def change_the_op(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Max"


def change_the_domain(model: onnx.ModelProto) -> None:
    model.graph.node[1].domain = "com.example"


def change_the_operator_set(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 18


def reshape_a_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [4, 3, 9, 1]


def drop_an_input(model: onnx.ModelProto) -> None:
    del model.graph.node[1].input[2]


@pytest.mark.parametrize(
    "change",
    [
        change_a_weight_bit,
        change_an_attribute,
        rename_a_tensor,
        swap_the_limits,
        change_the_op,
        change_the_domain,
        change_the_operator_set,
        reshape_a_weight,
        drop_an_input,
    ],
)
def test_the_hash_sees_every_change_of_the_function(change: Callable[[onnx.ModelProto], None]) -> None:
    changed = proto()
    change(changed)
    assert model_hash(ir.from_proto(changed)) != model_hash(ir.from_proto(proto()))


def test_the_hash_sees_a_tensor_attribute() -> None:
    hashes = set()
    for number in (1.0, 2.0):
        value = helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [number])
        made = helper.make_node("ConstantOfShape", ["s"], ["y"], value=value)
        outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
        inputs = [helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [1])]
        hashes.add(
            model_hash(ir.from_proto(helper.make_model(helper.make_graph([made], "g", inputs, outputs))))
        )
    assert len(hashes) == 2


def test_the_hash_ignores_metadata_shapes_and_the_order_of_initializers() -> None:
    changed = onnx.shape_inference.infer_shapes(proto())
    changed.producer_name = "someone"
    changed.doc_string = "a comment"
    helper.set_model_props(changed, {"author": "someone"})
    initializers = list(reversed(changed.graph.initializer))
    del changed.graph.initializer[:]
    changed.graph.initializer.extend(initializers)
    assert model_hash(ir.from_proto(changed)) == model_hash(ir.from_proto(proto()))


def test_the_hash_is_that_of_a_copy() -> None:
    model = small_graph()
    assert model_hash(model.clone()) == model_hash(model)
    assert len(model_hash(model)) == 64
