"""The runtimes in which a model can be judged, behind one call: feeds in, outputs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from calib8.analysis.litert import LITERT
from calib8.analysis.openvino_model import open_in_openvino
from calib8.engine.plan_file import ANY_MODEL, claims_to_be_plan
from calib8.errors import CrashError, UsageError
from calib8.files import check_model_file
from calib8.model.runtime import Arrays, Session, open_session
from calib8.parameters import one_of, parameter
from calib8.processors import refuse_many_threads
from calib8.program.magic import is_program_file
from calib8.session.prepared import NATIVE, PROGRAM_RUNTIMES, REFERENCE
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.magic import claims_to_be_tmfile

if TYPE_CHECKING:  # plans need neither models nor what reads them
    import onnx

Path_ = str | os.PathLike[str]

OWN: Final = PROGRAM_RUNTIMES
"""The runtimes with rounding profiles, which alone take saved programs; both give the same bits."""

ONNXRUNTIME: Final = "onnxruntime"

USE_OWN: Final = f"Use {parameter('runtime', NATIVE)} or {REFERENCE}"

NOTHING_CARRIED: Final[Mapping[str, str]] = MappingProxyType({})
"""States of sessions that are fed like other inputs."""

ANY_FILE: Final = "Give the path of an .onnx, .tflite or .tmfile"


@dataclass(frozen=True)
class Settings:
    """How a model runs: threads (0 for all cores), and what only the runtimes of calib8 take.

    Attributes:
        state: what a session of these carries, see ``InferenceSession``; nothing where models are compared.
    """

    threads: int = 0
    profile: str | None = None
    integer_only: bool = False
    state: Mapping[str, str] | None = field(default_factory=dict)


def open_in_runtime(
    path: Path_,
    runtime: str,
    threads: int = 0,
    *,
    profile: str | None = None,
    integer_only: bool = False,
    state: Mapping[str, str] | None = NOTHING_CARRIED,
) -> Session:
    """Opens a model in a runtime of ``RUNTIMES``.

    Args:
        path: an .onnx file; a .tflite file for the runtimes of ``OWN`` and ``LITERT``, a float one also for
            ``onnxruntime``; a .tmfile as a .tflite one, but for ``LITERT``; a saved program for the runtimes
            of ``OWN``, a plan for ``calib8``.
        runtime: one of ``RUNTIMES``.
        threads: inference threads, 0 for all cores.
        profile, integer_only, state: of the runtimes of ``OWN``, see ``InferenceSession``.

    Raises:
        UsageError: unknown runtime, one that is not installed, or options or a file that it does not take.
        ModelError: the runtime cannot load the model.
    """
    check_runtime(runtime, profile, integer_only)
    check_model_file(path, ANY_MODEL if runtime in OWN else ANY_FILE)
    if runtime not in OWN and is_program_file(path):
        raise UsageError(parameter("runtime", runtime), f"{path} is a program of calib8", USE_OWN)
    if runtime != NATIVE and claims_to_be_plan(path):
        raise UsageError(
            parameter("runtime", runtime),
            f"{path} is a plan of calib8",
            f"Use {parameter('runtime', NATIVE)}",
        )
    settings = Settings(threads, profile, integer_only, state)
    if claims_to_be_tflite(path):
        return _open_tflite(path, runtime, settings)
    if claims_to_be_tmfile(path):
        return _open_tmfile(path, runtime, settings)
    if runtime in LITERT:
        raise UsageError(
            parameter("runtime", runtime), f"{path} is not a TFLite model", "Give a .tflite file"
        )
    return OPENERS[runtime](path, settings)


def check_runtime(runtime: str, profile: str | None, integer_only: bool) -> None:
    """Refuses what no runtime is called, and options that a runtime does not take.

    Raises:
        UsageError: one of these.
    """
    if runtime not in RUNTIMES:
        raise UsageError(parameter("runtime", runtime), "unknown runtime", one_of(runtime, RUNTIMES))
    if runtime not in OWN and (profile is not None or integer_only):
        problem = f"does not go with the runtime {runtime}, which rounds as it does"
        raise UsageError(_of_rounding(profile), problem, USE_OWN)


def _of_rounding(profile: str | None) -> str:
    """The option that only runtimes with rounding profiles take."""
    return parameter("integer_only", True) if profile is None else parameter("profile", profile)


def default_runtime(paths: Sequence[Path_]) -> str:
    """Where models run if nothing was said: in calib8 where one is a quantized model of TFLite or Tengine.

    Raises:
        ModelError: a TFLite file is damaged.
    """
    from calib8.tflite.kinds import kind_of_file
    from calib8.tmfile.kinds import kind_of_file as kind_of_tmfile

    kinds = [kind_of_file(path) for path in paths if claims_to_be_tflite(path)]
    kinds_of_tengine = [kind_of_tmfile(path) for path in paths if claims_to_be_tmfile(path)]
    return NATIVE if "quantized" in (*kinds, *kinds_of_tengine) else ONNXRUNTIME


def open_side_by_side(
    paths: Sequence[Path_], runtime: str, threads: int = 0, *, profile: str | None, integer_only: bool
) -> list[Session]:
    """Opens models to be compared, each where it can run.

    Float models, which the runtimes of ``OWN`` refuse, run in ONNX Runtime, as do ONNX models beside TFLite
    ones in the runtimes of ``LITERT``.

    Where a runtime crashes on its model, running that session raises the ``CrashError``.

    Raises:
        UsageError: as for ``open_in_runtime``, or a runtime of ``OWN`` or ``LITERT`` that none of the models
            needs.
        ModelError: a runtime refuses its model.
    """
    check_runtime(runtime, profile, integer_only)
    settings = Settings(threads, profile, integer_only)
    sessions = [_open_or_crashed(path, runtime, settings) for path in paths]
    if runtime in OWN and all(session.runtime == ONNXRUNTIME for session in sessions):
        raise UsageError(parameter("runtime", runtime), "all models are float ones", "Add a quantized model")
    if runtime in LITERT and all(session.runtime == ONNXRUNTIME for session in sessions):
        raise UsageError(
            parameter("runtime", runtime), "none of the models is a TFLite model", "Add a .tflite file"
        )
    return sessions


def _open_or_crashed(path: Path_, runtime: str, settings: Settings) -> Session:
    if Path(path).is_file() and _runs_beside(path, runtime):
        return open_in_runtime(path, ONNXRUNTIME, settings.threads)
    profile, integer_only = settings.profile, settings.integer_only
    try:
        return open_in_runtime(path, runtime, settings.threads, profile=profile, integer_only=integer_only)
    except CrashError as crash:
        return Session(os.fspath(path), (), (), _Crashed(crash), runtime)


@dataclass(frozen=True)
class _Crashed:
    """The handle of a model that has ended its runtime."""

    crash: CrashError

    def run(self, outputs: Sequence[str] | None, feeds: Arrays) -> list[npt.NDArray[Any]]:
        raise self.crash


def _runs_beside(path: Path_, runtime: str) -> bool:
    """The model runs in ONNX Runtime where others run in a runtime of ``OWN`` or ``LITERT``."""
    if runtime in LITERT:
        return not (claims_to_be_tflite(path) or is_program_file(path) or claims_to_be_plan(path))
    return runtime in OWN and is_float_model(path)


def is_float_model(path: Path_) -> bool:
    """An ONNX, TFLite or Tengine file of which no node reads or makes codes of activations."""
    if is_program_file(path) or claims_to_be_plan(path):
        return False
    if claims_to_be_tflite(path):
        from calib8.tflite.kinds import kind_of_file

        return kind_of_file(path) == "float"
    if claims_to_be_tmfile(path):
        from calib8.tmfile.kinds import kind_of_file as kind_of_tmfile

        return kind_of_tmfile(path) == "float"
    import onnx
    import onnx_ir as ir

    from calib8.model.load import UNREADABLE
    from calib8.quantization.qdq import holds_codes

    try:
        return not holds_codes(ir.from_proto(onnx.load(path, load_external_data=False)))
    except (*UNREADABLE, OSError):
        return False


def _open_tflite(path: Path_, runtime: str, settings: Settings) -> Session:
    """A TFLite model where it can run.

    Raises:
        UsageError: it cannot run there, or LiteRT is not installed.
        ModelError: the file is damaged, or the runtime cannot load it.
    """
    from calib8.analysis import tflite_sessions  # ONNX models do without

    if runtime in LITERT:
        return tflite_sessions.open_in_litert(path, runtime, settings.threads)
    if runtime in OWN:
        refuse_many_threads(settings.threads)
        return tflite_sessions.open_in_own(
            path, runtime, settings.threads, settings.profile, settings.integer_only
        )
    if runtime == ONNXRUNTIME:
        return tflite_sessions.open_float(path, settings.threads)
    names = ", ".join((*OWN, *LITERT))
    raise UsageError(parameter("runtime", runtime), f"{path} is a TFLite model", f"Use one of {names}")


def _open_tmfile(path: Path_, runtime: str, settings: Settings) -> Session:
    """A Tengine model where it can run: a float one as the ONNX model that computes the same.

    Raises:
        UsageError: it cannot run there.
        ModelError: the file is damaged, or has operators that have no form there.
    """
    from calib8.analysis import tmfile_sessions  # ONNX models do without

    if runtime in OWN:
        refuse_many_threads(settings.threads)
        return tmfile_sessions.open_in_own(
            path, runtime, settings.threads, settings.profile, settings.integer_only
        )
    if runtime == ONNXRUNTIME:
        return tmfile_sessions.open_float(path, settings.threads)
    cure = f"Use one of {', '.join((ONNXRUNTIME, *OWN))}"
    raise UsageError(parameter("runtime", runtime), f"{path} is a Tengine model", cure)


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

    refuse_many_threads(settings.threads)
    opened = InferenceSession(
        model,
        runtime=runtime,
        profile=settings.profile,
        integer_only=settings.integer_only,
        threads=settings.threads or None,
        state=settings.state,
    )
    return _OwnSession(opened.name, opened.inputs, opened.outputs, opened, f"{runtime}/{opened.rounding}")


def _open_native(path: Path_, settings: Settings) -> Session:
    return open_own(path, NATIVE, settings)


def _open_reference(path: Path_, settings: Settings) -> Session:
    return open_own(path, REFERENCE, settings)


def _open_openvino(path: Path_, settings: Settings) -> Session:
    return open_in_openvino(path, settings.threads)


OPENERS: Final[dict[str, Callable[[Path_, Settings], Session]]] = {
    ONNXRUNTIME: _open_onnxruntime,
    "openvino": _open_openvino,
    NATIVE: _open_native,
    REFERENCE: _open_reference,
}
"""How each opens what is no model of TFLite or Tengine."""

RUNTIMES: Final = (*OPENERS, *LITERT)
"""All of them; those of ``LITERT`` run TFLite models only, which ``_open_tflite`` opens."""
