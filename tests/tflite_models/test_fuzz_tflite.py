"""Five hundred broken files, and the fuzzer itself: it tells what it should tell."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from calib8.program.lower_tflite.operators import LOWER
from calib8.tflite.write import serialize

SCRIPTS = Path(__file__).parents[2] / "scripts"
FUZZER = SCRIPTS / "fuzz_tflite.py"


@pytest.fixture(scope="module")
def fuzzer() -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("fuzz_tflite", FUZZER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(SCRIPTS))
    return module


def fuzzed(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FUZZER), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_broken_files_are_refused_or_run_as_the_reference_runs_them() -> None:
    done = fuzzed("--count", "500")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {what: int(count) for count, what in re.findall(r"(\d+) (ran|refused by [a-z ]+?),", done.stdout)}
    assert min(found[what] for what in ("ran", "refused by a check", "refused by the reader")) >= 20, found


def test_the_corpus_is_valid(fuzzer: ModuleType) -> None:
    known = [graph for graph in fuzzer.corpus(7) if all(step.op in LOWER for step in graph.operators)]
    outcomes = [fuzzer.attempt(serialize(graph), 1) for graph in known]
    assert known and outcomes.count("ran") >= len(known) * 9 // 10


def test_small_files_do_not_ask_for_much(fuzzer: ModuleType) -> None:
    """Sizes without bytes behind them: neither steps nor memory, and an error or a program."""
    tracemalloc.start()
    for title, graph in fuzzer.hostile_graphs().items():
        data = serialize(graph)
        tracemalloc.reset_peak()
        with fuzzer.limited():
            outcome = fuzzer.attempt(data, 1)
        _, peak = tracemalloc.get_traced_memory()
        assert outcome in ("refused by a check", "too large"), title
        assert peak < (1 << 28), f"{title}: {peak} bytes"
    tracemalloc.stop()


def test_a_seed_and_a_number_make_one_file(fuzzer: ModuleType) -> None:
    graphs = fuzzer.corpus(3)
    files = [serialize(graph) for graph in graphs]
    made = [fuzzer.broken_file(graphs, files, 3, number) for number in range(50)]
    assert made == [fuzzer.broken_file(graphs, files, 3, number) for number in range(50)]
    assert len(set(made)) > 45
    assert len(set(made) - set(files)) > 40


def sound(fuzzer: ModuleType) -> bytes:
    """A file of the corpus that runs."""
    files = (serialize(graph) for graph in fuzzer.corpus(7))
    return next(data for data in files if fuzzer.attempt(data, 1) == "ran")


def test_other_codes_are_found(fuzzer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    data, run = sound(fuzzer), fuzzer.run_program

    def wrong(*args: Any) -> list[Any]:
        first, *rest = run(*args)
        return [first + np.ones((), first.dtype), *rest]

    monkeypatch.setattr(fuzzer, "run_program", wrong)
    with pytest.raises(fuzzer.DifferenceError, match="differs from the reference"):
        fuzzer.attempt(data, 1)


def count_to(end: int) -> int:
    """A line per number."""
    number = 0
    while number < end:
        number += 1
    return number


def test_what_takes_too_many_steps_is_ended(fuzzer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzer, "LINES", 10_000)
    before = sys.gettrace()
    with fuzzer.limited():
        assert count_to(4_000) == 4_000
    with pytest.raises(fuzzer.TooMuchError, match="more than 10000 lines"), fuzzer.limited():
        count_to(10**12)
    taken = pytest.raises(fuzzer.TooMuchError, match="taken for another")
    with taken, fuzzer.limited(), contextlib.suppress(Exception):
        count_to(10**12)
    assert sys.gettrace() is before


def test_a_file_that_takes_too_many_steps_ends_the_run(
    fuzzer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hungriest one takes millions: the lines of the whole way are counted."""
    data = serialize(fuzzer.hostile_graphs()["many tiles"])
    monkeypatch.setattr(fuzzer, "LINES", 1_000_000)
    with pytest.raises(fuzzer.TooMuchError), fuzzer.limited():
        fuzzer.attempt(data, 1)


def test_other_errors_pass_through(fuzzer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(fuzzer, "lower_tflite", broken)
    with pytest.raises(IndexError):
        fuzzer.attempt(serialize(fuzzer.corpus(7)[0]), 1)
