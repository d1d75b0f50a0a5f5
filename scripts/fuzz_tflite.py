"""Broken .tflite files, seeded: refused with an error of calib8, or run as the reference runs them.

    python scripts/fuzz_tflite.py --count 20000 --processes 2

Files that ask for much are written by hand (``tflite_hostile``), all others made from small valid models by
changes of bytes or of the graph. A file is read, checked, lowered, compiled and run with random codes by
NumPy and by the native engine. Another error, a crash, other codes, or more steps or memory than a file may
take ends the run and says how to make the file once more. With ``--record FOLDER`` all plans that ran are
kept for ``tests/native/engine_check``, which runs them under sanitizers.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

from calib8.engine.compile import compile_program
from calib8.engine.plan import Plan
from calib8.errors import Calib8Error
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize
from tflite_hostile import hostile_graphs
from tflite_mutations import mutated_bytes, mutated_graph

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "tflite_models"), str(ROOT / "tests")]

import bits  # noqa: E402 - what tests share lies in a folder of theirs

NAME: Final = "broken.tflite"
LINES: Final = 1 << 23
"""Lines of Python that a file may take: three times the hungriest by hand, eighty times the random ones."""

SECONDS: Final = 900
"""For native code that never ends, whose steps nobody counts; no file takes one of them."""

MEMORY: Final = 3 << 30
"""Bytes of address space of a process, with all that it has loaded."""

LARGEST: Final = 1 << 20
"""Elements of all tensors of a program that is run; larger ones are compiled only."""

MOST_WORK: Final = 1 << 24
"""Multiplications of a program that is run."""

PER_OPERATOR: Final = 2
"""Valid models per operator and type."""


GRAPHS: Final = 0.7
"""Part of the files that are changed as graphs, the others as bytes."""


class TooMuchError(Exception):
    """A file takes more steps than it may."""


class DifferenceError(Exception):
    """The native engine and the reference give other codes."""


def corpus(seed: int) -> list[Graph]:
    """Valid models: of every operator that tests/tflite_models makes models of, and mixed ones."""
    graphs: list[Graph] = []
    for path in sorted((ROOT / "tests" / "tflite_models").glob("cases_*.py")):
        cases = getattr(importlib.import_module(path.stem), "CASES_OF", {})
        for _, make in sorted(cases.items()):
            for dtype in ("int8", "uint8"):
                for number in range(PER_OPERATOR):
                    rng = np.random.default_rng([seed, number, len(graphs)])
                    graphs.append(make(rng, dtype))
    return graphs


def broken_file(graphs: list[Graph], files: list[bytes], seed: int, number: int) -> bytes:
    """File ``number`` of a seed."""
    rng = np.random.default_rng([seed, number])
    place, other = (int(value) for value in rng.integers(len(graphs), size=2))
    if rng.random() < GRAPHS:
        return mutated_graph(graphs[place], rng)
    return mutated_bytes(files[place], files[other], rng)


@contextmanager
def limited() -> Iterator[None]:
    """Ends what takes too many steps, counted as lines of the functions that the block calls.

    Raises:
        TooMuchError: more than ``LINES``.
    """
    taken = 0

    def step(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal taken
        taken += 1
        if taken > LINES:
            raise TooMuchError(f"more than {LINES} lines")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
    if taken > LINES:
        raise TooMuchError(f"more than {LINES} lines, and the error was taken for another")


@contextmanager
def watched() -> Iterator[None]:
    """Around one file, in a process that tries nothing else: ends the process where native code hangs."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with limited():
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def attempt(data: bytes, seed: int, record: Path | None = None) -> str:
    """What becomes of a file: ``refused …``, ``ran`` or ``too large``.

    Raises:
        TooMuchError, DifferenceError, and whatever else it should not.
    """
    try:
        program = lower_tflite(parse(data, NAME), NAME)
    except Calib8Error as error:
        assert NAME in str(error), f"an error that does not name the file: {error}"
        return f"refused by {'the reader' if 'is damaged' in str(error) else 'a check'}"
    plan = compile_program(program)
    work = sum(plan.step_macs)
    elements = sum(int(np.prod(slot.shape, dtype=np.int64)) for slot in program.slots)
    if max(elements, plan.arena_bytes // 8) > LARGEST or work > MOST_WORK:
        return "too large"
    try:
        compare(program, plan, seed, record)
    except Calib8Error:
        return f"refused by {'ONNX Runtime' if program.float_instructions else 'the engine'}"
    return "ran"


def compare(program: Program, plan: Plan, seed: int, record: Path | None) -> None:
    """Runs a program both ways, a session of the native engine and NumPy.

    Raises:
        DifferenceError: other codes.
    """
    feeds = bits.random_feeds(program, np.random.default_rng(seed))
    wanted = run_program(program, feeds)
    got = InferenceSession(program, threads=1, state={}).run(None, feeds)
    for port, have, want in zip(plan.outputs, got, wanted, strict=True):
        if have.dtype != want.dtype or not np.array_equal(have, want, equal_nan=have.dtype.kind == "f"):
            raise DifferenceError(f"'{port.name}' differs from the reference")
    if record is not None:
        bits.record(str(record), plan, feeds, wanted)


def work(settings: argparse.Namespace) -> None:
    """Tries files ``first``, ``first + step`` … of a seed; prints each number before it is tried."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    graphs = corpus(settings.seed)
    files = [serialize(graph) for graph in graphs]
    found: Counter[str] = Counter()
    if settings.first == 0:
        for title, graph in hostile_graphs().items():
            print(f"by hand: {title}", flush=True)
            with watched():
                attempt(serialize(graph), 0)
    for number in range(settings.first, settings.count, settings.step):
        print(number, flush=True)
        data = broken_file(graphs, files, settings.seed, number)
        with watched():
            found[attempt(data, number, settings.record)] += 1
    print(*(f"{count} {what}," for what, count in sorted(found.items())), end=" ")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB at most")


def share(settings: argparse.Namespace, folder: Path) -> int:
    """Has several processes try all files.

    Returns:
        Number of processes that failed.
    """
    children: list[tuple[subprocess.Popen[Any], Path]] = []
    for first in range(settings.processes):
        log = folder / f"{first}.log"
        words = [sys.executable, __file__, "--first", str(first), "--step", str(settings.processes)]
        words += ["--seed", str(settings.seed), "--count", str(settings.count)]
        if settings.record is not None:
            settings.record.mkdir(parents=True, exist_ok=True)
            words += ["--record", str(settings.record)]
        with log.open("wb") as output:
            children.append((subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT), log))
    return sum(failed(settings, child.wait(), log) for child, log in children)


def failed(settings: argparse.Namespace, status: int, log: Path) -> bool:
    """Says what a process found."""
    lines = log.read_text("utf-8", "replace").splitlines()
    if status == 0:
        print(lines[-1])
        return False
    number = next((line for line in reversed(lines) if line.isdigit()), "0")
    print("\n".join(lines[-30:]))
    print(f"seed {settings.seed}, file {number}: failed with status {status}; once more:")
    print(f"  python scripts/fuzz_tflite.py --seed {settings.seed} --only {number}")
    return True


def main() -> int:
    """Tries files; 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="files to try")
    parser.add_argument("--seed", type=int, default=7, help="of the models and the changes")
    parser.add_argument("--processes", type=int, default=1, help="that share the files")
    parser.add_argument("--record", type=Path, help="keep plans that ran in this folder")
    parser.add_argument("--only", type=int, help="try this file alone, and write it to broken.tflite")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.first is not None:
        work(settings)
        return 0
    if settings.only is not None:
        graphs = corpus(settings.seed)
        data = broken_file(graphs, [serialize(graph) for graph in graphs], settings.seed, settings.only)
        Path(NAME).write_bytes(data)
        with watched():
            print(attempt(data, settings.only))
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        failures = share(settings, Path(folder))
    seconds = time.monotonic() - start
    print(f"{settings.count} files of seed {settings.seed} in {seconds:.0f} s: {failures} processes failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
