"""Runs whose arrays are bound once: the bits of ``run``, what is written into the arrays, what is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from session_models import float_between, quantized

from calib8 import BoundRun, DataError, InferenceSession, UsageError, _core
from calib8.session.bound import BUSY, OneAtATime
from small_models import normal


def new_input(seed: int) -> np.ndarray:
    return normal(1, 3, 6, 6, seed=seed)


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
@pytest.mark.parametrize("make", [quantized, float_between])
def test_each_run_reads_what_the_arrays_hold_now(make: Callable[[], onnx.ModelProto], runtime: str) -> None:
    session = InferenceSession(make(), runtime=runtime)
    x = new_input(1)
    bound = session.bind({"x": x})
    for seed in (2, 3):
        bound.inputs["x"][...] = new_input(seed)
        bound.run()
        np.testing.assert_array_equal(bound.results[0], session.run(None, {"x": new_input(seed)})[0])
    assert bound.inputs["x"] is x


def test_results_may_be_given() -> None:
    session = InferenceSession(quantized())
    [wanted] = session.run(None, {"x": new_input(1)})
    result = np.zeros_like(wanted)
    for results in ([result], {"y": result}):
        result[...] = 0
        bound = session.bind({"x": new_input(1)}, results)
        assert bound.results[0] is result
        bound.run()
        np.testing.assert_array_equal(result, wanted)


def test_bound_runs_have_memory_of_their_own() -> None:
    session = InferenceSession(quantized("1,3,6,6"), threads=2)
    feeds = [new_input(seed) for seed in range(4)]
    wanted = [session.run(None, {"x": feed})[0] for feed in feeds]
    bounds = [session.bind({"x": feed}) for feed in feeds]
    wrong: list[int] = []

    def repeat(number: int, bound: BoundRun) -> None:
        for _ in range(200):
            bound.results[0][...] = 0
            bound.run()
            if not np.array_equal(bound.results[0], wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=repeat, args=pair) for pair in enumerate(bounds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert session.memory().contexts == len(bounds), "what run() used is the first one's"


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
@pytest.mark.parametrize("make", [quantized, float_between])
def test_a_second_thread_is_refused(make: Callable[[], onnx.ModelProto], runtime: str) -> None:
    """Many runs of two threads: each gives the right result or says that the other one is under way."""
    session = InferenceSession(make(), runtime=runtime, threads=1)
    bound = session.bind({"x": new_input(1)})
    wanted = session.run(None, {"x": new_input(1)})[0]
    told: list[str] = []

    def repeat() -> None:
        for _ in range(50 if runtime == "reference" else 2000):
            try:
                bound.run()
            except UsageError as error:
                told.append(str(error))

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("under way in another thread" in text for text in told)
    bound.run()
    np.testing.assert_array_equal(bound.results[0], wanted)


def test_the_engine_says_it_in_the_words_that_bound_runs_know() -> None:
    assert f"the context is {BUSY}".encode() in Path(_core.__file__).read_bytes()


def test_one_at_a_time() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait(30)

    run = OneAtATime(wait)
    thread = threading.Thread(target=run)
    thread.start()
    inside.wait(30)
    with pytest.raises(ValueError, match="another thread"):
        run()
    go_on.set()
    thread.join()
    run()


def test_other_errors_of_a_run_stay_what_they_are() -> None:
    def broken() -> None:
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        BoundRun({}, [], OneAtATime(broken)).run()


@pytest.mark.parametrize("make", [pytest.param(quantized, marks=pytest.mark.slow), float_between])
def test_a_child_of_a_fork_goes_on(make: Callable[[], onnx.ModelProto]) -> None:
    """Although another thread of the parent was in the middle of a run."""
    session = InferenceSession(make(), threads=1)
    wanted = session.run(None, {"x": new_input(1)})[0]
    bound = session.bind({"x": new_input(1)})
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            bound.run()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        children = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                bound.results[0][...] = 0
                bound.run()
                os._exit(0 if np.array_equal(bound.results[0], wanted) else 1)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 20
    finally:
        stop.set()
        thread.join()


def test_a_bound_run_outlives_the_arrays_names_and_the_session() -> None:
    session = InferenceSession(quantized())
    wanted = session.run(None, {"x": new_input(1)})[0]
    bound = session.bind({"x": new_input(1)})
    del session
    bound.run()
    np.testing.assert_array_equal(bound.results[0], wanted)


def test_memory_goes_back() -> None:
    session = InferenceSession(quantized("1,3,6,6"))
    for seed in range(5):
        session.bind({"x": new_input(seed)}).run()
    assert session.memory().contexts == 1


def test_a_plan_can_be_bound(tmp_path: Path) -> None:
    session = InferenceSession(quantized())
    session.save(tmp_path / "net.c8")
    bound = InferenceSession(tmp_path / "net.c8").bind({"x": new_input(1)})
    bound.run()
    np.testing.assert_array_equal(bound.results[0], session.run(None, {"x": new_input(1)})[0])


def test_inputs_that_would_be_copied_are_refused() -> None:
    session = InferenceSession(quantized())
    with pytest.raises(DataError, match="is a list"):
        session.bind({"x": new_input(1).tolist()})
    with pytest.raises(DataError, match="cannot be read in one piece"):
        session.bind({"x": normal(1, 6, 6, 3).transpose(0, 3, 1, 2)})
    with pytest.raises(DataError, match="1×3×6×5"):
        session.bind({"x": normal(1, 3, 6, 5)})
    with pytest.raises(DataError, match="takes x"):
        session.bind({"z": new_input(1)})


def test_results_that_do_not_fit_are_refused() -> None:
    session = InferenceSession(quantized())
    with pytest.raises(DataError, match="got 2 arrays for results"):
        session.bind({"x": new_input(1)}, [np.zeros(3, np.float32)] * 2)
    memory = np.zeros(4 * 6 * 6, np.float32)
    x, y = memory[: 3 * 6 * 6].reshape(1, 3, 6, 6), memory.reshape(1, 4, 6, 6)
    with pytest.raises(DataError, match="overlaps"):
        session.bind({"x": x}, [y])
