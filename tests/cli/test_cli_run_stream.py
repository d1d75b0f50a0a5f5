"""``calib8 run`` of models with states: frames in order, marks, states saved and loaded, in every runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from json_output import load

import calib8
from calib8.analysis.stream_run import _Runs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from small_models import run
from stream_nets import FRAME, UNITS, Array, normal, quantized, streaming
from wav_files import tone, write_wav

FRAMES = normal(12, FRAME, seed=30)
MARKS = np.isin(np.arange(12), (0, 7)).astype(np.int64)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    onnx.save(streaming(), place / "net.onnx")
    (place / "q.onnx").write_bytes(quantized())
    calib8.compile(place / "q.onnx", place / "q.c8")
    np.savez(place / "frames.npz", x=FRAMES, reset=MARKS)
    np.save(place / "frames.npy", FRAMES)
    return place


def by_hand(model: Path, frames: Array, marks: Any) -> Array:
    """y of every frame, [F, 2]."""
    state, found = np.zeros((2, 1, UNITS), np.float32), []
    session = None if model.name == "net.onnx" else calib8.InferenceSession(model, state={}, threads=1)
    for frame, mark in zip(frames, marks, strict=True):
        state = np.zeros_like(state) if mark else state
        feeds = {"x": frame[None], "state": state}
        y, state = run(streaming(), feeds) if session is None else session.run(["y", "stateN"], feeds)
        found.append(y[0])
    return np.array(found)


def scores(path: Path) -> Array:
    """What a document of ``run`` tells of y, [F, 2]."""
    found = []
    for row in load(path)["results"]:
        values = dict(zip(row["classes"], row["scores"], strict=True))
        found.append([values[0], values[1]])
    return np.array(found)


@pytest.mark.parametrize(
    ("name", "runtime"), [("net.onnx", "onnxruntime"), ("q.onnx", "calib8"), ("q.c8", "calib8")]
)
def test_states_are_carried_and_begin_anew_at_marks(
    cli, made: Path, out: Path, name: str, runtime: str
) -> None:
    model = made / name
    for data, marks in (("frames.npz", MARKS), ("frames.npy", np.zeros(12))):
        result = cli("run", model, "--data", made / data, "--runtime", runtime, "--json", out / "a.json")
        assert result.exit_code == 0, result.output
        expected = by_hand(made / ("q.onnx" if name == "q.c8" else name), FRAMES, marks)
        assert np.allclose(scores(out / "a.json"), expected, atol=1e-5)


@pytest.mark.parametrize(("name", "runtime"), [("net.onnx", "onnxruntime"), ("q.c8", "calib8")])
def test_a_saved_state_goes_on(cli, made: Path, out: Path, name: str, runtime: str) -> None:
    model, words = made / name, ("--runtime", runtime, "--json", out / "a.json")
    np.save(out / "rest.npy", FRAMES[5:])
    np.savez(out / "marked.npz", x=FRAMES[5:], reset=np.arange(7) == 0)
    first = cli(
        "run", model, "--data", made / "frames.npy", "--samples", "5", *words, "--save-state", out / "s.npz"
    )
    assert first.exit_code == 0, first.output
    assert len(scores(out / "a.json")) == 5
    expected = by_hand(made / ("q.onnx" if name == "q.c8" else name), FRAMES, np.zeros(12))[5:]
    for data in ("rest.npy", "marked.npz"):  # the first frame goes on, whatever is marked
        rest = cli("run", model, "--data", out / data, *words, "--load-state", out / "s.npz")
        assert rest.exit_code == 0, rest.output
        assert np.allclose(scores(out / "a.json"), expected, atol=1e-5)


def test_sound_is_heard_frame_by_frame(cli, made: Path, tmp_path: Path) -> None:
    line = tone(3 * FRAME, seed=3)
    write_wav(tmp_path / "a.wav", line, bits=32, is_float=True, rate=8000)
    frames = line.reshape(3, FRAME).astype(np.float32)
    result = cli(
        "run",
        made / "net.onnx",
        "--data",
        tmp_path / "a.wav",
        "--rate",
        "8000",
        "--json",
        tmp_path / "a.json",
    )
    assert result.exit_code == 0, result.output
    assert np.allclose(
        scores(tmp_path / "a.json"), by_hand(made / "net.onnx", frames, np.zeros(3)), atol=1e-5
    )


def test_data_that_hold_the_states_are_taken_as_they_are(cli, made: Path, tmp_path: Path) -> None:
    states = normal(12, 2, 1, UNITS, seed=31)
    np.savez(tmp_path / "all.npz", x=FRAMES[:, None], state=states)
    result = cli("run", made / "net.onnx", "--data", tmp_path / "all.npz", "--json", tmp_path / "a.json")
    assert result.exit_code == 0, result.output
    expected = [
        run(streaming(), {"x": x[None], "state": s})[0][0] for x, s in zip(FRAMES, states, strict=True)
    ]
    assert np.allclose(scores(tmp_path / "a.json"), expected, atol=1e-5)


def test_what_is_wrong_with_states_is_one_line(
    cli, made: Path, model: Path, images: Path, tmp_path: Path
) -> None:
    for name, arrays in (
        ("shape.npz", {"state": np.zeros((2, 2, UNITS), np.float32)}),
        ("names.npz", {"h": np.zeros(3, np.float32)}),
        ("type.npz", {"state": np.zeros((2, 1, UNITS))}),
        ("nan.npz", {"state": np.full((2, 1, UNITS), np.nan, np.float32)}),
    ):
        np.savez(tmp_path / name, **arrays)
    (tmp_path / "broken.npz").write_bytes(b"PK\3\4")
    for name, code, text in (
        ("shape.npz", 1, "2×2×4"),
        ("names.npz", 1, "'h'"),
        ("type.npz", 1, "float64"),
        ("nan.npz", 1, "'state' holds NaN or infinite values"),
        ("broken.npz", 1, "is no .npz of arrays"),
        ("none.npz", 1, "no such file"),
    ):
        for net, runtime in (("net.onnx", "onnxruntime"), ("q.c8", "calib8")):
            words = ("--runtime", runtime, "--load-state", tmp_path / name)
            result = cli("run", made / net, "--data", made / "frames.npy", *words)
            assert (result.exit_code, text in " ".join(result.stderr.split())) == (code, True), result.output
    result = cli("run", model, "--data", images, "--mean", "0", "--save-state", tmp_path / "s.npz")
    assert result.exit_code == 2 and "the model has no states" in result.stderr
    assert not (tmp_path / "s.npz").exists()
    words = ("--runtime", "calib8", "--save-state", made / "q.c8")
    result = cli("run", made / "q.c8", "--data", made / "frames.npy", *words)
    assert result.exit_code == 2 and (made / "q.c8").exists()


def test_plans_say_which_layers_are_partly_float(cli, made: Path, tmp_path: Path) -> None:
    told = "1 recurrent layer partly in float32, gates and states: LSTM"
    result = cli("compile", made / "q.onnx", "-o", tmp_path / "q.c8", "--json", tmp_path / "c.json")
    assert result.exit_code == 0 and told in result.stdout
    assert load(tmp_path / "c.json")["float_gates"] == ["LSTM"]
    result = cli("inspect", tmp_path / "q.c8", "--json", tmp_path / "i.json")
    assert told in result.stdout and load(tmp_path / "i.json")["plan"]["float_gates"] == ["LSTM"]


def test_a_fed_session_writes_into_arrays(made: Path) -> None:
    """What a stream may ask of its runs, of a session that takes states as inputs."""
    session = open_session(load_model(made / "net.onnx"))
    runs = _Runs(session, {"state": "stateN"})
    feeds = {"x": FRAMES[:1], "state": np.zeros((2, 1, UNITS), np.float32)}
    wanted = runs.run(feeds)
    once, twice = ([np.full_like(array, np.nan) for array in wanted] for _ in range(2))
    runs.run_into(feeds, once)
    runs.bound(feeds, twice)()
    for want, one, other in zip(wanted, once, twice, strict=True):
        np.testing.assert_array_equal(one, want)
        np.testing.assert_array_equal(other, want)
