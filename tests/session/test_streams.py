"""Sessions that carry states: the bits of an unbroken run, whatever is run, saved or restored in between."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from example_programs import EXAMPLES

import calib8
from calib8.engine.plan import PlanState
from calib8.engine.plan_file import save_plan
from calib8.errors import Calib8Error, DataError, ModelError, UsageError
from calib8.model.load import load_model
from calib8.program.file import load_program, save_program
from calib8.program.instructions import Float
from calib8.program.lower import lower
from calib8.program.program import State
from calib8.program.reference.executor import run_program
from calib8.program.verify import verify
from stream_nets import FRAME, UNITS, Array, normal, quantized, streaming

STREAMS = [normal(12, 1, FRAME, seed=seed) for seed in range(20, 28)]
PAIRS = {"state": "stateN"}


def opened(**settings: object) -> calib8.InferenceSession:
    return calib8.InferenceSession(quantized(), threads=1, **settings)  # type: ignore[arg-type]


def unbroken(frames: Array) -> list[tuple[Array, Array]]:
    """Outputs and states of every frame, the state fed by hand."""
    session = opened(state={})
    state, found = np.zeros((2, 1, UNITS), np.float32), []
    for frame in frames:
        y, state = session.run(["y", "stateN"], {"x": frame, "state": state})
        found.append((y, state))
    return found


def outputs(frames: Array) -> list[Array]:
    return [y for y, _ in unbroken(frames)]


def same(found: list[Array], expected: list[Array]) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def test_the_states_are_no_ports_and_their_values_those_fed_by_hand() -> None:
    session = opened()
    assert [one.name for one in session.get_inputs()] == ["x"]
    assert [one.name for one in session.get_outputs()] == ["y"]
    assert [(one.name, one.shape) for one in session.get_states()] == [("state", [2, 1, UNITS])]
    expected = unbroken(STREAMS[0])
    assert len({y.tobytes() for y, _ in expected}) > 1  # the state does something
    for frame, (y, state) in zip(STREAMS[0], expected, strict=True):
        assert np.array_equal(session.run(None, {"x": frame})[0], y)
        assert np.array_equal(session.get_state()["state"], state)


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
def test_interleaved_streams_give_the_bits_of_unbroken_ones(runtime: str) -> None:
    session = opened(runtime=runtime)
    streams = [session.stream() for _ in STREAMS[:3]]
    found: list[list[Array]] = [[], [], []]
    for place in range(12):
        for stream, frames, results in zip(streams, STREAMS, found, strict=False):
            results += stream.run(None, {"x": frames[place]})
    assert all(same(results, outputs(frames)) for results, frames in zip(found, STREAMS, strict=False))


def test_reset_and_restore_mid_stream() -> None:
    session, expected = opened(), outputs(STREAMS[0])
    first = [session.run(None, {"x": frame})[0] for frame in STREAMS[0][:5]]
    kept = session.get_state()
    session.reset()
    assert session.get_state() == {}
    assert same([session.run(None, {"x": frame})[0] for frame in STREAMS[1]], outputs(STREAMS[1]))
    other = opened()  # a state goes on in another session
    for one in (session, other):
        one.set_state(kept)
        kept["state"][...] = 7  # what was given is a copy
        rest = [one.run(None, {"x": frame})[0] for frame in STREAMS[0][5:]]
        assert same([*first, *rest], expected)
        kept["state"][...] = unbroken(STREAMS[0])[4][1]
    session.set_state({})
    assert same([session.run(None, {"x": frame})[0] for frame in STREAMS[2]], outputs(STREAMS[2]))


def test_eight_threads_each_its_stream() -> None:
    session = calib8.InferenceSession(quantized(), threads=2)
    streams = [session.stream() for _ in STREAMS]

    def through(number: int) -> list[Array]:
        return [streams[number].run(None, {"x": frame})[0] for frame in STREAMS[number]]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(through, range(8)))
    assert all(same(one, outputs(frames)) for one, frames in zip(found, STREAMS, strict=True))


def test_results_of_the_caller_and_the_state_as_an_output() -> None:
    session, y = opened(), np.empty((1, 2), np.float32)
    for frame, (expected, state) in zip(STREAMS[0][:4], unbroken(STREAMS[0]), strict=False):
        session.run_into({"x": frame}, [y])
        assert np.array_equal(y, expected)
        assert np.array_equal(session.get_state()["state"], state)
    given = session.run(["stateN"], {"x": STREAMS[0][4]})[0]
    given[...] = 0  # the caller's own
    assert np.array_equal(session.run(None, {"x": STREAMS[0][5]})[0], outputs(STREAMS[0])[5])


def test_programs_and_plans_carry_the_states(tmp_path: Path) -> None:
    session, expected = opened(), outputs(STREAMS[0])
    session.save(tmp_path / "a.c8")
    save_program(session.program, tmp_path / "a.c8p")
    [kept] = load_program(tmp_path / "a.c8p").states
    assert (kept.input, kept.output) == ("state", "stateN")
    for name in ("a.c8", "a.c8p"):
        other = calib8.InferenceSession(tmp_path / name)
        assert same([other.run(None, {"x": frame})[0] for frame in STREAMS[0]], expected)
        assert len(calib8.InferenceSession(tmp_path / name, state={}).get_inputs()) == 2
    stateless = calib8.InferenceSession(tmp_path / "a.c8", state={})
    stateless.save(tmp_path / "b.c8")
    declared = calib8.InferenceSession(tmp_path / "b.c8", state=PAIRS)
    assert same([declared.run(None, {"x": frame})[0] for frame in STREAMS[0]], expected)


def test_files_without_states_are_those_of_the_version_before(tmp_path: Path) -> None:
    session = opened()
    for state, version in ((None, 4), ({}, 3)):
        save_plan(opened(state=state).plan, tmp_path / "a.c8")
        assert (tmp_path / "a.c8").read_bytes()[8] == version
    save_program(replace(session.program, states=()), tmp_path / "a.c8p")
    assert (tmp_path / "a.c8p").read_bytes()[8] < 4
    assert b'"states":' not in (tmp_path / "a.c8p").read_bytes()


def test_a_state_may_begin_with_other_values_than_zeros(tmp_path: Path) -> None:
    session = opened()
    initial = normal(2, 1, UNITS, seed=5)
    program = replace(session.program, states=(State("state", "stateN", initial),))
    save_program(program, tmp_path / "a.c8p")
    calib8.InferenceSession(tmp_path / "a.c8p").save(tmp_path / "a.c8")
    by_hand = opened(state={}).run(["y"], {"x": STREAMS[0][0], "state": initial})[0]
    for name, runtime in (("a.c8p", "reference"), ("a.c8p", "calib8"), ("a.c8", "calib8")):
        other = calib8.InferenceSession(tmp_path / name, runtime=runtime)
        for _ in range(2):
            assert np.array_equal(other.run(None, {"x": STREAMS[0][0]})[0], by_hand)
            other.reset()


def test_codes_of_a_declared_state_are_those_of_what_feeds_it(tmp_path: Path) -> None:
    program = EXAMPLES["Add", "onnx"]
    (state, fed), (result,) = program.inputs, program.outputs
    slots = list(program.slots)
    slots[result.slot] = replace(slots[result.slot], scales=np.array([0.1], np.float32))
    save_program(replace(program, slots=tuple(slots)), tmp_path / "a.c8p")
    feeds = {fed.name: np.zeros(slots[fed.slot].shape, slots[fed.slot].dtype)}
    with pytest.raises(ModelError, match="state"):
        calib8.InferenceSession(tmp_path / "a.c8p", state={state.name: result.name}).run(None, feeds)
    calib8.InferenceSession(tmp_path / "a.c8p").save(tmp_path / "a.c8")
    with pytest.raises(UsageError, match="holds codes"):
        calib8.InferenceSession(tmp_path / "a.c8", state={state.name: result.name})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda s: s.run(None, {"x": STREAMS[0][0], "state": np.zeros((2, 1, 4))}), "which is a state"),
        (lambda s: s.run(None, {"x": np.zeros((2, FRAME), np.float32)}), "float32 2×6"),
        (lambda s: s.set_state({"state": np.zeros((2, 2, 4), np.float32)}), "takes state: float32 2×1×4"),
        (lambda s: s.set_state({"h": np.zeros(4)}), "got 'h'"),
        (lambda s: s.set_state({"state": np.full((2, 1, 4), np.nan, np.float32)}), "'state' holds NaN"),
        (lambda s: s.set_state({"state": [[[0, 0, 0, np.inf]], [[0] * 4]]}), "'state' holds NaN or infinite"),
        (lambda s: s.run(["z"], {"x": STREAMS[0][0]}), "no output 'z'"),
    ],
)
def test_wrong_frames_and_states_are_told(
    wrong: Callable[[calib8.InferenceSession], object], told: str
) -> None:
    session = opened()
    session.run(None, {"x": STREAMS[0][0]})
    before = session.get_state()["state"]
    with pytest.raises(DataError) as caught:
        wrong(session)
    assert told in str(caught.value)
    assert np.array_equal(session.get_state()["state"], before)  # nothing happened


def test_sizes_of_a_stream_change_where_it_begins_anew() -> None:
    """What a stream remembers of the frame before serves frames and states of the same sizes alone."""
    sizes = {"x": ["N", FRAME], "s": [2, "N", UNITS], "y": ["N", 2], "t": [2, "N", UNITS]}
    model = streaming("s", "t", **sizes)
    made = calib8.quantize(model, {"x": normal(40, FRAME, seed=9)}, target="calib8", effort="fast")
    session, both = (
        calib8.InferenceSession(ir.to_proto(made.model).SerializeToString(), threads=1) for _ in range(2)
    )
    ones, pairs = STREAMS[0][:3], np.concatenate([STREAMS[0], STREAMS[1]], axis=1)[:3]

    def alone(frames: Array) -> list[Array]:
        session.reset()
        return [session.run(None, {"x": frame})[0] for frame in frames]

    expected, in_pairs = alone(ones), alone(pairs)
    with pytest.raises(DataError, match="the state 's' is 2×2×4, and these inputs need 2×1×4"):
        session.run(None, {"x": ones[0]})
    assert [both.run(None, {"x": frame})[0].tolist() for frame in ones] == [y.tolist() for y in expected]
    both.set_state(session.get_state())
    with pytest.raises(DataError, match="the state 's' is 2×2×4"):
        both.run(None, {"x": ones[0]})
    both.reset()
    assert same([both.run(None, {"x": frame})[0] for frame in pairs], in_pairs)
    both.reset()
    assert same([both.run(None, {"x": frame})[0] for frame in ones], expected)


def test_times_of_a_frame_need_no_states() -> None:
    session = opened()
    first = session.run(None, {"x": STREAMS[0][0]})[0]
    steps = session.profile({"x": STREAMS[0][1]}, runs=1)
    whole = {"x": STREAMS[0][1], "state": np.zeros((2, 1, UNITS), np.float32)}
    assert [step.name for step in steps] == [step.name for step in session.profile(whole, runs=1)]
    assert same([first, session.run(None, {"x": STREAMS[0][1]})[0]], outputs(STREAMS[0][:2]))
    with pytest.raises(DataError, match="got 'y'"):
        session.profile({"y": STREAMS[0][1]}, runs=1)


def test_declared_states_that_cannot_be_and_sessions_without_states() -> None:
    for state, told in (
        ({"a": "y"}, "'a' is not an input"),
        ({"state": "b"}, "'b' is not an output"),
        ({"state": "y"}, "cannot be fed with"),
    ):
        with pytest.raises(UsageError, match=told):
            opened(state=state)
    with pytest.raises(UsageError, match="state: is 'h=hn'"):
        opened(state="h=hn")
    for call in ("reset", "get_state", "stream"):
        with pytest.raises(UsageError, match="has no states"):
            getattr(opened(state={}), call)()


def test_programs_and_plans_with_states_that_are_none_are_refused(tmp_path: Path) -> None:
    session = opened()
    short = State("state", "stateN", np.zeros(3, np.float32))
    for state in (State("x", "stateN"), State("state", "z"), short):
        with pytest.raises(ModelError, match='state "'):
            verify(replace(session.program, states=(state,)))
    lost = State("state", "stateN", np.full((2, 1, UNITS), np.nan, np.float32))
    with pytest.raises(ModelError, match='state "state": begins with NaN or infinite values'):
        verify(replace(session.program, states=(lost,)))
    with pytest.raises(ModelError, match="shares a port"):
        verify(replace(session.program, states=(State("state", "stateN"),) * 2))
    for broken in (PlanState("x", "stateN"), PlanState("state", "z"), PlanState("state", "stateN", 0, b"1")):
        with pytest.raises(Calib8Error, match="is not a plan that can run"):
            save_plan(replace(session.plan, states=(broken,)), tmp_path / "a.c8")


def test_what_only_moves_states_is_not_of_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """With or without stored states; ONNX Runtime would give the same bits."""
    proto = onnx.load_from_string(quantized())
    program = lower(load_model(proto))
    assert not any(isinstance(step, Float) for step in program.instructions)
    del proto.metadata_props[:]
    assert not any(isinstance(step, Float) for step in lower(load_model(proto)).instructions)
    monkeypatch.setattr(
        importlib.import_module("calib8.program.lower.lower"), "_feeds_cells", lambda *_: False
    )
    plain = lower(load_model(proto))
    assert any(isinstance(step, Float) for step in plain.instructions)
    for seed in range(3):
        feeds = {"x": normal(1, FRAME, seed=seed), "state": normal(2, 1, UNITS, seed=seed + 9)}
        assert same(run_program(program, feeds), run_program(plain, feeds))
