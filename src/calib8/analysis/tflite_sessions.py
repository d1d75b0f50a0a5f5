"""TFLite models as sessions: real numbers go in and come out, whatever the codes of the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from calib8.analysis.litert_process import LiteRtProcess
from calib8.analysis.real_session import RealSession, real_session
from calib8.errors import UsageError
from calib8.forks import ForkLock, whole_imports
from calib8.model.runtime import Arrays, Session, open_session
from calib8.parameters import parameter
from calib8.tflite.graph import Graph
from calib8.tflite.kinds import kind
from calib8.tflite.ports import coded_ports, port_specs
from calib8.tflite.read import read_tflite
from calib8.tflite.resize import frees_more_than_batch, resized
from calib8.tflite.state_ports import state_specs

Path_ = str | os.PathLike[str]


def open_in_litert(path: Path_, runtime: str, threads: int) -> RealSession:
    """A TFLite model in LiteRT, in a process of its own; ``runtime`` is a key of ``LITERT``.

    Raises:
        UsageError: LiteRT is not installed.
        ModelError: the file is damaged, or LiteRT cannot load it or crashes on it.
    """
    graph = read_tflite(path)
    inputs, outputs = port_specs(graph, graph.inputs), port_specs(graph, graph.outputs)
    fed, given = ([spec.name for spec in specs] for specs in (inputs, outputs))
    handle = LiteRtProcess(path, runtime, threads, fed, given, keeps=bool(state_specs(graph)))
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
    graph = read_tflite(path)
    found = kind(graph)
    if found != "float":
        problem = f"{path} is a {found} TFLite model"
        own = "calib8, reference or " if found == "quantized" else ""
        cure = f"Use {parameter('runtime')} {own}litert"
        raise UsageError(parameter("runtime", "onnxruntime"), problem, cure)
    from calib8.model.load import load_model

    if any(frees_more_than_batch(graph.tensors[place]) for place in graph.inputs):
        ports = (port_specs(graph, graph.inputs), port_specs(graph, graph.outputs))
        handle = FloatOfAnySize(graph, os.fspath(path), threads)
        return Session(os.fspath(path), *ports, handle)
    return open_session(load_model(path), threads=threads, name=os.fspath(path))


class FloatOfAnySize:
    """A float model whose images may have any size: translated for the sizes that are fed."""

    def __init__(self, graph: Graph, name: str, threads: int) -> None:
        """Opens nothing yet; ``name`` is that of the model, for messages."""
        self._graph, self._name, self._threads = graph, name, threads
        self._last: tuple[dict[str, tuple[int, ...]], Session] | None = None
        self._lock = ForkLock()

    def run(self, outputs: Sequence[str] | None, feeds: Arrays) -> list[npt.NDArray[Any]]:
        """Outputs (all, or those named) for the arrays fed by input name.

        Raises:
            UnsupportedModelError: operators do not work with these sizes, or have no ONNX nodes.
            DataError: names, types or shapes do not fit.
        """
        with whole_imports():
            from calib8.model.from_tflite.translate import float_model

        sizes = {name: array.shape for name, array in feeds.items()}
        with self._lock:
            if self._last is None or sizes != self._last[0]:
                model = float_model(resized(self._graph, sizes, self._name), self._name)
                self._last = sizes, open_session(model, threads=self._threads, name=self._name)
            session = self._last[1]
        return session.run(feeds, outputs)
