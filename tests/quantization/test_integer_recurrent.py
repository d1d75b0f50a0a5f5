"""LSTM and GRU in integers throughout, from a float model to a program without any float inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort
import pytest
from litert import litert_outputs
from test_recurrent_weights import images, reader

import calib8
from calib8.calibration.collect import Collector
from calib8.calibration.source import open_data
from calib8.data.reading import Reading
from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.tflite.export import to_tflite
from calib8.outcomes import Quantization
from calib8.passes.integer_cells import CELL_SCALE, power_of
from calib8.passes.place import calibration_tensors
from calib8.program.instructions import IntegerGru, IntegerLstm
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from calib8.tflite.write import serialize
from stream_nets import FRAME, normal, streaming

Array = npt.NDArray[Any]


def in_integers(cells: tuple[str, ...] = ("LSTM",), directions: int = 2) -> Quantization:
    return calib8.quantize(
        reader(cells, directions), {"x": images(24)}, target="calib8", recurrent="integer", repair=("none",)
    )


def sqnr(wanted: Array, got: Array) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - got).sum()))


@pytest.mark.parametrize(("cells", "directions"), [(("LSTM",), 2), (("GRU",), 1), (("LSTM", "GRU"), 2)])
def test_a_reader_of_lines_is_integers_from_end_to_end(cells: tuple[str, ...], directions: int) -> None:
    """Near the float model, and as near as the same file in ONNX Runtime with float gates."""
    made = in_integers(cells, directions)
    assert all(one.quantized for one in made.placement.decisions)
    program = lower(made.model, profile="single", integer_only=True)
    kinds = [type(step) for step in program.instructions]
    assert kinds.count(IntegerLstm) == directions * cells.count("LSTM")
    assert kinds.count(IntegerGru) == directions * cells.count("GRU")
    models = (reader(cells, directions).SerializeToString(), ir.to_proto(made.model).SerializeToString())
    sessions = [ort.InferenceSession(model) for model in models]
    lines = [line[None] for line in images(30)[24:]]
    float_, coded = (np.concatenate([s.run(None, {"x": line})[0] for line in lines]) for s in sessions)
    got = np.concatenate([run_program(program, {"x": line})[0] for line in lines])
    assert sqnr(float_, got) > 25
    assert sqnr(float_, got) > sqnr(float_, coded) - 7


def test_a_session_of_integers_runs_it_with_the_bits_of_the_reference() -> None:
    made = in_integers(("LSTM", "GRU"))
    proto, x = ir.to_proto(made.model), images(1)
    wanted = run_program(lower(made.model, profile="single", integer_only=True), {"x": x})
    for runtime in ("calib8", "reference"):
        session = calib8.InferenceSession(proto, runtime=runtime, integer_only=True)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted[0])


def test_the_table_has_the_cell_of_all_steps_and_the_file_its_power() -> None:
    made = in_integers()
    assert made.calibration is not None
    entry = made.calibration.table.entries["lstm0/cell"]
    assert entry.count == 24 * 20 * 24  # lines, steps, units of both directions
    [node] = [node for node in made.model.graph if node.op_type == "LSTM"]
    assert node.metadata_props[CELL_SCALE] == str(power_of(entry.observed.magnitude))
    assert 2.0**15 * 2.0 ** power_of(entry.observed.magnitude) >= entry.observed.magnitude


@pytest.mark.parametrize(
    ("largest", "power"), [(0.0, -15), (0.9, -15), (1.0, -15), (1.1, -14), (16.0, -11), (17, -10), (1e6, -9)]
)
def test_powers_are_the_smallest_that_hold_a_cell(largest: float, power: int) -> None:
    assert power_of(largest) == power


def test_cells_count_alike_inside_the_run_and_as_outputs_and_merge() -> None:
    source, _ = open_data(reader(("LSTM",)), Reading({"x": images(6)}))
    model, tensors = source.prepared.model, calibration_tensors(source.prepared.model)
    assert "lstm0/cell" in tensors
    found = []
    for in_graph, parts in ((True, [range(6)]), (False, [range(6)]), (True, [range(2), range(2, 6)])):
        pieces = []
        for part in parts:
            with Collector(model, tensors, in_graph=in_graph) as collector:
                for place in part:
                    collector.add({"x": images(6)[place : place + 1]})
                pieces.append(collector.statistics())
        found.append(pieces[0] if len(pieces) == 1 else pieces[1].merge(pieces[0]))
    assert found[0].tensors["lstm0/cell"] == found[1].tensors["lstm0/cell"] == found[2].tensors["lstm0/cell"]


def test_a_stream_carries_codes_and_loses_nothing_between_frames() -> None:
    """One frame after the other, restored in the middle, gives the bits of an unbroken run."""
    marks = np.zeros(40, np.int64)
    marks[[0, 20]] = 1
    data = {"x": normal(40, FRAME, seed=9), "reset": marks}
    made = calib8.quantize(streaming(), data, target="calib8", recurrent="integer", repair=("none",))
    program = lower(made.model, profile="single", integer_only=True)
    assert not program.float_instructions
    session = calib8.InferenceSession(ir.to_proto(made.model), integer_only=True)
    other = session.stream()
    float_ = ort.InferenceSession(streaming().SerializeToString())
    state, own = np.zeros((2, 1, 4), np.float32), np.zeros((2, 1, 4), np.float32)
    results, wanted = [], []
    for place, frame in enumerate(normal(120, FRAME, seed=11)):
        stream = session if place < 50 else other
        if place == 50:
            other.set_state(session.get_state())
        [result] = stream.run(None, {"x": frame[None]})
        by_hand, own = run_program(program, {"x": frame[None], "state": own})
        np.testing.assert_array_equal(result, by_hand)
        expected, state = float_.run(None, {"x": frame[None], "state": state})
        results.append(result)
        wanted.append(expected)
    assert sqnr(np.array(wanted), np.array(results)) > 20


@pytest.mark.parametrize("target", ["tflite", "calib8"])
def test_a_network_with_lstms_leaves_as_tflite_with_litert_bits(target: str) -> None:
    made = calib8.quantize(
        reader(("LSTM", "LSTM"), 1), {"x": images(24)}, target=target, recurrent="integer", repair=("none",)
    )
    program = lower(made.model, profile="tflite", integer_only=True)
    exported = to_tflite(program)
    assert exported.operators["UNIDIRECTIONAL_SEQUENCE_LSTM"] == 2
    for line in images(28)[24:, None]:
        [wanted] = run_program(program, {"x": line})
        [got] = litert_outputs(serialize(exported.graph), [np.moveaxis(line, 1, 3).copy()], "reference")
        np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_both_directions_for_tflite_are_integers(cell: str) -> None:
    """The Concat of their weights is none of the graph's own, whose inputs share a scale there."""
    made = calib8.quantize(
        reader((cell,), 2), {"x": images(24)}, target="tflite", recurrent="integer", repair=("none",)
    )
    assert f"{cell.lower()}0" in made.placement.quantized_nodes()
    program = lower(made.model, profile="single", integer_only=True)
    float_ = ort.InferenceSession(reader((cell,), 2).SerializeToString())
    lines = images(28)[24:, None]
    wanted = np.concatenate([float_.run(None, {"x": line})[0] for line in lines])
    assert sqnr(wanted, np.concatenate([run_program(program, {"x": line})[0] for line in lines])) > 25


