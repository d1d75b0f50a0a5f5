"""InferenceSession with the native engine: the reference's bits, arrays of the caller, threads, figures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from session_models import FEEDS, float_between

from calib8 import DataError, InferenceSession, UnsupportedModelError, UsageError
from calib8.engine.run import Engine, available_isas
from calib8.model.runtime import Session, open_session
from small_models import Array, normal, onnx_model


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", ["onnx", "tflite", "single"])
@pytest.mark.parametrize("isa", available_isas())
def test_the_engine_gives_the_bits_of_the_reference(proto: onnx.ModelProto, profile: str, isa: str) -> None:
    feeds = {"x": normal(3, 3, 6, 6, seed=5)}
    [want] = InferenceSession(proto, profile=profile, runtime="reference").run(None, feeds)
    for threads in (1, 2, 3):
        [got] = InferenceSession(proto, profile=profile, isa=isa, threads=threads).run(None, feeds)
        np.testing.assert_array_equal(got, want)


def test_a_float_part_runs_in_onnx_runtime() -> None:
    int8 = float_between("N")
    session, feeds = InferenceSession(int8), {"x": normal(2, 3, 6, 6, seed=7)}
    [want] = InferenceSession(int8, runtime="reference").run(None, feeds)
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, feeds), [want])
    assert "last" in session.plan.float_nodes
    lines = session.profile(feeds, runs=2)
    [call] = [line for line in lines if line.step == "float"]
    assert 0 < call.share < 1 and call.seconds > 0
    assert sum(line.share for line in lines) == pytest.approx(1)
    with pytest.raises(UnsupportedModelError, match="last"):
        InferenceSession(int8, integer_only=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_of_float_parts_leave_the_processors_to_the_engine(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spinning, they made a network of 17 such parts ten times slower on two threads than on one."""
    opened: list[Session] = []

    def watched(*arguments: Any, **options: Any) -> Session:
        opened.append(open_session(*arguments, **options))
        return opened[-1]

    session = InferenceSession(float_between("N"), threads=threads)
    monkeypatch.setattr("calib8.model.runtime.open_session", watched)
    for _ in range(2):
        session.run(None, FEEDS)
    [options] = [found.handle.get_session_options() for found in opened]
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.intra_op_num_threads == threads


def test_results_go_into_the_callers_arrays(proto: onnx.ModelProto) -> None:
    feeds = {"x": normal(2, 3, 6, 6, seed=5)}
    for runtime in ("calib8", "reference"):
        session = InferenceSession(proto, runtime=runtime)
        [want] = session.run(None, feeds)
        for given in ("in order", "by name"):
            result = np.full((2, 4, 6, 6), np.nan, np.float32)
            session.run_into(feeds, [result] if given == "in order" else {"y": result})
            np.testing.assert_array_equal(result, want)


