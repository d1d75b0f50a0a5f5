"""Data of streaming models: the states before each frame are those that a stream of the float model has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.calibration.streaming import opened_for
from calib8.data.batches import batches
from calib8.data.reading import Reading
from calib8.errors import DataError, UsageError
from calib8.model.load import load_model
from small_models import onnx_model, run
from stream_nets import FRAME, UNITS, Array, normal, streaming

FRAMES = normal(10, FRAME, seed=4)
MARKS = np.array([1, 0, 0, 0, 1, 0, 0, 0, 0, 0])


def by_hand(marks: Any) -> list[Array]:
    """The states before each frame."""
    found, state = [], np.zeros((2, 1, UNITS), np.float32)
    for frame, mark in zip(FRAMES, marks, strict=True):
        state = np.zeros_like(state) if mark else state
        found.append(state)
        state = run(streaming(), {"x": frame[None], "state": state})[1]
    return found


def read(data: Any, **words: Any) -> list[dict[str, Array]]:
    dataset = opened_for(load_model(streaming()), Reading(data, threads=1, **words))
    return [dict(piece.inputs) for piece in batches(dataset, 4, 1)]


@pytest.mark.parametrize("marks", [MARKS, MARKS.astype(bool), None])
def test_the_states_are_those_of_a_stream(marks: Any) -> None:
    data = {"x": FRAMES} if marks is None else {"x": FRAMES, "reset": marks}
    found = read(data)
    assert [list(one) for one in found] == [["x", "state"]] * 10
    assert np.array_equal(np.concatenate([one["x"] for one in found]), FRAMES)
    expected = by_hand(np.zeros(10) if marks is None else marks)
    assert all(
        np.allclose(one["state"], state, atol=1e-6) for one, state in zip(found, expected, strict=True)
    )
    assert np.any(found[3]["state"]) and np.any(found[4]["state"]) == (marks is None)


def test_states_that_are_only_found_are_not_kept_where_the_data_hold_them(tmp_path: Path) -> None:
    states = np.concatenate(by_hand(MARKS)).reshape(10, 2, 1, UNITS)
    items = [{"x": x[None], "state": state} for x, state in zip(FRAMES, states, strict=True)]
    for data, state, kept in (
        (items, None, []),
        (items, {"state": "stateN"}, ["state"]),
        ({"x": FRAMES, "reset": MARKS}, None, ["state"]),
    ):
        made = calib8.quantize(streaming(), data, state=state, target="calib8", effort="fast", threads=1)
        made.save(tmp_path / "int8.onnx")
        session = calib8.InferenceSession(tmp_path / "int8.onnx")
        assert [one.name for one in session.get_states()] == kept


def test_an_input_called_reset_is_no_mark() -> None:
    body = "p = Mul(state, reset) stateN = Add(x, p) y = Relu(stateN)"
    inputs = "float[1,3] x, float[1,3] state, float[1,1] reset"
    proto = onnx_model(inputs, "float[1,3] y, float[1,3] stateN", body, {})
    data = {"x": np.ones((4, 3), np.float32), "reset": np.full((4, 1), 0.5, np.float32)}
    dataset = opened_for(load_model(proto), Reading(data, threads=1, state={"state": "stateN"}))
    found = [dict(piece.inputs)["state"] for piece in batches(dataset, 4, 1)]
    assert np.allclose(np.concatenate(found)[:, 0], [0.0, 1.0, 1.5, 1.75])


def test_frames_come_from_files_items_and_generators(tmp_path: Path) -> None:
    expected = read({"x": FRAMES, "reset": MARKS})
    np.savez(tmp_path / "a.npz", x=FRAMES, reset=MARKS)
    items = [{"x": frame[None], "reset": bool(mark)} for frame, mark in zip(FRAMES, MARKS, strict=True)]
    for data in (str(tmp_path / "a.npz"), items, iter(items)):
        found = read(data)
        assert all(np.array_equal(a["state"], b["state"]) for a, b in zip(found, expected, strict=True))


def test_some_of_the_frames_have_the_states_of_all() -> None:
    every, some = read({"x": FRAMES}), read({"x": FRAMES}, samples=5)
    assert len(some) == 5
    for one, same in zip(some, every[::2], strict=True):
        assert np.array_equal(one["x"], same["x"]) and np.array_equal(one["state"], same["state"])


def test_data_that_hold_the_states_are_taken_as_they_are() -> None:
    state = normal(2, 1, UNITS, seed=8)
    found = read([{"x": frame[None], "state": state} for frame in FRAMES])
    assert all(np.array_equal(one["state"], state) for one in found)
    with pytest.raises(DataError, match="no array for input 'state'"):
        read([{"x": frame[None]} for frame in FRAMES], state={})


def test_what_is_wrong_with_frames_is_told() -> None:
    with pytest.raises(DataError, match="x: float32 1×6"):
        read({"x": FRAMES[:, :5]})
    with pytest.raises(UsageError, match="'z' is not an output"):
        read({"x": FRAMES}, state={"state": "z"})
    bad = [{"x": frame[None]} for frame in FRAMES]
    bad[3] = {"x": FRAMES[:1, :4]}
    with pytest.raises(DataError, match="1×4"):
        read(bad)


def test_frames_of_other_sizes_without_a_mark_are_refused() -> None:
    body = "y = Add(x, state) stateN = Identity(y)"
    model = load_model(onnx_model("float[1,K] x, float[1,K] state", "float[1,K] y, float[1,K] stateN", body))
    items = [{"x": np.ones((1, 4), np.float32)}, {"x": np.ones((1, 5), np.float32)}]
    with pytest.raises(DataError, match="Mark where a stream begins: an array 'reset'"):
        opened_for(model, Reading(items, threads=1))
    items[1]["reset"] = np.array(1)
    items[0]["reset"] = np.array(1)
    assert len(list(opened_for(model, Reading(items, threads=1)))) == 2


def test_a_quantized_model_carries_what_was_found(tmp_path: Path) -> None:
    onnx.save(streaming(), tmp_path / "a.onnx")
    frames = {"x": normal(40, FRAME, seed=9)}
    made = calib8.quantize(tmp_path / "a.onnx", frames, target="calib8", effort="fast")
    made.save(tmp_path / "q.onnx")
    assert [one.name for one in calib8.InferenceSession(tmp_path / "q.onnx").get_states()] == ["state"]
    [_, codes] = calib8.evaluate([tmp_path / "a.onnx", tmp_path / "q.onnx"], frames)
    assert codes.sqnr_db is not None and codes.sqnr_db > 20
    assert calib8.compare(tmp_path / "a.onnx", tmp_path / "q.onnx", frames).outputs.sqnr_db > 20
    table = calib8.calibrate(tmp_path / "a.onnx", frames).table
    again = calib8.quantize(tmp_path / "a.onnx", table=table, target="calib8", state={"state": "stateN"})
    assert again.model.metadata_props["calib8.state"] == '{"state": "stateN"}'
    none = calib8.quantize(tmp_path / "a.onnx", table=table, target="calib8", state={})
    assert "calib8.state" not in none.model.metadata_props


def test_the_state_of_a_recurrent_layer_stays_float32() -> None:
    made = calib8.quantize(streaming(), {"x": normal(40, FRAME, seed=9)}, target="calib8", effort="fast")
    why = {one.node: one.reason for one in made.placement.decisions if not one.quantized}
    [joined] = [node for node in made.model.graph if node.outputs[0].name == "stateN"]
    assert why[joined.name or ""] == "it hands on a state, which stays float32"
    last = [value.producer() for value in joined.inputs if value is not None]
    assert [node.op_type for node in last if node is not None] == [
        "LSTM",
        "LSTM",
    ]  # nothing rounds on the way


MALFORMED: dict[str, tuple[Any, str]] = {
    "too few": (MARKS[:5], "its array 'reset' is int64 5, and 'x' holds 10 frames"),
    "too many": (np.append(MARKS, 0), "its array 'reset' is int64 11, and 'x' holds 10 frames"),
    "NaN": (np.where(MARKS, np.nan, 0.0), "its array 'reset' is float64 10 with NaN"),
    "fractions": (MARKS * 1.0, "its array 'reset' is float64 10"),
    "text": (MARKS.astype(str), "its array 'reset' is text 10"),
    "numbers of streams": (np.repeat([0, 1, 2], [3, 3, 4]), "its array 'reset' is int64 10 with the value 2"),
    "two axes": (MARKS.reshape(2, 5), "its array 'reset' is int64 2×5"),
    "one number": (np.array(1), "its array 'reset' is int64 scalar"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_marks_are_refused(what: str, tmp_path: Path) -> None:
    marks, told = MALFORMED[what]
    path = tmp_path / "frames.npz"
    np.savez(path, x=FRAMES, reset=marks)
    cure = "Give 'reset' one whole number or bool per frame, 1 where a stream begins, else 0"
    for data, source in (
        ({"x": FRAMES, "reset": marks}, "arrays"),
        (str(path), str(path)),
        (path, str(path)),
    ):
        with pytest.raises(DataError) as found:
            read(data)
        assert str(found.value).startswith(f"{source}: {told}") and cure in str(found.value)


@pytest.mark.parametrize(
    ("mark", "told"), [(0.5, "has float64 1 for the input"), ("1", "<U1"), (2, "has the mark 2 in 'reset'")]
)
def test_malformed_marks_of_items_are_refused(mark: Any, told: str) -> None:
    with pytest.raises(DataError, match="sample 0: ") as found:
        read([{"x": frame[None], "reset": mark} for frame in FRAMES])
    assert told in str(found.value) and "'reset" in str(found.value)


def test_marks_in_a_column_are_read() -> None:
    found = read({"x": FRAMES, "reset": MARKS[:, None]})
    assert all(
        np.allclose(one["state"], state, atol=1e-6) for one, state in zip(found, by_hand(MARKS), strict=True)
    )


STATES = np.zeros((10, 2, 1, UNITS), np.float32)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (STATES[..., :3], "has float32 2×1×3 for the input 'state: float32 2×1×4'"),
        (STATES[:, :1], "has float32 1×1×4 for the input 'state: float32 2×1×4'"),
        (STATES[:5], "numbers of samples (x 10, state 5)"),
    ],
)
def test_arrays_of_states_that_do_not_fit_are_refused(wrong: Array, told: str, tmp_path: Path) -> None:
    """Left out without a word, they made one stream of all frames; declared states are no other matter."""
    np.savez(tmp_path / "a.npz", x=FRAMES, state=wrong)
    for data, source in (({"x": FRAMES, "state": wrong}, "arrays"), (tmp_path / "a.npz", "a.npz")):
        for state in (None, {"state": "stateN"}):
            with pytest.raises(DataError) as found:
                read(data, state=state)
            assert str(found.value).startswith(source) and told in str(found.value)
