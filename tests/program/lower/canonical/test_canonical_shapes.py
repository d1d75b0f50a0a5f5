"""Shapes: given ones, the batch, what stays open, shape arithmetic; refusals name input and axis."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from canonical_checks import Net, canonical, node_of, op_types

from calib8.errors import UnsupportedModelError, UsageError
from calib8.program.lower.canonical import canonical_qdq
from small_models import graph


def relu(inputs: str) -> onnx.ModelProto:
    net = Net()
    return net.model(inputs, net.coded(net.op("Relu (x)")))


def sizes(model: ir.Model, index: int = 0) -> list[int]:
    shape = model.graph.outputs[index].shape
    assert shape is not None
    return [int(size) for size in shape.numpy()]


@pytest.mark.parametrize(
    ("inputs", "given", "expected"),
    [
        ("float[N, 3, 8, 8] x", None, [1, 3, 8, 8]),
        ("float[N, 3, 8, 8] x", {"x": (4, 3, 8, 8)}, [4, 3, 8, 8]),
        ("float[N, 3, H, W] x", {"x": (1, 3, 6, 10)}, [1, 3, 6, 10]),
        ("float[2, 3, 8, 8] x", {"x": [2, 3, 8, 8]}, [2, 3, 8, 8]),
        ("float x", {"x": (2, 5)}, [2, 5]),
    ],
)
def test_inputs_get_concrete_shapes(
    inputs: str, given: dict[str, tuple[int, ...]] | None, expected: list[int]
) -> None:
    proto = relu(inputs)
    if inputs == "float x":
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    assert sizes(canonical(proto, shapes=given)) == expected


def test_a_symbol_has_one_size_in_all_inputs() -> None:
    net = Net()
    both = net.op("Add (x, y)")
    proto = net.model("float[N, C] x, float[N, C] y", net.coded(both))
    assert sizes(canonical(proto, shapes={"x": (2, 7)})) == [2, 7]
    with pytest.raises(UsageError, match=r"'C' 8, elsewhere it is 7"):
        canonical_qdq(ir.from_proto(proto), {"x": (2, 7), "y": (2, 8)})


def test_a_symbol_that_says_nothing_binds_nothing() -> None:
    proto = relu("float[1, 3, H, W] x")
    for axis in (2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "?"
    assert sizes(canonical(proto, shapes={"x": (1, 3, 48, 192)})) == [1, 3, 48, 192]


def test_open_axes_are_all_named() -> None:
    net = Net()
    proto = net.model(
        "float[N, 3, height, width] x, float[N, L] y", net.coded(net.op("Relu (x)")), net.op("Relu (y)")
    )
    proto.graph.input[1].type.tensor_type.shape.dim[1].ClearField("dim_param")
    with pytest.raises(UnsupportedModelError) as refusal:
        canonical_qdq(ir.from_proto(proto), None)
    for text in ("'x' axis 2 (height)", "'x' axis 3 (width)", "'y' axis 1", "shapes={"):
        assert text in str(refusal.value)


def test_an_input_of_unknown_rank_needs_a_shape() -> None:
    proto = relu("float[N] x")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnsupportedModelError, match="'x', all of it"):
        canonical_qdq(ir.from_proto(proto), None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": (1, 3, 8, 8)}, r"'image'.*is not an input.*Inputs are x"),
        ({"x": (1, 3, 8)}, r"has 3 axes, the model has"),
        ({"x": (1, 4, 8, 8)}, r"contradicts the model's"),
        ({"x": (0, 3, 8, 8)}, r"sizes below 1"),
    ],
)
def test_given_shapes_that_do_not_fit_are_refused(given: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        canonical_qdq(ir.from_proto(relu("float[N, 3, H, W] x")), given)


def test_shape_arithmetic_folds() -> None:
    net = Net()
    x = net.coded("x")
    first = net.op(f"Gather (Shape_of, {net.constant([0], np.int64)})")
    net.lines.insert(-1, f"Shape_of = Shape ({x})")
    target = net.op(f"Concat <axis = 0> ({first}, {net.constant([-1], np.int64)})")
    model = canonical(net.model("float[N, 3, 4] x", net.coded(net.op(f"Reshape ({x}, {target})"))))
    assert op_types(model) == ["Reshape"]


def test_a_filled_constant_folds() -> None:
    net = Net()
    x = net.coded("x")
    zeros = net.op(f"ConstantOfShape <value = int64[1] {{0}}> ({net.constant([4], np.int64)})")
    ends = net.constant([0, 0, 0, 1], np.int64)
    amounts = net.op(f"Concat <axis = 0> ({zeros}, {ends})")
    model = canonical(net.model("float[1, 3, 4, 4] x", net.coded(net.op(f"Pad ({x}, {amounts})"))))
    assert op_types(model) == ["Pad"]


def test_stated_shapes_of_another_size_are_forgotten() -> None:
    net = Net()
    pooled = net.op("MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)")
    proto = net.model("float[N, 3, H, W] x", net.coded(net.op(f"Relu ({pooled})")))
    stale = onnx.helper.make_tensor_value_info(pooled, onnx.TensorProto.FLOAT, [1, 3, 112, 112])
    proto.graph.value_info.append(stale)
    assert sizes(canonical(proto, shapes={"x": (1, 3, 8, 8)})) == [1, 3, 4, 4]


def test_sizes_that_depend_on_the_data_are_refused() -> None:
    model = graph("float[2, 5] x", "int64[2, N] y", "r = Relu(x) y = NonZero(r)")
    with pytest.raises(UnsupportedModelError, match=r"'y' of NonZero 'y'"):
        canonical_qdq(model, None)


def test_nodes_without_effect_vanish() -> None:
    net = Net()
    x = net.op(f"Identity ({net.coded('x')})")
    x = net.op(f"Cast <to = 1> ({net.op(f'Dropout ({x})')})")
    model = canonical(net.model("float[1, 8] x", net.coded(net.op(f"Identity ({net.op(f'Sigmoid ({x})')})"))))
    assert op_types(model) == ["Sigmoid"]


def test_the_name_of_an_output_survives_its_identity() -> None:
    net = Net()
    value = net.coded("x")
    model = canonical(
        net.model("float[1, 8] x", net.op(f"Identity ({net.op(f'Neg ({value})')})"), net.op("Identity (x)"))
    )
    assert op_types(model) == ["Neg", "Identity"]
    assert node_of(model, "Identity").inputs[0] is model.graph.inputs[0]


def test_a_dropout_that_must_stay_is_an_identity() -> None:
    net = Net()
    model = canonical(net.model("float[1, 8] x", net.op("Dropout (x)"), net.coded("x")))
    assert op_types(model) == ["Identity"]


def test_nodes_without_names_get_one_of_their_own() -> None:
    net = Net()
    proto = net.model("float[1, 8] x", net.coded(net.op(f"Relu ({net.coded('x')})"), 0.03))
    for node in proto.graph.node:
        node.name = ""
    canonical(proto)
