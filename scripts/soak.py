"""Sessions that many threads open, run and close: the reference's bits every time, and nothing that grows.

    python scripts/soak.py --runs 100000 --threads 16
    python scripts/soak.py --seconds 600 --seed 7

Threads take turns at models of several sizes, from a few channels to chains of wide layers. Most runs use a
session that all threads share; some open one of their own from a program or a plan file, with one to three
threads, run it and close it; some fork. Every output is compared with NumPy's reference. Memory, open files
and threads of the process are looked at ten times; after the first fifth (take 5,000 runs or more), in which
sessions get memory for all threads, memory may grow by the given share, files and threads by nothing.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("engine", "program/lower", "program", "")]

from example_programs import chain  # noqa: E402
from nets import Net  # noqa: E402

import bits  # noqa: E402 - what tests share lies in folders of theirs
from calib8.engine.compile import compile_program  # noqa: E402
from calib8.engine.plan_file import save_plan  # noqa: E402
from calib8.program.program import Program  # noqa: E402
from calib8.program.reference.executor import run_program  # noqa: E402
from calib8.session import InferenceSession  # noqa: E402

Array = npt.NDArray[Any]
SAMPLES: Final = 8
"""Inputs of a model whose outputs are known."""

LOOKS: Final = 10
OPENED: Final = 0.02
"""Part of the runs that open a session of their own."""

FORKED: Final = 0.0005
"""Part of the runs that fork."""


@dataclass
class Model:
    """A program, a file of its plan, inputs with the outputs of the reference, and a session for all."""

    program: Program
    path: Path
    feeds: list[dict[str, Array]]
    wanted: list[list[Array]]
    shared: InferenceSession


@dataclass
class Work:
    """What all threads share.

    Attributes:
        left: runs that nobody has taken.
        wrong: what differed, or what was raised.
    """

    models: list[Model]
    left: int
    end: float
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: int = 0
    forked: int = 0

    def take(self) -> bool:
        """A run is taken; False where none is left."""
        with self.lock:
            if self.left <= 0 or self.wrong or time.monotonic() > self.end:
                return False
            self.left -= 1
            return True


def programs() -> list[Program]:
    """From small to large."""
    made = [chain()]
    for rows, channels, layers in ((4, 3, 1), (16, 8, 3), (28, 32, 4), (56, 64, 3)):
        net = Net(seed=rows)
        value = net.input(1, rows, rows, channels)
        for _ in range(layers):
            value = net.conv(value, 2 * channels)
        made.append(net.program(value))
    return made


def models(folder: Path) -> list[Model]:
    """With everything that is known of them."""
    found = []
    for number, program in enumerate(programs()):
        rng = np.random.default_rng(number)
        path = folder / f"{number}.c8"
        save_plan(compile_program(program), path)
        feeds = [bits.random_feeds(program, rng) for _ in range(SAMPLES)]
        wanted = [run_program(program, fed) for fed in feeds]
        found.append(Model(program, path, feeds, wanted, InferenceSession(path, threads=2)))
    return found


def gives(session: InferenceSession, model: Model, sample: int) -> bool:
    """Whether a session has the bits of the reference."""
    outputs = session.run(None, model.feeds[sample])
    return all(np.array_equal(have, want) for have, want in zip(outputs, model.wanted[sample], strict=True))


def call(work: Work, draw: random.Random) -> None:
    """What a thread does."""
    while work.take():
        model, sample = draw.choice(work.models), draw.randrange(SAMPLES)
        kind = draw.random()
        try:
            if kind < FORKED:
                work.forked += 1
                right = _in_a_child(lambda: gives(model.shared, model, sample))  # noqa: B023
            elif kind < FORKED + OPENED:
                work.opened += 1
                source = draw.choice([model.program, model.path])
                right = gives(InferenceSession(source, threads=draw.randint(1, 3)), model, sample)
            else:
                right = gives(model.shared, model, sample)
        except BaseException as error:
            work.wrong.append(repr(error))
            return
        if not right:
            work.wrong.append(f"{model.path.name}, sample {sample}: other bits than the reference")


def _in_a_child(job: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if job() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


@dataclass(frozen=True)
class Look:
    """The process at a moment: KiB, open files, threads."""

    runs: int
    memory: int
    files: int
    threads: int


def look(runs: int) -> Look:
    """What Linux says of this process."""
    gc.collect()
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    )
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - without a path object for each
    return Look(runs, int(status["VmRSS"].split()[0]), files, int(status["Threads"]))


def stretch(work: Work, runs: int, threads: int, seed: int) -> None:
    """So many runs by threads that begin and end with it."""
    work.left = runs
    callers = [
        threading.Thread(target=call, args=(work, random.Random(f"{seed} {number}")))
        for number in range(threads)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


def main() -> int:
    """Prints what was seen; 1 for other bits, or where something grows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20_000, help="in all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="most of all")
    parser.add_argument("--threads", type=int, default=16, help="that open, run and close")
    parser.add_argument("--seed", type=int, default=7, help="of what they do")
    parser.add_argument("--growth", type=float, default=0.05, help="share by which memory may grow")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        begun = time.monotonic()
        work = Work(models(Path(folder)), 0, begun + settings.seconds)
        looks, share, done = [look(0)], settings.runs // LOOKS, 0
        for number in range(LOOKS):
            stretch(work, share, settings.threads, settings.seed * 100 + number)
            done += share - work.left
            looks.append(look(done))
            print(looks[-1], flush=True)
        seconds = time.monotonic() - begun
        print(f"{done:,} runs by {settings.threads} threads in {seconds:.0f} s, {len(work.wrong)} wrong")
        print(f"{work.opened:,} sessions opened and closed, {work.forked:,} forks")
    return _verdict(work, looks, settings.growth)


def _verdict(work: Work, looks: list[Look], growth: float) -> int:
    """1 where something is wrong or grows."""
    settled, last = looks[LOOKS // 5], looks[-1]
    grown = [
        f"{name}: {before} → {after}"
        for name, before, after, most in (
            ("KiB", settled.memory, last.memory, settled.memory * (1 + growth)),
            ("open files", settled.files, last.files, settled.files),
            ("threads", settled.threads, last.threads, settled.threads),
        )
        if after > most
    ]
    for line in (*work.wrong[:10], *grown):
        print(line)
    return int(bool(work.wrong or grown))


if __name__ == "__main__":
    sys.exit(main())