def spoiled(kind: str) -> Any:
    """Arrays that cannot take the output of the model for one sample."""
    shape = (1, 4, 6, 6)
    good = np.zeros(shape, np.float32)
    readonly = np.zeros(shape, np.float32)
    readonly.flags.writeable = False
    odd = np.zeros(good.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(shape)
    return {
        "none": [],
        "nothing": None,
        "one array": good,
        "two": [good, good],
        "another name": {"z": good},
        "no array": [good.tolist()],
        "another type": [good.astype(np.float64)],
        "another shape": [good[:, :3]],
        "another order": [np.asfortranarray(np.zeros((1, 4, 6, 6), np.float32))],
        "read-only": [readonly],
        "odd address": [odd],
    }[kind]


MISFITS = {
    "none": "got 0 arrays for results. Give one for each of y: float32 1×4×6×6",
    "nothing": "got a NoneType for results. Give a list or dict with an array for each of y: float32",
    "one array": "got a ndarray for results. Give a list or dict",
    "two": "got 2 arrays for results",
    "another name": "got arrays for 'z'. Give one for each of y",
    "no array": "the array for 'y' is a list",
    "another type": "the array for 'y' is y: float64 1×4×6×6. Give one of y: float32 1×4×6×6",
    "another shape": "the array for 'y' is y: float32 1×3×6×6",
    "another order": "cannot be written in one piece",
    "read-only": "the array for 'y' is read-only. Give a writeable array",
    "odd address": "cannot be written in one piece",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", MISFITS)
def test_arrays_that_cannot_take_the_results(proto: onnx.ModelProto, kind: str) -> None:
    with pytest.raises(DataError) as caught:
        InferenceSession(proto).run_into(FEEDS, spoiled(kind))
    assert MISFITS[kind] in str(caught.value)


def test_results_must_not_lie_in_the_inputs() -> None:
    one = np.float32(0.5)
    body = "f = DequantizeLinear(x, s, z) r = Relu(f) y = QuantizeLinear(r, s, z)"
    constants: dict[str, Array] = {"s": one, "z": np.uint8(3)}
    session = InferenceSession(onnx_model("uint8[1,2,4,4] x", "uint8[1,2,4,4] y", body, constants))
    both = np.zeros((1, 2, 4, 4), np.uint8)
    with pytest.raises(DataError, match=r"the array for 'y' overlaps another one"):
        session.run_into({"x": both}, [both])


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_threads_that_do_not_exist(proto: onnx.ModelProto, threads: int) -> None:
    with pytest.raises(UsageError, match=rf"threads {threads}: is not in 1 … 256. .* or None for as many"):
        InferenceSession(proto, threads=threads)


@pytest.mark.parametrize("number", [1.5, "2", True, np.True_])
def test_numbers_that_are_not_whole(proto: onnx.ModelProto, number: Any) -> None:
    with pytest.raises(UsageError, match=rf"threads {number!r}: is not a whole number"):
        InferenceSession(proto, threads=number)
    with pytest.raises(UsageError, match=rf"runs {number!r}: is not a number of runs"):
        InferenceSession(proto, threads=1).profile(runs=number)


def test_numbers_and_sizes_of_numpy(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto, threads=np.int64(2), shapes={"x": np.array([2, 3, 6, 6])})  # type: ignore[arg-type,dict-item]
    assert "threads=2" in repr(session)
    assert session.get_inputs()[0].shape == [2, 3, 6, 6]
    assert session.profile(runs=np.int8(1))  # type: ignore[arg-type]


def test_instruction_sets_that_do_not_exist(proto: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ", ".join(available_isas())
    with pytest.raises(UsageError, match=rf"isa 'sse9': is unknown, or .* Use one of {names}"):
        InferenceSession(proto, isa="sse9")
    with pytest.raises(UsageError, match=r"isa 'reference': does not go with the runtime reference"):
        InferenceSession(proto, isa="reference", runtime="reference")
    monkeypatch.setenv("CALIB8_ISA", "sse9")
    with pytest.raises(UsageError, match=r"CALIB8_ISA=sse9: .*sse9.* not available"):
        InferenceSession(proto)
    assert InferenceSession(proto, isa="reference").run(None, FEEDS)[0].shape == (1, 4, 6, 6)


def test_the_profile_tells_where_the_time_goes(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto, threads=1)
    alone = session.profile(runs=3)
    for lines in (alone, session.profile({"x": normal(2, 3, 6, 6)}, runs=1)):
        assert [line.step for line in lines] == [row.opcode for row in session.plan.rows]
        assert [line.name for line in lines] == list(session.plan.step_names)
        assert sum(line.share for line in lines) == pytest.approx(1)
        convolutions = [line for line in lines if line.step == "conv"]
        assert len(convolutions) == 2
        assert all(line.seconds > 0 and line.gmacs > 0 for line in convolutions)
        samples = 1 if lines is alone else 2
        macs = [samples * 36 * 8 * 3 * 9, samples * 36 * 4 * 8 * 9]
        assert [line.gmacs * line.seconds * 1e9 for line in convolutions] == pytest.approx(macs)
        assert {line.gmacs for line in lines if line.step == "quantize"} <= {0.0}
    with pytest.raises(UsageError, match="runs 0"):
        session.profile(runs=0)
    with pytest.raises(UsageError, match=r"has no plan: the runtime is 'reference'"):
        InferenceSession(proto, runtime="reference").profile()


def test_the_profile_is_that_of_the_fastest_run(
    proto: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = InferenceSession(proto, threads=1)
    clock = iter([0, 300, 1000, 1100, 2000, 2200])  # runs of 300, 100 and 200 ns
    runs = iter([30_000, 10_000, 20_000])

    def timed(self: Engine, feeds: Any, steps: Any = None, floats: Any = None) -> list[Array]:
        if steps is not None:
            steps[:] = next(runs)
        return []

    monkeypatch.setattr(Engine, "run", timed)
    monkeypatch.setattr("calib8.session.prepared.time.perf_counter_ns", lambda: next(clock))
    assert [line.seconds for line in session.profile(runs=3)] == pytest.approx(
        [10e-6] * len(session.plan.rows)
    )


def test_memory_is_counted(proto: onnx.ModelProto) -> None:
    session = InferenceSession(proto, threads=1)
    before = session.memory()
    assert before.contexts == 0 and before.total == before.constants == session.plan.constants.nbytes
    session.run(None, FEEDS)
    session.run(None, FEEDS)
    after = session.memory()
    assert (after.contexts, after.arena) == (1, session.plan.arena_bytes)
    assert after.total == after.constants + after.arena + after.scratch
    session.run(None, {"x": normal(8, 3, 6, 6)})
    assert session.memory().arena > after.arena
    with pytest.raises(UsageError, match=r"has no plan"):
        InferenceSession(proto, runtime="reference").memory()


def test_eight_threads_feed_shapes_that_nobody_has_seen(
    proto: onnx.ModelProto, lowered_shapes: list[tuple[int, ...]]
) -> None:
    """Each shape is lowered once, however many threads ask for it at the same time."""
    session = InferenceSession(proto, threads=1)
    reference = InferenceSession(proto, runtime="reference")
    feeds = [{"x": normal(size, 3, 6, 6, seed=size)} for size in (1, 2, 3)]
    wanted = [reference.run(None, fed)[0] for fed in feeds]
    lowered_shapes.clear()

    def work(number: int) -> bool:
        places = [(number + turn) % 3 for turn in range(30)]
        return all(np.array_equal(session.run(None, feeds[p])[0], wanted[p]) for p in places)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert sorted(shape[0] for shape in lowered_shapes) == [1, 2, 3]
