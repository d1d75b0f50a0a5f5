"""Constants with more or fewer values than their shape says: an error that names file and constant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from calib8.errors import ModelError, UnsupportedModelError
from calib8.model.load import load_model


def _append(tensor: TensorProto, data: bytes) -> None:
    tensor.raw_data += data


def _floats(tensor: TensorProto, count: int) -> None:
    tensor.ClearField("raw_data")
    tensor.float_data[:] = [1.0] * count


CHANGES: dict[str, Callable[[TensorProto], object]] = {
    "a byte more": lambda tensor: _append(tensor, b"x"),
    "a value more": lambda tensor: _append(tensor, bytes(4)),
    "a value less": lambda tensor: tensor.dims.append(2),
    "fewer dimensions": lambda tensor: tensor.dims.__delitem__(0),
    "negative": lambda tensor: tensor.dims.__setitem__(0, -1),
    "too large": lambda tensor: tensor.dims.__setitem__(0, 1 << 62),
    "too many floats": lambda tensor: _floats(tensor, 7),
    "too few floats": lambda tensor: _floats(tensor, 5),
}


def model(where: str) -> tuple[onnx.ModelProto, TensorProto]:
    """A sum with a constant, and that constant."""
    weight = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "weight")
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xyz")
    add = helper.make_node("Add", ["x", "weight"], ["y"])
    if where == "initializer":
        graph = helper.make_graph([add], "net", [x], [y], [weight])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return proto, proto.graph.initializer[0]
    constant = helper.make_node("Constant", [], ["weight"], value=weight)
    if where == "node":
        graph = helper.make_graph([constant, add], "net", [x], [y])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return proto, proto.graph.node[0].attribute[0].t
    then = helper.make_graph([add], "then", [], [y], [weight])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["w"])], "other", [], [
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3])
    ])  # fmt: skip
    choice = helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=other)
    flag = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([choice], "net", [x, flag], [z])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return proto, next(a.g for a in proto.graph.node[0].attribute if a.name == "then_branch").initializer[0]


@pytest.mark.parametrize("where", ["initializer", "node", "branch"])
@pytest.mark.parametrize("change", CHANGES)
def test_constants_of_another_size_are_named(change: str, where: str, tmp_path: Path) -> None:
    proto, tensor = model(where)
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    load_model(path)
    CHANGES[change](tensor)
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"net\.onnx: .*weight") as refused:
        load_model(path)
    assert refused.value.cure.startswith("Export")


@pytest.mark.parametrize(
    "dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.BFLOAT16, TensorProto.BOOL]
)
def test_small_types_are_whole(dtype: int) -> None:
    """Codes of four bits share bytes: 5 of them take 3."""
    tensor = helper.make_tensor("weight", dtype, [5], [1, 0, 1, 1, 0])
    raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), "raw")
    y = helper.make_tensor_value_info("y", dtype, [5])
    node = helper.make_node("Identity", ["weight"], ["y"])
    graph = helper.make_graph([node], "net", [], [y], [tensor, raw])
    load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.parametrize("name", ["Other", "other"])
def test_names_that_are_no_text_are_refused(tmp_path: Path, name: str) -> None:
    """Those of a node and of its op; protobuf itself would not write them."""
    proto, _ = model("initializer")
    proto.graph.node[0].name = "other"
    proto.graph.node[0].op_type = "Relu" if name == "other" else "Other"
    del proto.graph.node[0].input[1 if name == "other" else 2 :]
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString().replace(name.encode(), b"\xff" * 5))
    with pytest.raises(ModelError, match=r"net\.onnx"):
        load_model(path)


@pytest.mark.parametrize("where", ["initializer", "node"])
@pytest.mark.parametrize("shape", [(0, 3, 3, 3), (4, 0, 3, 3), (4, 3, 0, 3)])
def test_weights_without_channels_are_refused(where: str, shape: tuple[int, ...]) -> None:
    """ONNX Runtime ended with a fault once such a layer had codes."""
    weight = onnx.numpy_helper.from_array(np.zeros(shape, np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="c")]
    if where == "node":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    graph = helper.make_graph(nodes, "net", [x], [y], [weight] if where == "initializer" else [])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match=r"'w' of 'c' \(Conv\) has the shape .*nothing to compute"):
        load_model(proto)


def calling(levels: int, calls: int) -> onnx.ModelProto:
    """Functions that call the next one so many times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(levels):
        op, domain = (f"f{level + 1}", "own") if level + 1 < levels else ("Relu", "")
        names = ["a", *(f"t{number}" for number in range(calls - 1)), "b"]
        nodes = [
            helper.make_node(op, names[i : i + 1], names[i + 1 : i + 2], domain=domain) for i in range(calls)
        ]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["b"], nodes, opsets))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="own")], "net", [x], [y])
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(("levels", "calls"), [(30, 2), (6, 10), (3000, 1)])
def test_functions_that_become_too_many_nodes_are_refused(levels: int, calls: int) -> None:
    with pytest.raises(UnsupportedModelError, match="its functions make more than 100,000 nodes"):
        load_model(calling(levels, calls))


def test_functions_of_some_nodes_pass() -> None:
    assert load_model(calling(4, 3)).graph.num_nodes() >= 1


def test_sparse_constants_are_refused() -> None:
    """onnx_ir passes over them."""
    proto, _ = model("initializer")
    dense = proto.graph.initializer.pop()
    values = helper.make_tensor(dense.name, TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [0, 4])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
    with pytest.raises(UnsupportedModelError, match=r"holds the sparse constant 'weight'\."):
        load_model(proto)
