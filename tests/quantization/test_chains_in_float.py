"""A chain of functions of one tensor is float or int8 as one, whoever asks for one of its nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from quantized_models import CONV, ORT, seen_ranges

import calib8
from calib8.formats.bind import bind, without_range
from calib8.formats.table_file import TableFile
from calib8.model.load import load_model
from calib8.passes.place import NodeDecision, place
from calib8.passes.prepare import prepare
from calib8.quantization.quantize import QuantizedGraph, quantize_graph
from calib8.repair.units import units_of
from calib8.table import CalibrationTable
from small_models import normal, onnx_model, run

FEEDS = {"x": normal(4, 3, 8, 8, seed=9)}
NODES = ("h", "m", "t", "n")


def wide_net() -> onnx.ModelProto:
    """Channels of very different size between the functions: codes there would destroy the small ones."""
    constants = {
        "w": normal(8, 3, 3, 3),
        "u": normal(8, 8, 3, 3, seed=1),
        "wide": np.geomspace(0.01, 1, 8, dtype=np.float32).reshape(1, 8, 1, 1),
        "narrow": np.geomspace(100, 1, 8, dtype=np.float32).reshape(1, 8, 1, 1),
    }
    body = f"""c = {CONV}(x, w) h = HardSwish(c) m = Mul(h, wide) t = LeakyRelu(m) n = Mul(t, narrow)
               y = {CONV}(n, u)"""
    model = onnx_model("float[N,3,8,8] x", "float[N,8,8,8] y", body, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model


@pytest.fixture(scope="module")
def prepared() -> ir.Model:
    return prepare(load_model(wide_net()), FEEDS).model


@pytest.fixture(scope="module")
def table(prepared: ir.Model) -> CalibrationTable:
    return seen_ranges(prepared, FEEDS)


def with_floats(prepared: ir.Model, table: CalibrationTable, *floats: str) -> QuantizedGraph:
    return quantize_graph(prepared, table, ORT, frozenset(floats))


def error(prepared: ir.Model, found: QuantizedGraph) -> float:
    return float(np.sum(np.square(run(found.model, FEEDS)[0] - run(prepared, FEEDS)[0])))


def test_some_of_a_chain_in_float_is_what_all_of_it_is(prepared: ir.Model, table: CalibrationTable) -> None:
    [expected] = run(with_floats(prepared, table).model, FEEDS)
    for number in range(1, len(NODES) + 1):
        for floats in combinations(NODES, number):
            found = with_floats(prepared, table, *floats)
            assert found.placement.quantized_nodes() == {"c", "y"}
            assert set(found.placement.readers) == {"x", "c", "n", "y"}
            assert np.array_equal(run(found.model, FEEDS)[0], expected)


@pytest.mark.parametrize("chosen", NODES)
def test_a_layer_and_some_of_the_chain_in_float_gain(
    chosen: str, prepared: ir.Model, table: CalibrationTable
) -> None:
    both = with_floats(prepared, table, "c", chosen)
    assert set(both.placement.readers) == {"n", "y"}
    assert error(prepared, both) < error(prepared, with_floats(prepared, table, "c"))
    assert error(prepared, both) < error(prepared, with_floats(prepared, table))


def test_the_reason_names_the_node_that_is_float(prepared: ir.Model) -> None:
    placement = place(prepared, ORT, frozenset({"t"}))
    found = {d.node: d for d in placement.decisions if not d.quantized}
    reason = "computed as one with 't', which is float"
    assert found["t"] == NodeDecision("t", "LeakyRelu", False, "the user keeps it in float")
    assert {found[name].reason for name in ("h", "m", "n")} == {reason}
    assert placement.chains == (NODES,)


def test_a_constant_without_codes_makes_all_of_its_chain_float() -> None:
    model = wide_net()
    spoiled = next(tensor for tensor in model.graph.initializer if tensor.name == "wide")
    values = onnx.numpy_helper.to_array(spoiled).copy()
    values[0, 0] = np.inf
    spoiled.CopyFrom(onnx.numpy_helper.from_array(values, "wide"))
    graph = load_model(onnx.shape_inference.infer_shapes(model))
    found = {d.node: d.reason for d in place(graph, ORT).decisions if not d.quantized}
    assert found.keys() == set(NODES)
    assert found["m"] == "one of its constants is empty or holds NaN or Inf"
    assert found["n"] == "computed as one with 'm', which is float"


def test_a_partial_table_leaves_a_chain_float_as_one(prepared: ir.Model, table: CalibrationTable) -> None:
    entries = {name: entry for name, entry in table.entries.items() if name != "n"}
    file = TableFile("calib8", CalibrationTable("", entries))
    binding = bind(file, prepared, load_model(wide_net()), partial=True)
    unranged = without_range(prepared, ORT, frozenset(), binding, partial=True)
    assert unranged == dict.fromkeys(("n", "y"), "the table has no range for 'n'")
    found = quantize_graph(prepared, binding.table, ORT, frozenset(), float_reasons=unranged)
    assert set(found.placement.readers) == {"x", "c"}
    reasons = {d.node: d.reason for d in found.placement.decisions if not d.quantized}
    assert reasons["n"] == "the table has no range for 'n'"
    assert reasons["h"] == "computed as one with 'n', which is float"


def test_what_a_partial_table_lacks_inside_of_a_chain_is_not_missed(
    prepared: ir.Model, table: CalibrationTable
) -> None:
    entries = {name: entry for name, entry in table.entries.items() if name not in ("h", "m", "t")}
    binding = bind(TableFile("calib8", CalibrationTable("", entries)), prepared, load_model(wide_net()))
    assert without_range(prepared, ORT, frozenset(), binding, partial=False) == {}


def test_a_chain_is_in_one_unit_of_the_search(prepared: ir.Model) -> None:
    units = units_of(prepared, place(prepared, ORT), FEEDS)
    assert [unit.nodes for unit in units] == [("c", *NODES), ("y",)]


def test_a_range_inside_of_a_chain_is_told_to_have_no_effect() -> None:
    options = {"method": "minmax", "repair": ("none",), "threads": 1}
    found = calib8.quantize(wide_net(), FEEDS["x"], ranges={"[hm]": (-9.0, 9.0), "n": (-5.0, 5.0)}, **options)
    assert found.notes == (
        "the range given for 'h', 'm' has no effect: 'h' to 'n' are computed as one; 'n' carries the codes "
        "of their result",
    )
    plain = calib8.quantize(wide_net(), FEEDS["x"], ranges={"n": (-5.0, 5.0)}, **options)
    assert plain.notes == () and plain.qparams == found.qparams


def test_a_range_of_a_tensor_without_codes_is_told_to_have_no_effect() -> None:
    found = calib8.quantize(
        wide_net(), FEEDS["x"], method="minmax", repair=("none",), target="tensorrt", threads=1,
        ranges={"c": (-9.0, 9.0)},
    )  # fmt: skip
    assert found.notes == ("the range given for 'c' has no effect: the model has no codes there",)
