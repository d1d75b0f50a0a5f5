"""The runtimes that a benchmark compares: each opens a workload with a number of threads, ready to run.

All of them get the same arrays, work on one stream with exactly the threads that were asked for, and have a
process of their own, in which ``bound_calls`` says what a run is and the clock is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Final

from calib8.analysis import benchmark, litert, openvino_model
from calib8.analysis.benchmark import Opened, Subject
from calib8.analysis.benchmark_words import TITLES
from calib8.analysis.bound_calls import BoundCall
from calib8.analysis.foreign_process import ForeignProcess
from calib8.analysis.workloads import Form, Workload

Visit = Callable[[], list[float]]


def open_subject(workload: Workload, runtime: str, threads: int) -> Opened:
    """A workload in a runtime of ``OPENERS``.

    Raises:
        UsageError: the runtime is not installed.
        ModelError: it cannot load the model, or crashes on it.
    """
    visit = OPENERS[runtime](workload, threads)
    is_float = workload.form in ("float", "float TFLite model", "float Tengine model")
    subject = Subject(workload.path, runtime, threads, workload.batch, workload.macs, is_float)
    return Opened(subject, visit)


def takes(runtime: str, workload: Workload) -> bool:
    """Whether a runtime runs what a file holds."""
    return workload.form in TAKES[runtime]


def installed_runtimes() -> tuple[str, ...]:
    """Those of ``OPENERS`` that can be used here."""
    return tuple(
        name for name in OPENERS if name == "calib8" or find_spec(PACKAGES.get(name, name)) is not None
    )


def open_process(workload: Workload, runtime: str, threads: int) -> ForeignProcess:
    """A ``BoundCall`` in a process of its own, which has run once: where it crashes, it does so here.

    Raises:
        ModelError: the model cannot be loaded, or ends the runtime.
    """
    process = ForeignProcess(workload.path, TITLES[runtime], runtime, BoundCall, (workload, runtime, threads))
    process.ask("outputs")
    return process


def _open(runtime: str, workload: Workload, threads: int) -> Visit:
    check = CHECKS.get(runtime)
    if check is not None:
        check()
    process = open_process(workload, runtime, threads)

    def visit() -> list[float]:
        seconds: list[float] = process.ask("visit", benchmark.pace())
        return seconds

    return visit


TAKES: Final[dict[str, tuple[Form, ...]]] = {
    "calib8": ("quantized", "program", "plan", "TFLite model", "Tengine model"),
    "onnxruntime": ("float", "quantized", "float Tengine model"),
    "openvino": ("float", "quantized"),
    "litert": ("TFLite model", "float TFLite model"),
}
"""Runtime → what it runs."""

PACKAGES: Final = {"litert": "ai_edge_litert"}
"""Runtime → the module that brings it, where the names differ."""

CHECKS: Final[dict[str, Callable[[], None]]] = {
    "openvino": openvino_model.check_installed,
    "litert": partial(litert.check_installed, "litert"),
}
"""Runtime → what refuses where it is not installed."""

OPENERS: Final[dict[str, Callable[[Workload, int], Visit]]] = {
    runtime: partial(_open, runtime) for runtime in TITLES
}
"""Runtimes by name; those that call them give a number of threads of at least 1."""
