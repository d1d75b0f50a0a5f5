"""The runtimes that a benchmark compares: each opens a workload with a number of threads, ready to run.

All of them get the same arrays, work on one stream with exactly the threads that were asked for, and hand out
NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy.typing as npt

from calib8.analysis.benchmark import Opened, Subject
from calib8.analysis.workloads import Form, Workload
from calib8.errors import ModelError, UsageError
from calib8.session import InferenceSession

Array = npt.NDArray[Any]


def open_subject(workload: Workload, runtime: str, threads: int) -> Opened:
    """A workload in a runtime of ``OPENERS``.

    Raises:
        UsageError: the runtime is not installed.
        ModelError: it cannot load the model, or crashes on it.
    """
    run = OPENERS[runtime](workload, threads)
    subject = Subject(workload.path, runtime, threads, workload.batch, workload.macs)
    return Opened(subject, run)


def takes(runtime: str, workload: Workload) -> bool:
    """Whether a runtime runs what a file holds."""
    return workload.form in TAKES[runtime]


def installed_runtimes() -> tuple[str, ...]:
    """Those of ``OPENERS`` that can be used here."""
    return tuple(
        name for name in OPENERS if name == "calib8" or find_spec(PACKAGES.get(name, name)) is not None
    )


def _open_calib8(workload: Workload, threads: int) -> Callable[[], object]:
    return partial(open_native(workload, threads).run, None, workload.feeds)


def open_native(workload: Workload, threads: int) -> InferenceSession:
    """A quantized model, program or plan in calib8's own engine, for the shapes of the workload."""
    shapes = {name: array.shape for name, array in workload.feeds.items()}
    return InferenceSession(workload.path, shapes=shapes, threads=threads)


def _open_onnxruntime(workload: Workload, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(workload.path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _cannot_load(workload, "ONNX Runtime", error) from error
    return partial(session.run, None, dict(workload.feeds))


def _open_openvino(workload: Workload, threads: int) -> Callable[[], object]:
    try:
        import openvino
    except ImportError as error:
        cure = "Install it with: pip install 'calib8[openvino]'"
        raise UsageError("--runtime openvino", "OpenVINO is not installed", cure) from error
    config: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    core = openvino.Core()
    try:
        model = core.read_model(workload.path)
        model.reshape({name: list(array.shape) for name, array in workload.feeds.items()})
        compiled = core.compile_model(model, "CPU", config)
    except RuntimeError as error:
        raise _cannot_load(workload, "OpenVINO", error) from error
    request, feeds = compiled.create_infer_request(), dict(workload.feeds)

    def run() -> list[Array]:
        results = request.infer(feeds, share_inputs=True)
        return [results[port] for port in compiled.outputs]

    return run


def _cannot_load(workload: Workload, runtime: str, error: Exception) -> ModelError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[-1] if lines else type(error).__name__
    return ModelError(workload.path, f"{runtime} cannot load it ({reason})", "Leave it out with --runtime")


def _open_litert(workload: Workload, threads: int) -> Callable[[], object]:
    from calib8.analysis.litert import LiteRtModel
    from calib8.analysis.litert_process import LiteRtProcess

    arguments = (workload.path, "litert", threads, tuple(workload.feeds), ())
    trial = LiteRtProcess(*arguments)  # models on which LiteRT crashes are found out there
    try:
        trial.run(None, workload.feeds)
    finally:
        trial.close()
    model = LiteRtModel(*arguments)
    return partial(model.run, None, workload.feeds)


TAKES: Final[dict[str, tuple[Form, ...]]] = {
    "calib8": ("quantized", "program", "plan", "TFLite model"),
    "onnxruntime": ("float", "quantized"),
    "openvino": ("float", "quantized"),
    "litert": ("TFLite model", "float TFLite model"),
}
"""Runtime → what it runs."""

PACKAGES: Final = {"litert": "ai_edge_litert"}
"""Runtime → the module that brings it, where the names differ."""

OPENERS: Final[dict[str, Callable[[Workload, int], Callable[[], object]]]] = {
    "calib8": _open_calib8,
    "onnxruntime": _open_onnxruntime,
    "openvino": _open_openvino,
    "litert": _open_litert,
}
"""Runtimes by name; those that call them give a number of threads of at least 1."""
