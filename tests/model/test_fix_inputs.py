"""Inputs that a user fixes: constants with the type and shape of the input, or one line that says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import UsageError
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.modules.fixed_files import fixed_files
from small_models import normal, onnx_model, run

X = normal(2, 4)


def scaled() -> onnx.ModelProto:
    body = "d = Mul(x, gain) e = Mul(d, row) y = MatMul(e, w)"
    inputs = "float[N,4] x, float gain, float[1,4] row, int64 unused"
    return onnx_model(inputs, "float[N,2] y", body, {"w": normal(4, 2)})


def test_a_fixed_input_computes_what_a_fed_one_does() -> None:
    row = np.arange(4, dtype=np.float32)[None]
    model = load_model(with_fixed(scaled(), {"gain": 2, "row": row.tolist(), "unused": 5}))
    assert [spec.name for spec in graph_inputs(model)] == ["x"]
    fed = {"x": X, "gain": np.array(2, np.float32), "row": row, "unused": np.array(5)}
    assert np.array_equal(run(model, {"x": X})[0], run(scaled(), fed)[0])


def test_a_number_fills_the_input_and_the_original_stays_as_it_is() -> None:
    original = load_model(scaled())
    model = load_model(with_fixed(original, {"row": 3}))
    constant = model.graph.initializers["row"].const_value
    assert constant is not None and np.array_equal(constant.numpy(), np.full((1, 4), 3, np.float32))
    assert len(graph_inputs(original)) == 4
    assert with_fixed(original, None) is original
    assert with_fixed(model, {"row": 3}) is model  # a second step finds it done


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"rate": 1}, "fix of 'rate': is not an input. Inputs are x, gain, row, unused"),
        ({"unused": 1.5}, "fix of 'unused': 1.5 is no value of int64"),
        ({"row": [1, 2]}, "fix of 'row': has the shape 2. Give an array, row: float32 1×4"),
        ({"gain": "a"}, "fix of 'gain': 'a' is no number"),
        ({"gain": [[1], [2, 3]]}, "is no number"),
        ({"x": 1, "gain": 1, "row": 1, "unused": 1}, "leaves no input of the model"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_fixed(scaled(), values)
    assert told in str(caught.value)


def test_files_are_written_for_the_models_that_have_the_input(tmp_path: Path) -> None:
    onnx.save(scaled(), tmp_path / "a.onnx")
    onnx.save(onnx_model("float[N,4] x", "float[N,4] y", "y = Relu(x)"), tmp_path / "b.onnx")
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    found = fixed_files(paths, {"gain": 2, "row": 1, "unused": 0}, tmp_path / "made")
    assert found[paths[1]] == paths[1] and found[paths[0]] != paths[0]
    assert [spec.name for spec in graph_inputs(load_model(found[paths[0]]))] == ["x"]
    with pytest.raises(UsageError, match="no model has the input 'rate'"):
        fixed_files(paths, {"rate": 2}, tmp_path / "other")


def test_the_whole_way_from_quantize_to_a_run_and_its_figures(tmp_path: Path) -> None:
    path, fix = tmp_path / "a.onnx", {"gain": 2, "row": 1, "unused": 0}
    onnx.save(scaled(), path)
    data = {"x": normal(64, 4, seed=3)}
    calib8.quantize(path, data, fix=fix, effort="fast").save(tmp_path / "q.onnx")
    session = calib8.InferenceSession(tmp_path / "q.onnx")
    assert [one.name for one in session.get_inputs()] == ["x"]
    floats, codes = calib8.evaluate([path, tmp_path / "q.onnx"], data, fix=fix)
    assert floats.model == str(path)
    assert codes.sqnr_db is not None and codes.sqnr_db > 25
    assert calib8.compare(path, tmp_path / "q.onnx", data, fix=fix).outputs.sqnr_db > 25
    assert [spec.name for spec in calib8.inspect(path, fix=fix).model.inputs] == ["x"]  # type: ignore[union-attr]
