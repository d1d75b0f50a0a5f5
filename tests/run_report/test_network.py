"""The network behind a QDQ graph: nothing of codes in it, precisions as they were decided."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.quantization.qdq import label, readable_copy
from calib8.run_report.network import network_of
from small_nets import clean, concat, conv_chain, heads, residual, squeeze_excite

NETS = {"conv_chain": conv_chain, "residual": residual, "concat": concat, "heads": heads,
        "squeeze_excite": squeeze_excite}  # fmt: skip


def opened(proto: onnx.ModelProto) -> ir.Model:
    return readable_copy(ir.from_proto(proto))


@pytest.mark.parametrize("name", NETS)
def test_nothing_of_codes_is_left_and_edges_point_forwards(name: str) -> None:
    model = opened(clean(name, "onnxruntime"))
    found = network_of(model)
    plain = [label(n) for n in model.graph if n.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    assert [part.name for part in found.parts if part.node is not None] == plain
    assert [part.name for part in found.parts if part.node is None] == [v.name for v in model.graph.inputs]
    for place, part in enumerate(found.parts):
        assert all(other < place for other in part.before)
        assert {t for other in part.before for t in found.parts[other].yields} >= set(part.reads)
        assert bool(part.before) == (part.node is not None)


@pytest.mark.parametrize("name", NETS)
def test_the_graph_tells_what_was_decided(name: str) -> None:
    proto = NETS[name]()
    size = [8, *(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    data = np.random.default_rng(0).normal(size=size).astype(np.float32)
    made = calib8.quantize(proto, data, repair=("none",), method="minmax")
    decided = {one.node: one.quantized for one in made.placement.decisions}
    model = readable_copy(made.model)
    told = {part.name: part.precision for part in network_of(model).parts if part.name in decided}
    assert told == {node: "int8" if coded else "float" for node, coded in decided.items() if node in told}
    assert len(told) == len(decided)
    turned = {node: not coded for node, coded in decided.items()}
    other = {part.name: part.precision for part in network_of(model, turned).parts if part.name in decided}
    assert all((told[node] == "int8") != (other[node] == "int8") for node in told)


def test_a_float_graph_is_in_float_and_keeps_its_edges() -> None:
    found = network_of(opened(residual()))
    assert {part.precision for part in found.parts} == {"float", "input"}
    assert found.codes == {}
    joins = [part for part in found.parts if part.op == "Add"]
    assert joins and all(len(part.before) == 2 for part in joins)


def test_tensors_have_the_codes_that_quantizers_give_them() -> None:
    model = opened(clean("residual", "onnxruntime"))
    found = network_of(model)
    readers = {n.inputs[0].name or "" for n in model.graph if n.op_type == "QuantizeLinear"}
    assert set(found.codes) == {name.removesuffix("/float") for name in readers}
    assert any(name.endswith("/float") for name in readers)  # an output, called as in the float model
