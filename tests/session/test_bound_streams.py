"""Bound runs of models with states: the bits of a session, each bound run a stream of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import calib8
from calib8.errors import DataError
from calib8.session.bound_stream import BoundStream
from stream_nets import FRAME, UNITS, Array, normal, quantized

STREAMS = [normal(9, 1, FRAME, seed=seed) for seed in range(40, 44)]


def opened(**settings: object) -> calib8.InferenceSession:
    return calib8.InferenceSession(quantized(), threads=1, **settings)  # type: ignore[arg-type]


def streamed(frames: Array, session: calib8.InferenceSession | None = None) -> list[Array]:
    session = session or opened()
    return [session.run(None, {"x": frame})[0] for frame in frames]


def bound(session: calib8.InferenceSession) -> BoundStream:
    found = session.bind({"x": np.zeros((1, FRAME), np.float32)})
    assert isinstance(found, BoundStream)
    return found


def heard(run: BoundStream, frames: Array) -> list[Array]:
    found = []
    for frame in frames:
        run.inputs["x"][...] = frame
        run.run()
        found.append(run.results[0].copy())
    return found


def same(found: list[Array], expected: list[Array]) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
def test_frames_have_the_bits_of_a_stream(runtime: str) -> None:
    run = bound(opened(runtime=runtime))
    assert list(run.inputs) == ["x"] and len(run.results) == 1
    expected = streamed(STREAMS[0])
    assert len({y.tobytes() for y in expected}) > 1
    assert same(heard(run, STREAMS[0]), expected)
    run.reset()
    assert same(heard(run, STREAMS[1]), streamed(STREAMS[1]))


def test_each_is_a_stream_of_its_own_that_begins_where_the_session_is() -> None:
    session, expected = opened(), streamed(STREAMS[0])
    streamed(STREAMS[0][:4], session)
    one, other = bound(session), bound(session)
    assert same(heard(one, STREAMS[0][4:]), expected[4:])
    assert same(streamed(STREAMS[0][4:], session), expected[4:])
    assert same(heard(other, STREAMS[0][4:]), expected[4:])
    one.reset()
    assert same(heard(one, STREAMS[2]), streamed(STREAMS[2]))


def test_states_are_saved_and_restored() -> None:
    run, expected = bound(opened()), streamed(STREAMS[0])
    heard(run, STREAMS[0][:3])
    saved = run.get_state()
    assert saved["state"].shape == (2, 1, UNITS) and np.any(saved["state"])
    heard(run, STREAMS[1])
    assert not np.array_equal(run.get_state()["state"], saved["state"])
    run.set_state(saved)
    assert same(heard(run, STREAMS[0][3:]), expected[3:])
    session = opened()
    session.set_state(saved)
    assert same(streamed(STREAMS[0][3:], session), expected[3:])
    for state, told in (
        ({"state": np.zeros((2, 2, UNITS), np.float32)}, "2×2×4"),
        ({"h": np.zeros(3, np.float32)}, "'h'"),
        ({"state": np.zeros((2, 1, UNITS), np.float64)}, "float64"),
        ({"state": np.full((2, 1, UNITS), -np.inf, np.float32)}, "'state' holds NaN or infinite values"),
    ):
        with pytest.raises(DataError, match=told):
            run.set_state(state)


def test_results_are_the_callers_arrays() -> None:
    session, own = opened(), np.zeros((1, 2), np.float32)
    x = np.zeros((1, FRAME), np.float32)
    run = session.bind({"x": x}, {"y": own})
    x[...] = STREAMS[0][0]
    run.run()
    assert run.results[0] is own and np.array_equal(own, streamed(STREAMS[0][:1])[0])
    with pytest.raises(DataError, match="cannot be read in one piece"):
        session.bind({"x": np.zeros((1, 2 * FRAME), np.float32)[:, ::2]})
    with pytest.raises(DataError, match="is a state that is carried"):
        session.bind({"x": x, "state": np.zeros((2, 1, UNITS), np.float32)})


def test_threads_each_with_a_bound_stream() -> None:
    session = opened()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda frames: heard(bound(session), frames), STREAMS))
    assert all(same(one, streamed(frames)) for one, frames in zip(found, STREAMS, strict=True))
