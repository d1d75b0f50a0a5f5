"""The runtimes in which a model can be judged, behind one call: feeds in, outputs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine.plan_file import ANY_MODEL, claims_to_be_plan
from calib8.errors import DataError, ModelError, UsageError
from calib8.files import check_model_file
from calib8.model.runtime import Arrays, Session, open_session
from calib8.processors import MOST_THREADS
from calib8.program.magic import is_program_file
from calib8.session.prepared import NATIVE, PROGRAM_RUNTIMES, REFERENCE
from calib8.tensors import TensorSpec

if TYPE_CHECKING:  # plans need neither models nor what reads them
    import onnx

Path_ = str | os.PathLike[str]

OWN: Final = PROGRAM_RUNTIMES
"""The runtimes with rounding profiles, which alone take saved programs; both give the same bits."""

USE_OWN: Final = f"Use --runtime {NATIVE} or {REFERENCE}"


@dataclass(frozen=True)
class Settings:
    """How a model runs: threads (0 for all cores), and what only the runtimes of calib8 take."""

    threads: int = 0
    profile: str | None = None
    integer_only: bool = False


def open_in_runtime(
    path: Path_, runtime: str, threads: int = 0, *, profile: str | None = None, integer_only: bool = False
) -> Session:
    """Opens a model in a runtime of ``RUNTIMES``.

    Args:
        path: an .onnx file; a saved program for the runtimes of ``OWN``, a plan for ``calib8``.
        runtime: a key of ``RUNTIMES``.
        threads: inference threads, 0 for all cores.
        profile, integer_only: of the runtimes of ``OWN``, see ``InferenceSession``.

    Raises:
        UsageError: unknown runtime, one that is not installed, or options or a file that it does not take.
        ModelError: the runtime cannot load the model.
    """
    check_runtime(runtime, profile, integer_only)
    check_model_file(path, ANY_MODEL if runtime in OWN else "Give the path of an .onnx file")
    if runtime not in OWN and is_program_file(path):
        raise UsageError(f"--runtime {runtime}", f"{path} is a program of calib8", USE_OWN)
    if runtime != NATIVE and claims_to_be_plan(path):
        raise UsageError(f"--runtime {runtime}", f"{path} is a plan of calib8", f"Use --runtime {NATIVE}")
    return RUNTIMES[runtime](path, Settings(threads, profile, integer_only))


def check_runtime(runtime: str, profile: str | None, integer_only: bool) -> None:
    """Refuses what no runtime is called, and options that a runtime does not take.

    Raises:
        UsageError: one of these.
    """
    if runtime not in RUNTIMES:
        raise UsageError(f"--runtime {runtime}", "unknown runtime", f"Use one of {', '.join(RUNTIMES)}")
    if runtime not in OWN and (profile is not None or integer_only):
        problem = f"does not go with the runtime {runtime}, which rounds as it does"
        raise UsageError("--integer-only" if profile is None else f"--profile {profile}", problem, USE_OWN)


def open_side_by_side(
    paths: Sequence[Path_], runtime: str, threads: int = 0, *, profile: str | None, integer_only: bool
) -> list[Session]:
    """Opens models to be compared; float ones, which the runtimes of ``OWN`` refuse, in ONNX Runtime.

    Raises:
        UsageError: as for ``open_in_runtime``, or a runtime of ``OWN`` and float models only.
        ModelError: a runtime cannot load its model.
    """
    sessions = [
        open_session(path, threads=threads)
        if runtime in OWN and Path(path).is_file() and is_float_model(path)
        else open_in_runtime(path, runtime, threads, profile=profile, integer_only=integer_only)
        for path in paths
    ]
    if runtime in OWN and not any(isinstance(session, _OwnSession) for session in sessions):
        raise UsageError(f"--runtime {runtime}", "all models are float ones", "Add a quantized model")
    return sessions


def is_float_model(path: Path_) -> bool:
    """An ONNX file of which no node reads or makes codes of activations."""
    if is_program_file(path) or claims_to_be_plan(path):
        return False
    import onnx
    import onnx_ir as ir

    from calib8.model.load import UNREADABLE
    from calib8.quantization.qdq import holds_codes

    try:
        return not holds_codes(ir.from_proto(onnx.load(path, load_external_data=False)))
    except (*UNREADABLE, OSError):
        return False


def _open_onnxruntime(path: Path_, settings: Settings) -> Session:
    return open_session(path, threads=settings.threads)


@dataclass(frozen=True)
class _OwnSession(Session):
    """A Session whose handle is an InferenceSession, the errors of which need no translation."""

    def run(self, feeds: Arrays, outputs: Sequence[str] | None = None) -> list[npt.NDArray[Any]]:
        results: list[npt.NDArray[Any]] = self.handle.run(outputs, feeds)
        return results


def open_own(model: Path_ | onnx.ModelProto, runtime: str, settings: Settings) -> Session:
    """A Session whose handle is an InferenceSession in a runtime of ``OWN``.

    Raises:
        Calib8Error: see ``InferenceSession``.
    """
    from calib8.session import InferenceSession  # what lowers and runs takes long to import

    if settings.threads > MOST_THREADS:
        problem = f"is more than {MOST_THREADS}, the most that calib8 takes"
        raise UsageError(f"--threads {settings.threads}", problem, f"Give a number from 1 to {MOST_THREADS}")
    opened = InferenceSession(
        model,
        runtime=runtime,
        profile=settings.profile,
        integer_only=settings.integer_only,
        threads=settings.threads or None,
    )
    return _OwnSession(opened.name, opened.inputs, opened.outputs, opened, f"{runtime}/{opened.rounding}")


def _open_native(path: Path_, settings: Settings) -> Session:
    return open_own(path, NATIVE, settings)


def _open_reference(path: Path_, settings: Settings) -> Session:
    return open_own(path, REFERENCE, settings)


def _open_openvino(path: Path_, settings: Settings) -> Session:
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
        if settings.threads:
            config["INFERENCE_NUM_THREADS"] = settings.threads
        core = openvino.Core()
        compiled = core.compile_model(core.read_model(os.fspath(path)), "CPU", config)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            str(path), f"OpenVINO cannot load it ({reason})", "Quantize it with --target openvino"
        ) from error
    inputs = tuple(_spec(port) for port in compiled.inputs)
    outputs = tuple(_spec(port) for port in compiled.outputs)
    return Session(str(path), inputs, outputs, _OpenVinoHandle(compiled, str(path)), "openvino")


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


RUNTIMES: Final[dict[str, Callable[[Path_, Settings], Session]]] = {
    "onnxruntime": _open_onnxruntime,
    "openvino": _open_openvino,
    NATIVE: _open_native,
    REFERENCE: _open_reference,
}
