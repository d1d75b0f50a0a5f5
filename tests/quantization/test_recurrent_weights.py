"""LSTM, GRU and RNN of a float model: which of them get codes for their weights, and what the file is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import calib8
from calib8.model.graph import Names
from calib8.model.load import load_model
from calib8.passes.place import place
from calib8.passes.prepare import prepare
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from calib8.quantization.recurrent_weights import coded_rows, quantize_recurrent_weights
from calib8.scheme import TARGETS

Array = npt.NDArray[Any]
OPS = {"LSTM": 4, "GRU": 3, "RNN": 1}


def reader(
    cells: tuple[str, ...] = ("LSTM", "GRU"), directions: int = 2, **attributes: Any
) -> onnx.ModelProto:
    """A Conv over an image, its columns as a sequence, recurrent layers, a MatMul."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, *shape: int) -> str:
        array = rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)
        constants.append(numpy_helper.from_array(array, name))
        return name

    def numbers(name: str, *values: int) -> str:
        constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    nodes.append(helper.make_node("Conv", ["x", constant("w", 8, 1, 8, 3)], ["c"], "conv", pads=[0, 1, 0, 1]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"], "relu"))
    nodes.append(helper.make_node("Squeeze", ["r", numbers("two", 2)], ["s"], "squeeze"))
    nodes.append(helper.make_node("Transpose", ["s"], ["t"], "turn", perm=[2, 0, 1]))
    source, depth, units = "t", 8, 12
    for place_, op in enumerate(cells):
        rows = OPS[op] * units
        inputs = [
            constant(f"W{place_}", directions, rows, depth),
            constant(f"R{place_}", directions, rows, units),
        ]
        direction = "bidirectional" if directions == 2 else "forward"
        name = f"{op.lower()}{place_}"
        own = {"hidden_size": units, "direction": direction, **attributes}
        nodes.append(helper.make_node(op, [source, *inputs], [f"Y{place_}"], name, **own))
        nodes.append(
            helper.make_node("Transpose", [f"Y{place_}"], [f"T{place_}"], f"T{place_}", perm=[0, 2, 1, 3])
        )
        nodes.append(
            helper.make_node("Reshape", [f"T{place_}", numbers(f"S{place_}", 0, 0, -1)], [f"Q{place_}"])
        )
        source, depth = f"Q{place_}", directions * units
    nodes.append(helper.make_node("MatMul", [source, constant("head", depth, 5)], ["y"], "head"))
    graph = helper.make_graph(
        nodes,
        "reader",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 1, 5])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(count: int) -> Array:
    return np.random.default_rng(1).normal(0, 1, (count, 1, 8, 20)).astype(np.float32)


def quantized(proto: onnx.ModelProto, target: str = "calib8", **options: Any) -> calib8.Quantization:
    return calib8.quantize(proto, {"x": images(6)}, target=target, effort="fast", **options)


def sqnr_db(wanted: Array, got: Array) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - got).sum()))


def outcome(proto: onnx.ModelProto, op: str) -> tuple[bool, str]:
    model = prepare(load_model(proto), {"x": images(1)}).model
    (found,) = (one for one in place(model, TARGETS["calib8"]).decisions if one.op_type == op)
    return found.quantized, found.reason


@pytest.mark.one_in(2)
@pytest.mark.parametrize("directions", [1, 2])
def test_the_engine_computes_them_and_onnxruntime_runs_the_file(directions: int) -> None:
    proto = reader(directions=directions)
    result = quantized(proto)
    assert "1 of 1 LSTM quantized" in result.placement.summary()
    assert "1 of 1 GRU quantized" in result.placement.summary()
    model = ir.to_proto(result.model)
    program = lower(load_model(model))
    assert not program.float_instructions
    assert [type(step).__name__ for step in program.instructions].count("Recurrent") == 2
    session, runtime = calib8.InferenceSession(model), ort.InferenceSession(proto.SerializeToString())
    for image in images(9)[6:]:
        feeds = {"x": image[None]}
        (got,) = session.run(None, feeds)
        np.testing.assert_array_equal(got, run_program(program, feeds)[0])
        assert sqnr_db(runtime.run(None, feeds)[0], got) > 30


def test_the_recurrent_part_alone_keeps_35_db() -> None:
    proto = reader(("LSTM", "GRU", "RNN"))
    model = ir.from_proto(proto)
    quantize_recurrent_weights(Names(model.graph), ["lstm0", "gru1", "rnn2"])
    program, runtime = lower(model), ort.InferenceSession(proto.SerializeToString())
    assert [type(step).__name__ for step in program.instructions].count("Recurrent") == 3
    for image in images(9)[6:]:
        feeds = {"x": image[None]}
        assert sqnr_db(runtime.run(None, feeds)[0], run_program(program, feeds)[0]) > 35


@pytest.mark.slow
def test_other_targets_leave_them_float() -> None:
    for target in ("onnxruntime", "openvino", "tflite"):
        summary = quantized(reader(("LSTM",)), target).placement.summary()
        assert "0 of 1 LSTM quantized; 1 float because the op has no integer form" in summary


def test_they_stay_float_where_the_user_wants_it() -> None:
    summary = quantized(reader(), keep_float=["lstm0"]).placement.summary()
    assert "0 of 1 LSTM quantized; 1 float because the user keeps it in float" in summary
    assert "1 of 1 GRU quantized" in summary


def test_reasons() -> None:
    assert outcome(reader(("RNN",)), "RNN") == (True, "")
    odd = reader(("RNN",), directions=1, activations=["Elu"])
    assert outcome(odd, "RNN") == (False, "its activation Elu has no form beside integers")
    for words, missing in (({}, "activation_alpha"), ({"activation_alpha": [0.5]}, "activation_beta")):
        for name in ("Affine", "ScaledTanh"):  # ONNX Runtime takes 0, and gives zeros or a constant
            nameless = reader(("RNN",), directions=1, activations=[name], **words)
            told = f"its activation is {name} without {missing}, for which ONNX has no default"
            assert outcome(nameless, "RNN") == (False, told)
    both = {"activation_alpha": [0.5], "activation_beta": [0.1]}
    assert outcome(reader(("RNN",), directions=1, activations=["Affine"], **both), "RNN") == (True, "")
    assert outcome(reader(("RNN",), directions=1, activations=["HardSigmoid"]), "RNN") == (True, "")
    broken = reader(("LSTM",))
    weight = next(array for array in broken.graph.initializer if array.name == "W0")
    values = numpy_helper.to_array(weight).copy()
    values[0, 0, 0] = np.nan
    weight.CopyFrom(numpy_helper.from_array(values, "W0"))
    model = load_model(broken)
    found = next(one for one in place(model, TARGETS["calib8"]).decisions if one.op_type == "LSTM")
    assert (found.quantized, found.reason) == (False, "its weight holds NaN or Inf")


def test_codes_of_a_row_have_its_largest_weight_at_127() -> None:
    weight = np.array([[[0.5, -1.0], [0, 0], [3, 1]]], np.float32)
    coded = coded_rows(weight)
    np.testing.assert_array_equal(coded.values, [[[64, -127], [0, 0], [127, 42]]])
    np.testing.assert_allclose(coded.scale[[0, 2]], [1 / 127, 3 / 127], rtol=1e-6)
