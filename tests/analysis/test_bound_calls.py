"""What the clock of a benchmark surrounds: one call into each runtime, with inputs and outputs in place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest

from calib8.analysis import bound_calls, litert
from calib8.analysis.benchmark import Pace
from calib8.analysis.bound_calls import BINDERS, BoundCall
from calib8.analysis.workloads import Workload, open_workload
from calib8.tflite.write import write_tflite
from tflite_nets import onnx_classifier, quantized_classifier

RUNS = 3
OUR_FILES = {__file__, bound_calls.__file__, litert.__file__}
ENTERED = {
    "calib8": "BoundRun.run",
    "onnxruntime": "Session.run_with_iobinding",
    "openvino": "InferRequest.infer",
    "litert": "Interpreter.invoke",
    "litert-reference": "Interpreter.invoke",
}
"""Runtime → the one function of it that a run calls."""


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Workload]:
    folder = tmp_path_factory.mktemp("bound")
    write_tflite(quantized_classifier("int8"), folder / "net.tflite")
    onnx.save(onnx_classifier(), folder / "net.onnx")
    onnx_model, tflite_model = open_workload(folder / "net.onnx"), open_workload(folder / "net.tflite")
    return {
        runtime: onnx_model if runtime in ("onnxruntime", "openvino") else tflite_model for runtime in BINDERS
    }


def entered_by(call: BoundCall) -> list[list[tuple[str, bool]]]:
    """What each run of a visit calls outside the files that bind: names, and whether arrays are handed over.

    Calls of a runtime's functions by its own do not count.
    """
    runs: list[list[tuple[str, bool]]] = []
    run = call.run

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        caller, code = frame.f_back, frame.f_code
        if event == "call" and code.co_filename not in OUR_FILES:
            if caller is not None and caller.f_code.co_filename in OUR_FILES:
                runs[-1].append((code.co_qualname, any(map(holds_arrays, frame.f_locals.values()))))
        elif event == "c_call" and code.co_filename in OUR_FILES and argument is not sys.setprofile:
            runs[-1].append((argument.__qualname__, True))

    def watched() -> None:
        runs.append([])
        sys.setprofile(watch)
        try:
            run()
        finally:
            sys.setprofile(None)

    call.run = watched
    call.visit(Pace(0.0, 0.0, RUNS - 1, RUNS - 1))
    return runs


def holds_arrays(value: object) -> bool:
    return isinstance(value, np.ndarray) or (
        isinstance(value, Mapping) and any(map(holds_arrays, value.values()))
    )


@pytest.mark.parametrize("runtime", BINDERS)
def test_a_run_is_one_call_into_the_runtime(workloads: dict[str, Workload], runtime: str) -> None:
    """No runtime is handed arrays in a run."""
    call = BoundCall(workloads[runtime], runtime, 1)
    assert entered_by(call) == RUNS * [[(ENTERED[runtime], False)]]
