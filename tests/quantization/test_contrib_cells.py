"""Hybrid LSTM for ONNX Runtime: DynamicQuantizeLSTM with the codes of the weights, beside the float node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import numpy_helper

import calib8
from calib8.analysis.inspect import inspect_model
from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.qoperator import to_qoperator
from calib8.model.load import load_model
from small_models import onnx_model, run

sys.path.append(str(Path(__file__).parents[1] / "program"))
from recurrent_cells import onnx_model as model_of_layer
from recurrent_cells import random_layer, random_sequences

Array = npt.NDArray[Any]
WORDS: dict[str, Any] = {"target": "onnxruntime", "recurrent": "hybrid", "effort": "fast", "threads": 1}
STEPS, SIZE, UNITS = 6, 8, 16


def normal(*shape: int, seed: int, by: float = 1.0) -> npt.NDArray[np.float32]:
    return (by * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def reader(op: str = "LSTM") -> onnx.ModelProto:
    """x [6, 2, 8] → a recurrent layer of both directions → a product → y [6, 2, 3]."""
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * UNITS
    constants = {
        "W": normal(2, rows, SIZE, seed=1, by=0.4),
        "R": normal(2, rows, UNITS, seed=2, by=0.25),
        "B": normal(2, 2 * rows, seed=3, by=0.1),
        "V": normal(2 * UNITS, 3, seed=4),
        "sizes": np.array([STEPS, 2, 2 * UNITS]),
    }
    body = f"""
        Y, h = {op}<hidden_size={UNITS}, direction="bidirectional">(x, W, R, B)
        T = Transpose<perm=[0, 2, 1, 3]>(Y)
        rows = Reshape(T, sizes)
        y = MatMul(rows, V)
    """
    return onnx_model(f"float[{STEPS},2,{SIZE}] x", f"float[{STEPS},2,3] y", body, constants)


def samples(count: int, seed: int = 9) -> list[dict[str, Array]]:
    return [{"x": normal(STEPS, 2, SIZE, seed=100 * seed + number)} for number in range(count)]


def sqnr(wanted: Array, found: Array) -> float:
    if np.array_equal(wanted, found):
        return np.inf
    return float(10 * np.log10(np.sum(wanted**2.0) / np.sum((wanted - found) ** 2.0)))


def test_the_node_holds_the_codes_of_the_weights() -> None:
    made = ir.to_proto(calib8.quantize(reader(), samples(8), **WORDS).model)
    [cell] = [node for node in made.graph.node if node.op_type == "DynamicQuantizeLSTM"]
    stored = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    assert "W" not in stored and "R" not in stored  # the float weights are gone
    floats = {one.name: numpy_helper.to_array(one) for one in reader().graph.initializer}
    for place, name in ((1, "W"), (2, "R")):
        codes, scale, point = (stored[cell.input[at]] for at in (place, 6 + 2 * place, 7 + 2 * place))
        weight = floats[name].transpose(0, 2, 1)
        assert codes.dtype == np.int8 and codes.shape == weight.shape
        assert scale.shape == point.shape == (2, 4 * UNITS) and not point.any()
        assert np.abs(codes * scale[:, None] - weight).max(axis=1) == pytest.approx(
            0, abs=0.51 * float(scale.max())
        )
        assert (np.abs(codes).max(axis=1) == 127).all()  # every gate of every unit has a scale of its own


def test_it_is_smaller_and_as_good_where_it_runs(tmp_path: Path) -> None:
    onnx.save(reader(), tmp_path / "a.onnx")
    found = {}
    for form in ("hybrid", None):
        made = calib8.quantize(tmp_path / "a.onnx", samples(16), **{**WORDS, "recurrent": form})
        made.save(tmp_path / f"{form}.onnx")
        [_, found[form]] = calib8.evaluate(
            [tmp_path / "a.onnx", tmp_path / f"{form}.onnx"], samples(16, seed=3), threads=1
        )
        reasons = {one.op_type: one.reason for one in made.placement.decisions if not one.quantized}
        assert ("LSTM" in reasons) == (form is None)
    floats = 2 * 4 * UNITS * (SIZE + UNITS)
    sizes = {form: (tmp_path / f"{form}.onnx").stat().st_size for form in found}
    assert sizes["hybrid"] < sizes[None] - 2 * floats  # 3 of 4 bytes less, but for scales
    assert found["hybrid"].sqnr_db > 30
    session = onnxruntime.InferenceSession(tmp_path / "hybrid.onnx")
    [wanted], [own] = run(reader(), samples(1)[0]), session.run(None, samples(1)[0])
    assert sqnr(wanted, own) > 30
    [ours] = calib8.InferenceSession(tmp_path / "hybrid.onnx").run(None, samples(1)[0])
    assert sqnr(own, ours) > 40


@pytest.mark.parametrize("seed", range(12))
def test_everything_that_a_node_may_say_is_kept(seed: int, tmp_path: Path) -> None:
    """Directions, lengths, first states, peepholes, clips, coupled gates."""
    rng = np.random.default_rng((62, seed))
    layer = random_layer(rng, "LSTM", (int(rng.integers(1, 7)), int(rng.integers(1, 4)), 12, 16))
    proto = model_of_layer(layer)
    for value, name in zip(proto.graph.output, ("Y", "Y_h", "Y_c"), strict=True):
        shape = [layer.program.slots[0].shape[0]] if name == "Y" else []
        shape += [len(layer.step.directions), layer.program.slots[0].shape[1], 16]
        value.CopyFrom(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("layout", 0))  # the op has none
    feeds = [random_sequences(layer.program, rng) for _ in range(4)]
    made = calib8.quantize(proto, feeds, **WORDS)
    assert [node.op_type for node in made.model.graph] == ["DynamicQuantizeLSTM"]
    made.save(tmp_path / "q.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    for wanted, found in zip(run(proto, feeds[0]), session.run(None, feeds[0]), strict=True):
        assert sqnr(wanted, found) > 20


@pytest.mark.parametrize("op", ["GRU", "RNN"])
def test_others_stay_float_and_are_told(op: str) -> None:
    made = calib8.quantize(reader(op), samples(8), **WORDS)
    [reason] = [one.reason for one in made.placement.decisions if one.op_type == op]
    assert reason == "the target onnxruntime has int8 weights for LSTM alone"


def test_the_default_is_float_and_names_the_form() -> None:
    made = calib8.quantize(reader(), samples(8), **{**WORDS, "recurrent": None})
    [reason] = [one.reason for one in made.placement.decisions if one.op_type == "LSTM"]
    told = "the target onnxruntime has LSTM in float; its hybrid form and the target calib8 have codes for it"
    assert reason == told
    with pytest.raises(UsageError, match="onnxruntime-avx2"):
        calib8.quantize(reader(), samples(8), **{**WORDS, "target": "onnxruntime-avx2"})


def test_what_other_commands_make_of_the_file(tmp_path: Path) -> None:
    onnx.save(reader(), tmp_path / "a.onnx")
    made = calib8.quantize(tmp_path / "a.onnx", samples(8), **WORDS)
    made.save(tmp_path / "q.onnx")
    assert made.model.metadata_props["calib8.recurrent"] == "hybrid" and not made.float_work().layers
    (cell, *_) = [one for one in inspect_model(tmp_path / "q.onnx").layers if one.op_type.endswith("LSTM")]
    assert cell.macs == STEPS * 2 * 2 * 4 * UNITS * (SIZE + UNITS)
    assert cell.parameters == 2 * 4 * UNITS * (SIZE + UNITS + 2)
    assert cell.reason == "its weights alone are codes, its gates and states float32"
    pair = calib8.compare(tmp_path / "a.onnx", tmp_path / "q.onnx", samples(4))
    assert pair.outputs.sqnr_db > 30
    exported, report = to_qoperator(load_model(tmp_path / "q.onnx"))
    assert [one.op_type for one in report.kept] == ["DynamicQuantizeLSTM"]
    assert sqnr(run(reader(), samples(1)[0])[0], run(exported, samples(1)[0])[0]) > 25
    with pytest.raises(UnsupportedModelError, match="it is quantized already"):
        calib8.quantize(tmp_path / "q.onnx", samples(8))
