"""Sessions: specs of inputs and outputs, results by name, and ONNX Runtime's refusals in one line."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from calib8.errors import DataError, ModelError
from calib8.model.load import load_model
from calib8.model.runtime import open_session, run_each
from calib8.tensors import TensorSpec
from small_models import normal, onnx_model, ops_in_file, relative_difference, run


def small_model() -> onnx.ModelProto:
    body = "c = Conv<pads=[1,1,1,1]>(x, w) y = Relu(c) z = Neg(y)"
    outputs = "float[N,4,8,8] y, float[N,4,8,8] z"
    return onnx_model("float[N,3,8,8] x", outputs, body, {"w": normal(4, 3, 3, 3)})


FEEDS = {"x": normal(2, 3, 8, 8, seed=3)}


def test_a_graph_and_a_file_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path)
    for source in (load_model(path), path, str(path)):
        session = open_session(source, threads=1)
        assert relative_difference(run(small_model(), FEEDS), session.run(FEEDS)) < 1e-6
        assert session.inputs == (TensorSpec("x", np.dtype(np.float32), ("N", 3, 8, 8)),)
        assert [spec.name for spec in session.outputs] == ["y", "z"]


def test_scalars_are_written_into_scalars() -> None:
    session = open_session(load_model(onnx_model("float x", "float y", "y = Neg(x)")), threads=1)
    result = np.zeros((), np.float32)
    session.run_into({"x": np.array(2.5, np.float32)}, {"y": result})
    assert result == -2.5


def test_outputs_are_given_in_the_order_asked_for() -> None:
    session = open_session(load_model(small_model()), threads=1)
    [z, y] = session.run(FEEDS, ["z", "y"])
    np.testing.assert_array_equal(z, -y)
    [only] = session.run(FEEDS, ["z"])
    np.testing.assert_array_equal(only, z)


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"wrong": FEEDS["x"]},
        {"x": FEEDS["x"].astype(np.float64)},
        {"x": FEEDS["x"][:, :2]},
        {"x": FEEDS["x"][0]},
        {"x": FEEDS["x"], "more": FEEDS["x"]},
    ],
)
def test_what_does_not_fit_is_a_data_error_that_names_both_sides(feeds: dict[str, np.ndarray]) -> None:
    session = open_session(load_model(small_model()), threads=1)
    with pytest.raises(DataError, match="The model takes x: float32 N×3×8×8") as caught:
        session.run(feeds)
    for name, array in feeds.items():
        assert f"{name} {array.dtype}{list(array.shape)}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_output_that_does_not_exist_is_a_data_error() -> None:
    with pytest.raises(DataError, match="nobody"):
        open_session(load_model(small_model()), threads=1).run(FEEDS, ["nobody"])


def test_a_model_that_cannot_run_is_a_model_error(tmp_path: Path) -> None:
    proto = small_model()
    proto.graph.node[1].domain = "com.example"
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    for source in (path, load_model(proto)):
        with pytest.raises(ModelError, match="ONNX Runtime cannot load it"):
            open_session(source)
    with pytest.raises(ModelError, match=r"none\.onnx"):
        open_session(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ModelError, match=r"text\.onnx"):
        open_session(tmp_path / "text.onnx")


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_runs_side_by_side_come_in_their_order(threads: int) -> None:
    model, alone = load_model(small_model()), open_session(load_model(small_model()), threads=1)
    runs = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(7)]
    found = list(run_each(model, runs, threads=threads))
    assert len(found) == len(runs)
    for feeds, outputs in zip(runs, found, strict=True):
        for left, right in zip(alone.run(feeds), outputs, strict=True):
            np.testing.assert_array_equal(left, right)
    assert list(run_each(model, [], threads=threads)) == []


def test_a_run_that_fails_is_told_in_its_turn_and_the_rest_can_be_left() -> None:
    model = load_model(small_model())
    going = run_each(model, [FEEDS, FEEDS, {}, FEEDS], threads=2)
    assert len(next(going)) == len(next(going)) == 2
    with pytest.raises(DataError, match="The model takes x: float32"):
        next(going)
    left = run_each(model, [FEEDS] * 50, threads=2)
    next(left)
    left.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("calib8-run")]


def test_types_and_unknown_shapes_are_reported() -> None:
    kinds = {
        "a": (TensorProto.DOUBLE, np.float64),
        "b": (TensorProto.INT64, np.int64),
        "c": (TensorProto.BOOL, np.bool_),
        "d": (TensorProto.STRING, np.object_),
        "e": (TensorProto.UINT8, np.uint8),
        "f": (TensorProto.FLOAT16, np.float16),
    }
    inputs = [helper.make_tensor_value_info(name, kind, [None, "M", 2]) for name, (kind, _) in kinds.items()]
    nodes = [helper.make_node("Shape", [name], [f"{name}_shape"]) for name in kinds]
    outputs = [helper.make_tensor_value_info(f"{name}_shape", TensorProto.INT64, [3]) for name in kinds]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = open_session(load_model(model))
    assert {spec.name: spec.dtype for spec in session.inputs} == {
        n: np.dtype(k) for n, (_, k) in kinds.items()
    }
    assert session.inputs[0].shape == (None, "M", 2)


def test_the_optimized_graph_can_be_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "optimized.onnx"
    open_session(load_model(small_model()), threads=1, save_optimized=str(path))
    assert ops_in_file(path)["Relu"] == 0
