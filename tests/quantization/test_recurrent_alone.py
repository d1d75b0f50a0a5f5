"""Models that are an LSTM, a GRU or an RNN and nothing else: hybrid layers need no ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import calib8
from calib8.errors import UnsupportedModelError
from calib8.program.reference.executor import run_program
from calib8.quantization.qdq import holds_codes
from small_models import onnx_model, run
from small_nets import Net

STEPS, WIDTH, UNITS = 5, 6, 8
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def alone(op: str, directions: int = 1, **attributes: Any) -> onnx.ModelProto:
    """x [5, 1, 6] → the layer → y [5, D, 1, 8]."""
    net = Net(shape=(STEPS, 1, WIDTH))
    rows = GATES[op] * UNITS
    weights = net.weight(directions, rows, WIDTH), net.weight(directions, rows, UNITS)
    direction = "bidirectional" if directions == 2 else "forward"
    words = {"hidden_size": UNITS, "direction": direction, **attributes}
    return net.model(net.op(op, "x", *weights, name="cell", **words))


def samples(count: int = 16) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(7)
    return [{"x": rng.standard_normal((STEPS, 1, WIDTH)).astype(np.float32)} for _ in range(count)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_the_weights_become_codes(op: str, effort: str) -> None:
    made = calib8.quantize(alone(op), samples(), target="calib8", effort=effort)
    assert made.placement.quantized_nodes() == {"cell"} and made.qparams == {}
    model = ir.to_proto(made.model)
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear", "DequantizeLinear", op]
    session = calib8.InferenceSession(model)
    for sample in samples(3):
        [found], [wanted] = session.run(None, sample), run_program(session.program, sample)
        assert np.array_equal(found, wanted)
        [exact] = run(alone(op), sample)
        assert np.sum((found - exact) ** 2) < 3e-4 * np.sum(exact**2)


@pytest.mark.parametrize("op", GATES)
def test_both_directions_become_codes(op: str, tmp_path: Path) -> None:
    """Two of them behind a Concat: sessions, plans and ``evaluate`` take the file for what it is."""
    made = calib8.quantize(alone(op, 2), samples(), target="calib8", effort="fast")
    made.save(tmp_path / "int8.onnx")
    assert holds_codes(made.model)
    calib8.compile(tmp_path / "int8.onnx", tmp_path / "int8.c8")
    sessions = [calib8.InferenceSession(tmp_path / name) for name in ("int8.onnx", "int8.c8")]
    for sample in samples(3):
        [found], [again] = (session.run(None, sample) for session in sessions)
        assert np.array_equal(found, again)
        [exact] = run(alone(op, 2), sample)
        assert np.sum((found - exact) ** 2) < 3e-4 * np.sum(exact**2)
    onnx.save(alone(op, 2), tmp_path / "float.onnx")
    models = [str(tmp_path / name) for name in ("float.onnx", "int8.onnx")]
    _, told = calib8.evaluate(models, samples(3), runtime="calib8")
    assert told.sqnr_db is not None and told.sqnr_db > 30


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_integer_layers_have_ranges(op: str) -> None:
    made = calib8.quantize(alone(op), samples(), target="calib8", recurrent="integer", effort="fast")
    assert "x" in made.qparams and made.placement.quantized_nodes() == {"cell"}


@pytest.mark.parametrize(("op", "place"), [("LSTM", 2), ("GRU", 1), ("LSTM", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_integer_layers_of_which_only_a_last_state_is_read(op: str, place: int, directions: int) -> None:
    proto = alone(op, directions)
    del proto.graph.node[0].output[:]
    proto.graph.node[0].output.extend([*[""] * place, "last"])
    shape = [directions, 1, UNITS]
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("last", TensorProto.FLOAT, shape))
    made = calib8.quantize(proto, samples(), target="calib8", recurrent="integer", effort="fast")
    assert made.placement.quantized_nodes() == {"cell"}
    session = calib8.InferenceSession(ir.to_proto(made.model), integer_only=True)
    for sample in samples(3):
        [found], [exact] = session.run(None, sample), run(proto, sample)
        assert np.array_equal(found, run_program(session.program, sample)[0])
        assert np.sum((found - exact) ** 2) < 3e-3 * np.sum(exact**2)


def test_from_a_table_and_from_a_run_over_the_data_the_file_is_the_same() -> None:
    model = alone("GRU")
    found = calib8.calibrate(model, samples(), target="calib8", method="minmax")
    one, other = (
        ir.to_proto(made.model).graph.SerializeToString()
        for made in (
            calib8.quantize(model, table=found.table, target="calib8", repair=("none",)),
            calib8.quantize(model, samples(), target="calib8", method="minmax", repair=("none",)),
        )
    )
    assert one == other


@pytest.mark.parametrize(
    ("op", "words", "cure"),
    [
        (
            "LSTM",
            {},
            r"Use target='calib8', whose recurrent layers have int8 weights, or recurrent='hybrid'\.",
        ),
        ("GRU", {}, r"Use target='calib8', whose recurrent layers have int8 weights\."),
        ("GRU", {"target": "tflite"}, r"or recurrent='integer'\."),
        ("RNN", {"target": "tflite"}, r"Use target='calib8', whose recurrent layers have int8 weights\."),
        ("RNN", {"target": "calib8", "recurrent": "integer"}, r"Leave out recurrent"),
    ],
)
def test_a_target_that_leaves_it_in_float_is_told(op: str, words: dict[str, Any], cure: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"{op} 'cell'.*{cure}"):
        calib8.quantize(alone(op), samples(), **words)
    table = calib8.calibrate(alone(op), samples(), method="minmax").table
    with pytest.raises(UnsupportedModelError, match=cure):
        calib8.quantize(alone(op), table=table, **words)


def test_it_is_told_before_the_data_are_read() -> None:
    def broken() -> Any:
        yield samples(1)[0]
        raise AssertionError("read on")

    with pytest.raises(UnsupportedModelError, match="target 'onnxruntime'"):
        calib8.quantize(alone("LSTM"), broken())


def test_tune_refuses_a_runtime_that_leaves_it_in_float(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="target 'onnxruntime'"):
        calib8.tune(alone("LSTM"), samples(40), min_sqnr=30.0, output=tmp_path / "out.onnx")


def test_kept_in_float_nothing_is_left() -> None:
    with pytest.raises(UnsupportedModelError, match="LSTM 'cell': the user keeps it in float"):
        calib8.quantize(alone("LSTM"), samples(), target="calib8", keep_float=["cell"])


def test_there_is_no_activation_to_compare() -> None:
    made = calib8.quantize(alone("LSTM"), samples(), target="calib8", effort="fast")
    with pytest.raises(UnsupportedModelError, match=r"codes of recurrent weights alone.*calib8 evaluate"):
        calib8.compare(alone("LSTM"), ir.to_proto(made.model), samples())


def test_weights_stored_in_less_space_are_no_codes_of_other_layers() -> None:
    stored = onnx_model(
        "float[1,4] x", "float[1,4] y", "w = DequantizeLinear(q, s) y = MatMul(x, w)",
        {"q": np.ones((4, 4), np.int8), "s": np.float32(0.5)},
    )  # fmt: skip
    assert not holds_codes(ir.from_proto(stored)) and not holds_codes(ir.from_proto(alone("LSTM")))


def test_an_lstm_alone_is_quantized_for_onnx_runtime(tmp_path: Path) -> None:
    made = calib8.quantize(alone("LSTM"), samples(), target="onnxruntime", recurrent="hybrid", effort="fast")
    assert holds_codes(made.model) and [node.op_type for node in made.model.graph] == ["DynamicQuantizeLSTM"]
    for sample in samples(3):
        [found], [exact] = run(made.model, sample), run(alone("LSTM"), sample)
        assert np.sum((found - exact) ** 2) < 1e-3 * np.sum(exact**2)
