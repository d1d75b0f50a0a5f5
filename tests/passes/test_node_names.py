"""A node goes by its own name, by the name it had in the model, and by what it yields."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from calib8.errors import UsageError
from calib8.passes.prepare import PreparedModel, prepare
from small_models import normal, onnx_model

BODY = """
c = Conv(x, w)
n = BatchNormalization(c, one, zero, zero, one)
s = Add(n, three)
k = Clip(s, low, high)
h = Mul(n, k)
d = Div(h, six)
i = Identity(d)
size = Shape(i)
wide = Reshape(i, size)
y = Conv(wide, w2)
"""

CONSTANTS = {
    "w": normal(4, 3, 1, 1, seed=1), "w2": normal(2, 4, 1, 1, seed=2), "one": np.ones(4, np.float32),
    "zero": np.zeros(4, np.float32), "three": np.float32(3.0), "low": np.float32(0.0),
    "high": np.float32(6.0), "six": np.float32(6.0),
}  # fmt: skip


def net(*, named: bool) -> onnx.ModelProto:
    proto = onnx_model("float[N,3,4,4] x", "float[N,2,4,4] y", BODY, CONSTANTS)
    for node in proto.graph.node:
        node.name = f"{node.output[0]} node" if named else ""
    return proto


def prepared(proto: onnx.ModelProto) -> PreparedModel:
    return prepare(ir.from_proto(proto), {"x": normal(1, 3, 4, 4, seed=3)})


def yields(found: PreparedModel, name: str) -> str | None:
    """The tensor of the one node that a name asks for."""
    [node] = found.nodes_called([name])
    return next(one.outputs[0].name for one in found.model.graph if one.name == node)


@pytest.mark.parametrize(
    ("asked", "found"),
    [("c", "n"), ("n", "n"), ("s", "d"), ("k", "d"), ("h", "d"), ("d", "d"), ("y", "y")],
)
def test_a_node_of_the_model_is_the_node_that_does_its_work(asked: str, found: str) -> None:
    ops = {node.output[0]: node.op_type for node in net(named=False).graph.node}
    assert yields(prepared(net(named=True)), f"{asked} node") == found
    without = prepared(net(named=False))
    assert yields(without, f"{ops[asked]} of '{asked}'") == yields(without, asked) == found


def test_names_of_the_prepared_graph_come_first() -> None:
    proto = net(named=True)
    proto.graph.node[0].name, proto.graph.node[-1].name = "y", "other"  # 'y' is a tensor of 'other' too
    found = prepared(proto)
    assert found.nodes_called(["y"]) == {next(n.name for n in found.model.graph if n.op_type == "Conv")}
    assert yields(found, "y") == "n" and yields(found, "other") == "y"


@pytest.mark.parametrize("gone", ["i node", "size node", "size", "nobody", "", "x", "w"])
def test_what_computes_nothing_any_more_cannot_be_asked_for(gone: str) -> None:
    with pytest.raises(UsageError, match=f"keep_float: the model has no node '{gone}'.*calib8 inspect"):
        prepared(net(named=True)).nodes_called(["y", gone])


def test_a_fused_node_has_a_name_of_the_model() -> None:
    found = prepared(net(named=True))
    fused = next(node for node in found.model.graph if node.op_type == "HardSwish")
    assert (fused.name, fused.outputs[0].name) == ("d node", "d")
