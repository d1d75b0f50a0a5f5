"""Forks while other threads do what is done once in a process: no child waits for what is never ready."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import first_times
import onnx
import pytest
from forked import LIMIT, ends_well
from session_models import float_between

from calib8 import InferenceSession, forks
from calib8.forks import whole, whole_imports
from calib8.model import runtime
from calib8.tflite.write import write_tflite
from small_models import onnx_model
from tflite_nets import quantized_classifier

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@contextmanager
def importing() -> Iterator[threading.Event]:
    """Another thread is inside ``whole_imports`` until the event is set."""
    inside, end = threading.Event(), threading.Event()

    def imports() -> None:
        with whole_imports():
            inside.set()
            end.wait()

    thread = threading.Thread(target=imports)
    thread.start()
    inside.wait()
    try:
        yield end
    finally:
        end.set()
        thread.join()


def enters() -> bool:
    """Whether this thread, and another one after it, can import."""
    with whole_imports():
        pass
    with importing() as end:
        end.set()
    return True


@pytest.mark.slow
def test_children_do_what_threads_of_the_parent_do_for_the_first_time(
    tmp_path: Path, proto: onnx.ModelProto
) -> None:
    onnx.save(proto, tmp_path / "free.onnx")
    InferenceSession(float_between()).save(tmp_path / "float.c8")
    write_tflite(quantized_classifier("int8"), tmp_path / "int8.tflite")
    command = [sys.executable, first_times.__file__, tmp_path, str(LIMIT)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert set(found["children"].values()) == {first_times.FORKS}, found["children"]
    assert found["outside"] == []


def test_a_fork_waits_for_the_end_of_imports() -> None:
    with importing() as end:

        def ends() -> None:
            time.sleep(0.05)
            end.set()

        threading.Thread(target=ends).start()
        assert ends_well(lambda: end.is_set() and enters())
    assert enters()


def test_several_threads_are_inside_at_once() -> None:
    with importing():
        assert enters()


def test_threads_that_enter_again_and_again_keep_no_fork_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    leave, inside = threading.Event(), list[int]()
    really = forks._Gate.in_child

    def in_child(gate: forks._Gate) -> None:
        inside.append(len(gate._inside))
        really(gate)

    monkeypatch.setattr(forks._Gate, "in_child", in_child)

    def enters_again_and_again() -> None:
        while not leave.is_set():
            with whole():
                time.sleep(0.002)

    threads = [threading.Thread(target=enters_again_and_again, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert all(ends_well(lambda: inside[0] == 0 and enters()) for _ in range(2))
    finally:
        leave.set()
    for thread in threads:
        thread.join()


def test_a_fork_waits_for_sessions_that_are_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ONNX Runtime sets up once in a process would never be ready in the child."""
    opening, opened = threading.Event(), threading.Event()
    really = runtime._open

    def slowly(model: Any, options: Any) -> Any:
        opening.set()
        time.sleep(0.05)
        handle = really(model, options)
        opened.set()
        return handle

    monkeypatch.setattr(runtime, "_open", slowly)
    model = onnx_model("float[2] x", "float[2] y", "y = Relu(x)", {}).SerializeToString()
    thread = threading.Thread(target=runtime.open_session, args=(model,))
    thread.start()
    opening.wait()
    assert ends_well(opened.is_set)
    thread.join()


def test_a_fork_inside_an_import_waits_for_nobody() -> None:
    def enters_again() -> bool:
        with whole_imports():
            return True

    with whole_imports():
        assert ends_well(enters_again)
        assert enters_again()
    assert enters() and ends_well(enters)


def test_a_fork_waits_for_no_import_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "LONGEST_WAIT", 0.01)
    with importing():
        assert ends_well(enters)
    assert enters() and ends_well(enters)


def test_imported_modules_ask_for_loggers_while_a_fork_waits() -> None:
    """Although logging, too, holds a lock during a fork: it must not take it before the fork has waited."""
    code = """
import os, threading, time
from calib8 import forks
import logging
forks.LONGEST_WAIT = -1  # for ever
inside = threading.Event()
def imports():
    with forks.whole_imports():
        inside.set()
        time.sleep(0.05)
        logging.getLogger("a module")
threading.Thread(target=imports).start()
inside.wait()
if os.fork() == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert run.stdout == "3\n", run.stderr
