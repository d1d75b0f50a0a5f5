"""ONNX models in OpenVINO's CPU plug-in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.analysis.foreign_process import ForeignProcess
from calib8.errors import DataError, ModelError, UsageError
from calib8.files import library_path
from calib8.model.runtime import Session
from calib8.parameters import parameter
from calib8.tensors import TensorSpec

Array = npt.NDArray[Any]
Ports = tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]


def open_in_openvino(path: str | os.PathLike[str], threads: int) -> Session:
    """A Session whose handle runs OpenVINO in a process of its own; ``threads`` 0 for all cores.

    Raises:
        UsageError: OpenVINO is not installed.
        ModelError: it cannot load the model, or crashes on it.
    """
    check_installed()
    name = os.fspath(path)
    process = ForeignProcess(name, "OpenVINO", "openvino", OpenVinoModel, (name, threads))
    inputs, outputs = process.ask("ports")
    return Session(name, inputs, outputs, process, "openvino")


def compile_in_openvino(
    name: str, threads: int, cure: str, shapes: Mapping[str, Sequence[int]] | None = None
) -> Any:
    """The model of a path, compiled in this process for one request at a time.

    Args:
        name: the path.
        threads: 0 for all cores.
        cure: of the error.
        shapes: input name → sizes that it is compiled for; None: those of the file.

    Raises:
        ModelError: it cannot be loaded.
    """
    import openvino

    config: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    if threads:
        config["INFERENCE_NUM_THREADS"] = threads
    try:
        core = openvino.Core()
        model = core.read_model(library_path(name))
        if shapes is not None:
            model.reshape({port: list(sizes) for port, sizes in shapes.items()})
        return core.compile_model(model, "CPU", config)
    except RuntimeError as error:
        raise ModelError(name, f"OpenVINO cannot load it ({_reason(error)})", cure) from error


class OpenVinoModel:
    """A model in OpenVINO behind the ``run`` of an ONNX Runtime session.

    Where OpenVINO crashes, so does this process: ``open_in_openvino`` has the model in another one.
    """

    def __init__(self, name: str, threads: int) -> None:
        """Opens the model of a path; ``threads`` 0 for all cores.

        Raises:
            ModelError: it cannot be loaded.
        """
        self._name = name
        self._compiled = compile_in_openvino(
            name, threads, f"Quantize it with {parameter('target', 'openvino')}"
        )

    def ports(self) -> Ports:
        """Specs of inputs and outputs."""
        inputs, outputs = self._compiled.inputs, self._compiled.outputs
        return tuple(map(_spec, inputs)), tuple(map(_spec, outputs))

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            DataError: names, types or shapes do not fit.
        """
        try:
            results = self._compiled(dict(feeds))
        except RuntimeError as error:
            problem = f"OpenVINO refused the input ({_reason(error)})"
            raise DataError(self._name, problem, "Check names and shapes") from error
        ports = self._compiled.outputs
        chosen = (
            ports if outputs is None else [port for name in outputs for port in ports if name in port.names]
        )
        return [np.array(results[port]) for port in chosen]


def check_installed() -> None:
    """Refuses where OpenVINO is missing, without loading it.

    Raises:
        UsageError: it is not installed.
    """
    if find_spec("openvino") is None:
        cure = "Install it with: pip install 'calib8[openvino]'"
        raise UsageError(parameter("runtime", "openvino"), "OpenVINO is not installed", cure)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def _spec(port: Any) -> TensorSpec:
    shape = tuple(dim.get_length() if dim.is_static else None for dim in port.partial_shape)
    return TensorSpec(port.any_name, np.dtype(port.element_type.to_dtype()), shape)
