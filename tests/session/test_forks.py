"""Children of a process whose other threads are busy: they run, open, close and end, and wait for nobody."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from forked import LIMIT, ends_well
from session_models import float_between

from calib8 import InferenceSession, _core
from calib8.data import stored_bytes
from calib8.data.stored_arrays import open_arrays
from calib8.forks import ForkLock, fork_count
from small_models import Array, normal

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

CALLERS = 4
CHILDREN = 8
FEW = 3
"""Children where each takes seconds, as the parent's threads keep the interpreter for themselves."""


@contextmanager
def busy(work: Callable[[int], bool]) -> Iterator[None]:
    """While it lasts, threads call work(0), work(1) … again and again; it must say yes each time."""
    end, wrong = threading.Event(), []

    def call(first: int) -> None:
        number = first
        while not end.is_set():
            if not work(number):
                wrong.append(number)
            number += 1

    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads are stopped anywhere, with locks in their hands too
    for caller in callers:
        caller.start()
    try:
        yield
    finally:
        end.set()
        sys.setswitchinterval(interval)
        for caller in callers:
            caller.join()
    assert not wrong


def gives(session: InferenceSession, feeds: dict[str, Array], want: Sequence[Array]) -> bool:
    return all(map(np.array_equal, session.run(None, feeds), want))


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_children_run_the_session_and_open_others(proto: onnx.ModelProto, threads: int) -> None:
    """More batch sizes than a session keeps ready: some thread always makes one ready, and holds the lock."""
    session = InferenceSession(proto, threads=threads)
    reference = InferenceSession(proto, runtime="reference")
    fed = [{"x": normal(batch, 3, 6, 6, seed=batch)} for batch in range(1, 8)]
    cases = [(feeds, reference.run(None, feeds)) for feeds in fed]

    def works(number: int) -> bool:
        return gives(session, *cases[number % len(cases)])

    def child() -> bool:
        right = all(works(number) for number in range(3))
        right &= ends_well(lambda: works(3))
        other = InferenceSession(proto, threads=threads + 1)
        return right and gives(other, *cases[0])

    with busy(works):
        assert all(ends_well(child) for _ in range(CHILDREN))
    assert works(0)


@pytest.mark.parametrize(
    ("threads", "children"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in ((2, FEW), (1, CHILDREN), (2, CHILDREN))],
)
def test_children_open_float_parts_anew_and_close_none_of_the_parents(threads: int, children: int) -> None:
    int8, feeds = float_between(), {"x": normal(1, 3, 6, 6, seed=7)}
    want = InferenceSession(int8, runtime="reference").run(None, feeds)
    sessions = [InferenceSession(int8, threads=threads)]
    assert sessions[0].plan.floats

    def works(_: int = 0) -> bool:
        return gives(sessions[0], feeds, want)

    def child() -> bool:
        right = works() and works()
        sessions.clear()
        gc.collect()
        return right

    def closes() -> bool:
        sessions.clear()
        gc.collect()
        return gives(InferenceSession(int8, threads=threads), feeds, want)

    assert works() and ends_well(closes)
    with busy(works):
        assert all(ends_well(child) for _ in range(children))
        assert ends_well(closes)
    assert works()


@pytest.mark.slow
def test_children_count_while_threads_of_the_parent_do() -> None:
    values, many = normal(100_000, seed=3), normal(4_000_000, seed=4)

    def counts() -> bool:
        accumulator = _core.TensorAccumulator()
        _core.accumulate([(accumulator, values, 1)], 3)
        return accumulator.count == values.size

    shared = _core.TensorAccumulator()

    def into_one(number: int) -> bool:
        """Counts by turns alone and into what all share, whose mutex some thread holds nearly always."""
        if number % 2:
            shared.update(many)
        return counts()

    def child() -> bool:
        shared.update(values)
        return shared.count >= values.size and counts() and ends_well(counts)

    with busy(into_one):
        assert all(ends_well(child) for _ in range(CHILDREN))


def test_a_child_ends_as_any_process() -> None:
    """With what is done at the end of Python, while a thread of the parent runs."""
    code = f"""
import os, sys, threading
import numpy as np
sys.path[:0] = {sys.path!r}
from example_programs import EXAMPLES
from bits import random_feeds
from calib8 import InferenceSession
program = EXAMPLES["Conv", "onnx"]
feeds = random_feeds(program, np.random.default_rng(0))
session = InferenceSession(program, threads=2)
threading.Thread(target=lambda: [session.run(None, feeds) for _ in range(20000)], daemon=True).start()
session.run(None, feeds)
if os.fork() == 0:
    session.run(None, feeds)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert run.stdout == "3\n", run.stderr


def test_a_lock_is_free_in_a_child_alone() -> None:
    lock, before = ForkLock(), fork_count()

    def free() -> bool:
        with lock:
            return fork_count() == before + 1

    with lock:
        assert ends_well(free)
        taken = threading.Thread(target=free)
        taken.start()
        taken.join(0.05)
        assert taken.is_alive()
    taken.join()
    assert fork_count() == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("compressed", [False, True])
def test_children_read_the_rows_of_arrays_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool, order: str
) -> None:
    """Blocks that are inflated for every row: some thread always inflates one, and holds the lock."""
    monkeypatch.setattr(stored_bytes, "BLOCK", 1 << 16)
    monkeypatch.setattr(stored_bytes, "CACHED", 1)
    values = np.random.default_rng(2).integers(0, 50, (200, 900)).astype(np.float32)
    saved = np.asfortranarray(values) if order == "columns" else values
    (np.savez_compressed if compressed else np.savez)(tmp_path / "x.npz", x=saved)
    opened = [open_arrays(tmp_path / "x.npz")["x"]]

    def read(number: int) -> bool:
        if number % 5 == 0:
            opened[0] = open_arrays(tmp_path / "x.npz")["x"]
        row = number * 37 % 200
        return np.array_equal(opened[0][row], values[row])

    with busy(read):
        assert all(ends_well(lambda: all(map(read, range(3, 9)))) for _ in range(CHILDREN))
