"""The runtimes of a benchmark, each as one call from Python: inputs and outputs are bound beforehand.

    calib8          session.bind(inputs, outputs).run()
    onnxruntime     session.run_with_iobinding(binding)
    openvino        request.infer(share_outputs=True)            inputs set as shared tensors
    litert          interpreter.invoke()                         inputs set in its tensors

No runtime copies arrays in or out in a run. What the way there and back through Python takes is part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.benchmark import Pace, visit
from calib8.analysis.openvino_model import compile_in_openvino
from calib8.analysis.workloads import Workload
from calib8.errors import ModelError
from calib8.parameters import parameter
from calib8.session import InferenceSession

Array = npt.NDArray[Any]

LEAVE_OUT: Final = f"Leave it out with {parameter('runtime')}"


class BoundCall:
    """A workload that is ready to run in this process."""

    def __init__(self, workload: Workload, runtime: str, threads: int) -> None:
        """Opens the model of a workload in a runtime of ``BINDERS``.

        Raises:
            ModelError: it cannot be loaded.
        """
        self._workload = workload  # OpenVINO reads arrays that it does not keep alive
        self.run, self.results = BINDERS[runtime](workload, threads)

    def visit(self, pace: Pace) -> list[float]:
        """Seconds of some runs, see ``calib8.analysis.benchmark.visit``."""
        return visit(self.run, pace)

    def outputs(self) -> list[Array]:
        """What a run gives."""
        self.run()
        return self.results()


Bound = tuple[Callable[[], object], Callable[[], list[Array]]]
"""What runs it, and what copies the outputs of the last run."""


def _bind_calib8(workload: Workload, threads: int) -> Bound:
    bound = open_native(workload, threads).bind(workload.feeds)
    return bound.run, lambda: [np.array(array) for array in bound.results]


def open_native(workload: Workload, threads: int) -> InferenceSession:
    """A quantized model, program or plan in calib8's own engine, for the shapes of the workload."""
    shapes = {name: array.shape for name, array in workload.feeds.items()}
    return InferenceSession(workload.path, shapes=shapes, threads=threads, state={})


def _bind_onnxruntime(workload: Workload, threads: int) -> Bound:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    try:
        source = _onnx_bytes(workload) if workload.form == "float Tengine model" else workload.path
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        results = session.run(None, dict(workload.feeds))
    except Exception as error:
        raise _cannot_load(workload, error) from error
    binding, values = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy
    for name, array in workload.feeds.items():
        binding.bind_ortvalue_input(name, values(array))
    for spec, array in zip(session.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(spec.name, values(array))
    return partial(session.run_with_iobinding, binding), binding.copy_outputs_to_cpu


def _onnx_bytes(workload: Workload) -> bytes:
    """The ONNX model that computes what a float model of Tengine does."""
    import onnx_ir as ir

    from calib8.model.load import load_model

    serialized: bytes = ir.to_proto(load_model(workload.path)).SerializeToString()
    return serialized


def _bind_openvino(workload: Workload, threads: int) -> Bound:
    import openvino

    shapes = {name: array.shape for name, array in workload.feeds.items()}
    compiled = compile_in_openvino(workload.path, threads, LEAVE_OUT, shapes)
    request = compiled.create_infer_request()
    for name, array in workload.feeds.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def results() -> list[Array]:
        return [np.array(request.get_tensor(port).data) for port in compiled.outputs]

    return partial(request.infer, share_outputs=True), results


def _bind_litert(runtime: str, workload: Workload, threads: int) -> Bound:
    from calib8.analysis.litert import LiteRtModel

    model = LiteRtModel(workload.path, runtime, threads, tuple(workload.feeds), ())
    model.run(None, workload.feeds)
    return model.invoke, model.results


def _cannot_load(workload: Workload, error: Exception) -> ModelError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[-1] if lines else type(error).__name__
    return ModelError(workload.path, f"ONNX Runtime cannot load it ({reason})", LEAVE_OUT)


BINDERS: Final[dict[str, Callable[[Workload, int], Bound]]] = {
    "calib8": _bind_calib8,
    "onnxruntime": _bind_onnxruntime,
    "openvino": _bind_openvino,
    "litert": partial(_bind_litert, "litert"),
    "litert-reference": partial(_bind_litert, "litert-reference"),
}
"""Runtimes by name; those that call them give a number of threads of at least 1."""
