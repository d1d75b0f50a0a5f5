"""The runtimes in which a model can be judged, behind one call: feeds in, outputs out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8.errors import DataError, ModelError, UsageError
from calib8.model.runtime import Session, open_session
from calib8.tensors import TensorSpec

Path_ = str | os.PathLike[str]


def open_in_runtime(path: Path_, runtime: str, threads: int = 0) -> Session:
    """Opens an ONNX file in a runtime of ``RUNTIMES``.

    Args:
        path: the file.
        runtime: a key of ``RUNTIMES``.
        threads: inference threads, 0 for all cores.

    Raises:
        UsageError: unknown runtime, or one that is not installed.
        ModelError: the runtime cannot load the model.
    """
    if runtime not in RUNTIMES:
        raise UsageError(f"--runtime {runtime}", "unknown runtime", f"Use one of {', '.join(RUNTIMES)}")
    if not Path(path).is_file():
        raise ModelError(str(path), "no such file", "Give the path of an .onnx file")
    return RUNTIMES[runtime](path, threads)


def _open_onnxruntime(path: Path_, threads: int) -> Session:
    return open_session(path, threads=threads)


def _open_openvino(path: Path_, threads: int) -> Session:
    """A Session whose handle runs OpenVINO's CPU plugin."""
    try:
        import openvino
    except ImportError as error:
        raise UsageError(
            "--runtime openvino",
            "OpenVINO is not installed",
            "Install it with: pip install 'calib8[openvino]'",
        ) from error
    try:
        config: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
        if threads:
            config["INFERENCE_NUM_THREADS"] = threads
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(os.fspath(path)), "CPU", config)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            str(path), f"OpenVINO cannot load it ({reason})", "Quantize it with --target openvino"
        ) from error
    inputs = tuple(_spec(port) for port in compiled.inputs)
    outputs = tuple(_spec(port) for port in compiled.outputs)
    return Session(str(path), inputs, outputs, _OpenVinoHandle(compiled, str(path)))


@dataclass(frozen=True)
class _OpenVinoHandle:
    """Gives a compiled OpenVINO model the ``run`` of an ONNX Runtime session."""

    compiled: Any
    name: str

    def run(self, outputs: list[str] | None, feeds: dict[str, Any]) -> list[Any]:
        try:
            results = self.compiled(feeds)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise DataError(
                self.name, f"OpenVINO refused the input ({reason})", "Check names and shapes"
            ) from error
        ports = self.compiled.outputs
        chosen = (
            ports if outputs is None else [port for name in outputs for port in ports if name in port.names]
        )
        return [np.asarray(results[port]) for port in chosen]


def _spec(port: Any) -> TensorSpec:
    shape = tuple(dim.get_length() if dim.is_static else None for dim in port.partial_shape)
    return TensorSpec(port.any_name, np.dtype(port.element_type.to_dtype()), shape)


RUNTIMES: Final[dict[str, Callable[[Path_, int], Session]]] = {
    "onnxruntime": _open_onnxruntime,
    "openvino": _open_openvino,
}
