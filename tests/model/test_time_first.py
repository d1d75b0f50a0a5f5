"""Recurrent layers of layout 1: what NumPy computes of the transposed arrays, wherever such a model goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper

import calib8
from calib8.errors import ModelError
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.states import states_of
from calib8.program.ops.cells import Cell
from calib8.program.ops.recurrent import computed

sys.path.append(str(Path(__file__).parents[1] / "program"))
from recurrent_cells import Layer, onnx_model, random_layer, random_sequences

Array = npt.NDArray[Any]
CELLS: tuple[Cell, ...] = ("LSTM", "GRU", "RNN")
SWAPPED = ("x", "h", "c")


def batch_first(layer: Layer) -> onnx.ModelProto:
    """The layer with samples in front; ONNX Runtime has no kernel for it."""
    proto = onnx_model(layer)
    proto.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    for port in proto.graph.input:
        if port.name in SWAPPED:
            first, second = (port.type.tensor_type.shape.dim[axis].dim_value for axis in (0, 1))
            port.type.tensor_type.shape.dim[0].dim_value = second
            port.type.tensor_type.shape.dim[1].dim_value = first
    return proto


def swapped(feeds: dict[str, Array]) -> dict[str, Array]:
    return {name: array.swapaxes(0, 1).copy() if name in SWAPPED else array for name, array in feeds.items()}


def in_numpy(layer: Layer, feeds: dict[str, Array]) -> list[Array]:
    """Y [N, T, D, H] and the last states [N, D, H]."""
    step = layer.step
    rows = computed(step, [feeds[name] for name in ("x", *step.extras)], layer.exact)
    last = len(rows) - (2 if step.cell == "LSTM" else 1)
    return [
        rows[:last].transpose(2, 0, 1, 3),
        *(rows[place].swapaxes(0, 1) for place in range(last, len(rows))),
    ]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(6))
def test_the_values_are_those_of_the_transposed_layer(seed: int, cell: Cell, tmp_path: Path) -> None:
    rng = np.random.default_rng((61, seed))
    layer = random_layer(rng, cell, (int(rng.integers(1, 6)), int(rng.integers(1, 4)), 5, 4))
    feeds = random_sequences(layer.program, rng)
    proto = batch_first(layer)
    onnx.save(proto, tmp_path / "a.onnx")
    with pytest.raises(Exception, match="layout"):
        open_session(proto.SerializeToString())
    wanted = in_numpy(layer, feeds)
    for session in (open_session(load_model(proto)), open_session(tmp_path / "a.onnx")):
        assert [spec.name for spec in session.outputs][: len(wanted)] == ["Y", "Y_h", "Y_c"][: len(wanted)]
        for found, expected in zip(session.run(swapped(feeds)), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def reader(op: str, states: bool) -> onnx.ModelProto:
    """x [2, 5, 6] → a layer of layout 1 → a product → y [2, 5, 3]; with ``states`` h [2, 1, 4] → hn."""
    rng = np.random.default_rng(3)
    rows = {"LSTM": 16, "GRU": 12, "RNN": 4}[op]
    shapes = {"W": (1, rows, 6), "R": (1, rows, 4), "V": (4, 3)}
    constants = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32) / 2, name)
        for name, shape in shapes.items()
    ]
    constants.append(onnx.numpy_helper.from_array(np.array([2]), "axes"))
    inputs = ["x", "W", "R", *(["", "", "h"] if states else [])]
    nodes = [
        helper.make_node(op, inputs, ["Y", "hn"], "cell", hidden_size=4, layout=1),
        helper.make_node("Squeeze", ["Y", "axes"], ["flat"], "squeeze"),
        helper.make_node("MatMul", ["flat", "V"], ["y"], "head"),
    ]
    ports = {"x": [2, 5, 6], "h": [2, 1, 4], "y": [2, 5, 3], "hn": [2, 1, 4]}
    values = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in ports.items()
    }
    reads, writes = (("x", "h"), ("y", "hn")) if states else (("x",), ("y",))
    graph = helper.make_graph(
        nodes, "reader", [values[name] for name in reads], [values[name] for name in writes], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples(count: int, seed: int = 1) -> list[dict[str, Array]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((2, 5, 6), np.float32)} for _ in range(count)]


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("LSTM", {"target": "calib8"}),
        ("GRU", {"target": "calib8", "recurrent": "integer"}),
        ("RNN", {"target": "onnxruntime"}),
    ],
)
def test_such_a_model_is_quantized_and_judged(op: str, words: dict[str, Any], tmp_path: Path) -> None:
    onnx.save(reader(op, states=False), tmp_path / "a.onnx")
    made = calib8.quantize(tmp_path / "a.onnx", samples(24), effort="fast", threads=1, **words)
    made.save(tmp_path / "q.onnx")
    coded = made.placement.quantized_nodes()
    assert "head" in coded and ("cell" in coded) == (words["target"] == "calib8")
    [fp32, int8] = calib8.evaluate([tmp_path / "a.onnx", tmp_path / "q.onnx"], samples(8, seed=2), threads=1)
    assert int8.sqnr_db is not None and int8.sqnr_db > 25 and fp32.sqnr_db is None
    [expected] = open_session(tmp_path / "a.onnx").run(samples(1)[0])
    for found in (
        onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, samples(1)[0])[0],
        calib8.InferenceSession(tmp_path / "q.onnx").run(None, samples(1)[0])[0],
    ):
        assert found.shape == (2, 5, 3) and np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def test_its_states_are_found_and_carried(tmp_path: Path) -> None:
    proto = reader("GRU", states=True)
    assert states_of(load_model(proto), None) == {"h": "hn"}
    frames = [sample["x"] for sample in samples(30)]
    made = calib8.quantize(proto, [{"x": one} for one in frames], target="calib8", effort="fast", threads=1)
    made.save(tmp_path / "q.onnx")
    session, state = calib8.InferenceSession(tmp_path / "q.onnx"), np.zeros((2, 1, 4), np.float32)
    assert [one.name for one in session.get_states()] == ["h"]
    for frame in frames[:6]:
        expected, state = open_session(load_model(proto)).run({"x": frame, "h": state})
        [found] = session.run(None, {"x": frame})
        assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("value", [2, -1])
def test_other_layouts_are_refused(value: int, tmp_path: Path) -> None:
    proto = reader("GRU", states=False)
    [attribute] = [one for one in proto.graph.node[0].attribute if one.name == "layout"]
    attribute.i = value
    onnx.save(proto, tmp_path / "a.onnx")
    told = rf"a\.onnx: GRU 'cell' has layout {value}; ONNX has 0 and 1\. Export it again with layout 0\."
    for open_it in (load_model, open_session):
        with pytest.raises(ModelError, match=told):
            open_it(tmp_path / "a.onnx")
    with pytest.raises(ModelError, match=told):
        calib8.quantize(tmp_path / "a.onnx", samples(4), target="calib8", effort="fast")


def test_in_a_branch() -> None:
    """The body of an If has its own nodes and names."""
    body = reader("LSTM", states=False).graph
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 5, 3])
    other = helper.make_graph([helper.make_node("Identity", ["zeros"], ["y"], "none")], "other", [], [output])
    branch = helper.make_graph(list(body.node), "branch", [], [output])
    node = helper.make_node("If", ["whether"], ["y"], "if", then_branch=branch, else_branch=other)
    inputs = [body.input[0], helper.make_tensor_value_info("whether", onnx.TensorProto.BOOL, [])]
    zeros = onnx.numpy_helper.from_array(np.zeros((2, 5, 3), np.float32), "zeros")
    graph = helper.make_graph([node], "g", inputs, [output], [*body.initializer, zeros])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    [expected] = open_session(load_model(reader("LSTM", states=False))).run(samples(1)[0])
    session = open_session(load_model(proto))
    [found] = session.run({**samples(1)[0], "whether": np.array(True)})
    np.testing.assert_array_equal(found, expected)
    fixed = calib8.quantize(
        proto, samples(8), target="calib8", fix={"whether": True}, effort="fast", threads=1
    )
    assert "if_cell" in fixed.placement.quantized_nodes()
