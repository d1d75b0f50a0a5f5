"""Tengine models as sessions: real numbers go in and come out, whatever the codes of the file."""

from __future__ import annotations

import os

from calib8.analysis.real_session import real_session
from calib8.errors import UsageError
from calib8.model.runtime import Session, open_session
from calib8.parameters import parameter
from calib8.tmfile.kinds import kind
from calib8.tmfile.ports import coded_ports
from calib8.tmfile.read import read_tmfile

Path_ = str | os.PathLike[str]


def open_in_own(path: Path_, runtime: str, threads: int, profile: str | None, integer_only: bool) -> Session:
    """An int8 model in a runtime of calib8.

    Raises:
        Calib8Error: see ``InferenceSession``.
    """
    from calib8.session import InferenceSession  # what lowers and runs takes long to import

    opened = InferenceSession(
        path, runtime=runtime, profile=profile, integer_only=integer_only, threads=threads or None
    )
    ports, codes = (opened.inputs, opened.outputs), coded_ports(read_tmfile(path))
    return real_session(opened.name, ports, opened, f"{runtime}/{opened.rounding}", codes)


def open_float(path: Path_, threads: int) -> Session:
    """A float model, translated to ONNX, in ONNX Runtime.

    Raises:
        UsageError: the model is quantized.
        ModelError: the file is damaged, or the model cannot be translated.
    """
    found = kind(read_tmfile(path))
    if found == "quantized":
        problem = f"{path} is a {found} Tengine model"
        cure = f"Use {parameter('runtime')} calib8 or reference"
        raise UsageError(parameter("runtime", "onnxruntime"), problem, cure)
    from calib8.model.load import load_model  # what runs plans does without

    return open_session(load_model(path), threads=threads, name=os.fspath(path))
