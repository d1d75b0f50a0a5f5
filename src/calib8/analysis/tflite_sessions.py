"""TFLite models as sessions: real numbers go in and come out, whatever the codes of the file."""

from __future__ import annotations

import os

from calib8.analysis.litert_process import LiteRtProcess
from calib8.analysis.real_session import RealSession, real_session
from calib8.errors import UsageError
from calib8.model.runtime import Session, open_session
from calib8.tflite.kinds import kind
from calib8.tflite.ports import coded_ports, port_specs
from calib8.tflite.read import read_tflite

Path_ = str | os.PathLike[str]


def open_in_litert(path: Path_, runtime: str, threads: int) -> RealSession:
    """A TFLite model in LiteRT, in a process of its own; ``runtime`` is a key of ``LITERT``.

    Raises:
        UsageError: LiteRT is not installed.
        ModelError: the file is damaged, or LiteRT cannot load it or crashes on it.
    """
    graph = read_tflite(path)
    inputs, outputs = port_specs(graph, graph.inputs), port_specs(graph, graph.outputs)
    names = [[spec.name for spec in specs] for specs in (inputs, outputs)]
    handle = LiteRtProcess(path, runtime, threads, *names)
    return real_session(os.fspath(path), (inputs, outputs), handle, runtime, coded_ports(graph))


def open_in_own(path: Path_, runtime: str, threads: int, profile: str | None, integer_only: bool) -> Session:
    """A quantized TFLite model in a runtime of calib8.

    Raises:
        Calib8Error: see ``InferenceSession``.
    """
    from calib8.session import InferenceSession  # what lowers and runs takes long to import

    opened = InferenceSession(
        path, runtime=runtime, profile=profile, integer_only=integer_only, threads=threads or None
    )
    ports, codes = (opened.inputs, opened.outputs), coded_ports(read_tflite(path))
    return real_session(opened.name, ports, opened, f"{runtime}/{opened.rounding}", codes)


def open_float(path: Path_, threads: int) -> Session:
    """A float TFLite model, translated to ONNX, in ONNX Runtime.

    Raises:
        UsageError: the model is quantized.
        ModelError: the file is damaged, or the model cannot be translated.
    """
    found = kind(read_tflite(path))
    if found != "float":
        problem = f"{path} is a {found} TFLite model"
        own = "calib8, reference or " if found == "quantized" else ""
        raise UsageError("--runtime onnxruntime", problem, f"Use --runtime {own}litert")
    from calib8.model.load import load_model

    return open_session(load_model(path), threads=threads, name=os.fspath(path))
