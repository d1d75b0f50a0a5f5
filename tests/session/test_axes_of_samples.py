"""Which axis of an input counts samples, known to sessions, to plans in files and to plans that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from kept_models import folder as folder
from session_models import quantized

import calib8
from calib8 import InferenceSession
from calib8.data.reading import Reading
from calib8.engine.plan_file import load_plan
from calib8.errors import DataError
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.tensors import UNTOLD
from small_models import normal, onnx_model

SAMPLES, STEPS, WIDTH, UNITS = 7, 5, 4, 6
X = normal(SAMPLES, STEPS, WIDTH, seed=1)
FORMS: dict[str, Any] = {
    "array": X,
    "named array": {"x": X},
    "list": list(X),
    "list of named": [{"x": sample[:, None]} for sample in X],
    "labelled": [(sample, 0) for sample in X],
}


def network(shape: str, body: str = "") -> onnx.ModelProto:
    """x [T, N, 4] → what ``body`` makes ``s`` of it → GRU → y."""
    constants: dict[str, npt.NDArray[Any]] = {
        "w": normal(1, 3 * UNITS, WIDTH, seed=2),
        "r": normal(1, 3 * UNITS, UNITS, seed=3),
        "flat": np.array([-1, WIDTH]),
        "sizes": np.array([STEPS, -1, WIDTH]),
        "m": np.eye(WIDTH, dtype=np.float32),
    }
    layer = f"y = GRU<hidden_size={UNITS}>({'s' if body else 'x'}, w, r)"
    return onnx_model(f"float[{shape}] x", f"float[A,1,B,{UNITS}] y", f"{body} {layer}", constants)


def int8_file(proto: onnx.ModelProto, path: Path) -> Path:
    made = calib8.quantize(proto, X[:, :, None], target="calib8", effort="fast", threads=1)
    made.save(path)
    return path


def samples(data: Any, inputs: Any) -> list[npt.NDArray[Any]]:
    return [sample.inputs["x"] for sample in Reading(data, threads=1).opened(inputs)]


def test_data_for_a_plan_are_read_as_for_its_model(folder: Path, tmp_path: Path) -> None:
    proto = network("5,1,4")
    model = int8_file(proto, tmp_path / "int8.onnx")
    first, kept = InferenceSession(model), InferenceSession(model)
    assert list(folder.glob("*.c8"))
    first.save(tmp_path / "a.c8")
    kept.save(tmp_path / "b.c8")
    assert (tmp_path / "a.c8").read_bytes() == (tmp_path / "b.c8").read_bytes()
    plan = InferenceSession(tmp_path / "a.c8")
    plan.save(tmp_path / "c.c8")
    assert load_plan(tmp_path / "c.c8").inputs[0].counted == 1
    for name, data in FORMS.items():
        for inputs in (graph_inputs(load_model(proto)), first.inputs, kept.inputs, plan.inputs):
            found = samples(data, inputs)
            assert len(found) == SAMPLES, name
            np.testing.assert_array_equal(np.stack(found), X[:, :, None], err_msg=name)
        assert calib8.evaluate([tmp_path / "a.c8"], data, runtime="calib8", threads=1)[0].images == SAMPLES


@pytest.mark.parametrize("shape", ["T,N,4", "steps,batch,4"])
def test_names_of_axes_tell_it_too(shape: str, tmp_path: Path) -> None:
    model = int8_file(network(shape), tmp_path / "int8.onnx")
    calib8.compile(model, tmp_path / "a.c8", shapes={"x": (STEPS, 1, WIDTH)})
    assert load_plan(tmp_path / "a.c8").inputs[0].counted == 1


def test_what_nothing_tells_is_told_as_that(tmp_path: Path) -> None:
    """Axes are lost in the Reshape: what can only be a guess is refused for the plan too."""
    lost = "f = Reshape(x, flat) g = MatMul(f, m) s = Reshape(g, sizes)"
    model = int8_file(network("5,1,4", lost), tmp_path / "int8.onnx")
    calib8.compile(model, tmp_path / "a.c8")
    assert load_plan(tmp_path / "a.c8").inputs[0].counted == UNTOLD
    for session in (InferenceSession(model), InferenceSession(tmp_path / "a.c8")):
        np.testing.assert_array_equal(np.stack(samples(X[:, :, None], session.inputs)), X[:, :, None])
        with pytest.raises(DataError, match=r"Give a list of \{'x': array\} with the axes of the model"):
            samples(list(X), session.inputs)


def test_the_first_axis_is_not_stored(tmp_path: Path) -> None:
    InferenceSession(quantized()).save(tmp_path / "a.c8")
    assert b"counted" not in (tmp_path / "a.c8").read_bytes()
