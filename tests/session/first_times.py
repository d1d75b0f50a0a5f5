"""A process that forks while its threads do something for the first time: FOLDER SECONDS → JSON.

children    what is done → how many children of the forks did it too, and ended
outside     modules that were looked for with nothing to keep a fork from falling into their import
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from forked import child_of

from calib8 import InferenceSession, forks

FORKS, CALLERS = 2, 3
MAIN = threading.current_thread()


class Finder:
    """Sees every module that a thread looks for, and gives a fork the time to fall into the first imports."""

    def __init__(self) -> None:
        self.forks = 0
        self.outside: list[str] = []
        self.begun, self.forked = threading.Semaphore(0), threading.Event()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if threading.current_thread() is MAIN:
            return
        if not forks._gate.holds():
            self.outside.append(name)
        if self.forks:
            self.forks -= 1
            self.begun.release()
            self.forked.wait(0.05)  # in vain where the fork waits for this import


def children(finder: Finder, limit: float, work: Callable[[], bool]) -> int:
    """How many children do what threads of the parent do for the first time."""
    finder.forks = FORKS
    callers = [threading.Thread(target=work, daemon=True) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    started = []
    for _ in range(FORKS):
        assert finder.begun.acquire(timeout=limit), "nothing is imported"
        finder.forked.clear()
        started.append(child_of(work, limit))
        finder.forked.set()
    for caller in callers:
        caller.join()
    return sum(child.ended_well() for child in started)


def ran(session: InferenceSession) -> bool:
    shapes = [[size if isinstance(size, int) else 2 for size in spec.shape or ()] for spec in session.inputs]
    feeds = {
        spec.name: np.zeros(shape, spec.dtype) for spec, shape in zip(session.inputs, shapes, strict=True)
    }
    return len(session.run(None, feeds)) == 1


def first_times(folder: Path, limit: float) -> dict[str, Any]:
    """What is done later finds the modules of what was done before."""
    sys.meta_path.insert(0, finder := Finder())
    found = {}

    def opened(name: str, **options: Any) -> InferenceSession:
        return InferenceSession(folder / name, threads=1, **options)

    def count(what: str, work: Callable[[], bool]) -> None:
        found[what] = children(finder, limit, work)

    def saved() -> bool:
        plan.save(folder / f"{os.getpid()}-{threading.get_native_id()}.c8")
        return True

    plan = opened("float.c8")
    count("save", saved)
    count("a float part", lambda: ran(plan))
    count("open", lambda: opened("free.onnx").name != "")
    reference = opened("free.onnx", runtime="reference")
    count("run the reference", lambda: ran(reference))
    free = opened("free.onnx")
    count("run", lambda: ran(free))
    count("open a TFLite model", lambda: ran(opened("int8.tflite")))
    from calib8 import Preprocess

    pixels = Preprocess(mean=(0.0,), scale=(1.0,))
    count("take pixels", lambda: ran(opened("free.onnx", pixels=pixels)))
    return {"children": found, "outside": finder.outside}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(first_times(Path(sys.argv[1]), float(sys.argv[2]))))