def test_hybrid_files_say_what_integers_need() -> None:
    made = calib8.quantize(reader(("LSTM",)), {"x": images(8)}, target="calib8", repair=("none",))
    with pytest.raises(UnsupportedModelError, match=r"its weights do not have one scale per gate.*recurrent"):
        lower(made.model, profile="single", integer_only=True)


@pytest.mark.parametrize(
    ("target", "form", "told"),
    [
        ("onnxruntime", "integer", "target 'onnxruntime' has LSTM and GRU in float or hybrid form only"),
        (
            "openvino",
            "hybrid",
            "'openvino' has LSTM and GRU in float form only. Use .* onnxruntime or calib8",
        ),
        ("calib8", "float", "has LSTM and GRU in hybrid or integer form only"),
        ("calib8", "whole", "unknown form"),
    ],
)
def test_forms_that_a_target_does_not_have_are_refused(target: str, form: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.quantize(reader(), {"x": images(2)}, target=target, recurrent=form)


def test_a_layer_that_is_kept_in_float_stays_float() -> None:
    made = calib8.quantize(
        reader(("LSTM", "GRU")), {"x": images(8)}, target="calib8", recurrent="integer", repair=("none",),
        keep_float=["lstm0"],
    )  # fmt: skip
    why = {one.node: one.reason for one in made.placement.decisions if not one.quantized}
    assert why["lstm0"] == "the user keeps it in float"
    assert "gru0" not in why and "gru1" not in why
