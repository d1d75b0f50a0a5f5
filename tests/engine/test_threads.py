"""Many Python threads on one session and on several: right answers, and memory that stays."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from padded_layers import OUTPUTS, padded_conv

from bits import Array, random_feeds
from calib8 import InferenceSession
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from program.example_programs import EXAMPLES, codes, layer, single, weights

CALLERS = 8
RUNS = 1000
FEEDS = 5

TASKS = Path("/proc/self/task")
"""A folder per thread of this process."""


def cases(program: Program) -> list[tuple[dict[str, Array], list[Array]]]:
    """Inputs with the reference's outputs."""
    rng = np.random.default_rng(3)
    feeds = [random_feeds(program, rng) for _ in range(FEEDS)]
    return [(fed, run_program(program, fed)) for fed in feeds]


def in_threads(work: Callable[[int], None]) -> None:
    """work(0), work(1) … on threads that start together; the first failure is raised here."""
    failures: list[BaseException] = []
    start = threading.Barrier(CALLERS)

    def guarded(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=guarded, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if failures:
        raise failures[0]


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def large_results() -> Program:
    """A layer whose result takes 12 kB: 100 MB if the results of all runs stayed."""
    slots = codes("x", 1, 64, 64, 3), codes("y", 1, 64, 64, OUTPUTS)
    return Program("onnx", slots, (padded_conv("layer", 0, 1, 3),), (Port("x", 0),), (Port("y", 1),))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_shared_session(threads: int) -> None:
    program = large_results()
    session, wanted = InferenceSession(program, threads=threads), cases(program)

    def work(number: int) -> None:
        for run in range(RUNS):
            feeds, [want] = wanted[(number + run) % FEEDS]
            [got] = session.run(None, feeds)
            assert np.array_equal(got, want)

    work(0)
    before = resident_bytes()
    in_threads(work)
    assert resident_bytes() - before < 8e6
    assert session.memory().contexts <= CALLERS


def test_sessions_of_their_own() -> None:
    programs = [EXAMPLES[name, "single"] for name in ("Conv", "FullyConnected", "Conv of uint8", "Transpose")]
    shared = [(InferenceSession(program, threads=2), cases(program)) for program in programs]
    own = [
        (InferenceSession(program, threads=1), wanted)
        for program, (_, wanted) in zip(programs, shared, strict=True)
    ]

    def work(number: int) -> None:
        for run in range(RUNS):
            for sessions in (shared, own):
                session, wanted = sessions[(number + run) % len(programs)]
                feeds, [want] = wanted[run % FEEDS]
                [got] = session.run(None, feeds)
                assert np.array_equal(got, want)

    in_threads(work)


def test_results_into_arrays_of_the_callers() -> None:
    program = EXAMPLES["Conv", "tflite"]
    session, wanted = InferenceSession(program, threads=2), cases(program)

    def work(number: int) -> None:
        result = np.empty((2, 5, 6, 6), np.uint8)
        for run in range(RUNS // 4):
            feeds, [want] = wanted[(number + run) % FEEDS]
            session.run_into(feeds, [result])
            assert np.array_equal(result, want)

    in_threads(work)


def test_sessions_come_and_go() -> None:
    """Threads, arenas and constants of a session end with it."""
    program = heavy()
    feeds = random_feeds(program, np.random.default_rng(0))

    def open_and_run() -> None:
        session = InferenceSession(program, threads=2)
        session.run(None, feeds)

    threads = len(list(TASKS.iterdir()))
    for _ in range(3):
        open_and_run()
    before = resident_bytes()
    for _ in range(30):
        open_and_run()
    assert ends_with(threads)
    assert resident_bytes() - before < 16e6, "30 sessions of more than 2 MB each"


def ends_with(threads: int) -> bool:
    """The process comes down to so many threads; the system lists a joined one for a moment longer."""
    for _ in range(60_000):  # ten minutes
        if len(list(TASKS.iterdir())) <= threads:
            return True
        time.sleep(0.01)
    return False


def heavy() -> Program:
    """A layer with two million weights on one pixel."""
    return single(
        op.FullyConnected,
        [codes("x", 1, 1024)],
        codes("y", 1, 2048),
        "onnx",
        **layer("onnx", 2048, weights(2048, 1024)),
    )


def processors(task: Path) -> str:
    """Where a thread may run, as the system lists it."""
    lines = (task / "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


@pytest.mark.parametrize("pin", [True, False])
def test_pinned_threads_stay_on_a_processor(pin: bool) -> None:
    known = set(TASKS.iterdir())
    program, usable = heavy(), sorted(os.sched_getaffinity(0))
    session = InferenceSession(program, threads=2, pin=pin)
    session.run(None, random_feeds(program, np.random.default_rng(0)))
    [worker] = set(TASKS.iterdir()) - known
    for _ in range(60_000 if pin else 10):  # the worker does it when it is first awake
        time.sleep(0.01)
        if pin and processors(worker) == str(usable[1 % len(usable)]):
            break
    else:
        assert not pin and processors(worker) == processors(TASKS / str(os.getpid()))
    assert session.plan.rows, "the session and its threads are still there"


def sleeps(task: Path) -> bool:
    return (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_threads_that_woke_may_use_all_processors() -> None:
    known, program = set(TASKS.iterdir()), heavy()
    session, fed = InferenceSession(program, threads=3), random_feeds(program, np.random.default_rng(0))
    expected, usable = run_program(program, fed), processors(TASKS / str(os.getpid()))
    for _ in range(5):  # the first run makes the workers, the others wake them
        results = session.run(None, fed)
        assert all(np.array_equal(one, other) for one, other in zip(results, expected, strict=True))
        workers = set(TASKS.iterdir()) - known
        assert len(workers) == 2
        for _ in range(6000):
            if all(sleeps(worker) and processors(worker) == usable for worker in workers):
                break
            time.sleep(0.01)
        assert [processors(worker) for worker in workers] == [usable, usable]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_runs_alone() -> None:
    """The threads of the pool stay with the parent."""
    program = EXAMPLES["Conv", "onnx"]
    session, [(feeds, [want]), *_] = InferenceSession(program, threads=2), cases(program)
    session.run(None, feeds)
    child = os.fork()
    if child == 0:
        right = np.array_equal(session.run(None, feeds)[0], want)
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert np.array_equal(session.run(None, feeds)[0], want)


def convolution(size: int) -> Program:
    """A padded 3×3 layer of 16 channels: a border, a copy of the input and the layer itself."""
    x, y = codes("x", 1, size, size, 16), codes("y", 1, size, size, 16)
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    return single(op.Conv, [x], y, "onnx", **layer("onnx", 16, weights(16, 3, 3, 16)), **window, groups=1)


@pytest.mark.parametrize("size", [3, 96])
def test_what_threads_share(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large layers; of small ones nothing, unless the environment asks for all. The results are the same."""
    program = convolution(size)
    [(feeds, [wanted]), *_] = cases(program)
    everything = Engine(compile_program(program), threads=2)
    assert all(everything._native.shared)
    monkeypatch.delenv("CALIB8_SHARE_ALL")
    engine = Engine(compile_program(program), threads=2)
    shared = dict(zip((row.opcode for row in engine.plan.rows), engine._native.shared, strict=True))
    assert shared["conv"] == (size == 96)
    assert not shared["fill_halo"]
    for each in (everything, engine):
        np.testing.assert_array_equal(each.run(feeds)[0], wanted)
