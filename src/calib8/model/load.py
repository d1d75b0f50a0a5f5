"""From a path or a ModelProto to a checked ``onnx_ir.Model``, external data and > 2 GB included.

A float TFLite or Tengine model becomes the ONNX model that computes the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf import json_format, text_format  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from calib8.errors import Calib8Error, ModelError, UnsupportedModelError, UsageError
from calib8.files import check_model_file, checked_path, library_path
from calib8.model.graph import graph_inputs, opset_version
from calib8.model.large_constants import read_light
from calib8.model.node_order import put_in_order
from calib8.model.runtime import as_written, open_session
from calib8.model.stored_constants import (
    check_constants,
    check_functions,
    check_initializers,
    check_names,
    check_weights,
    has_external_data,
)
from calib8.model.time_first import time_first
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.magic import claims_to_be_tmfile

UNREADABLE: Final = (
    DecodeError,
    json_format.ParseError,
    text_format.ParseError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
)
"""What onnx and onnx_ir raise on bytes that are no model."""

OLDEST_OPSET: Final = 7
"""Older operator sets have broadcasting and attributes that no converter handles faithfully."""


Checked: TypeAlias = "str | bytes | onnx.ModelProto"
"""What onnx's checker takes."""

ModelSource: TypeAlias = "str | os.PathLike[str] | onnx.ModelProto | ir.Model"
"""A model as users have it."""

MOST_KEPT: Final = 2**26
"""Bytes of a file whose graph is kept for several steps; a larger one is opened again by each."""

_READ_FROM: Final = "calib8.read_from"
"""Where a graph notes what it was read from: a path, or nothing for a ModelProto."""


def load_model(source: ModelSource) -> ir.Model:
    """Reads an ONNX model, or a float TFLite or Tengine model as one, and checks that it is whole.

    Args:
        source: path of an .onnx file (external data beside it is mapped, not copied) or of a float .tflite
            or .tmfile, known by its first bytes; or a ModelProto; or a graph that this function gave, which
            comes back as it is: so a file is opened once however many steps take it.

    Raises:
        UsageError: neither of them.
        ModelError: no such file, not ONNX, truncated, missing or short external data, invalid graph.
        UnsupportedModelError: operator set older than 7 or newer than the installed onnx knows; a TFLite
            or Tengine model that is quantized or holds operators without ONNX nodes.
    """
    if isinstance(source, ir.Model):
        if _READ_FROM not in source.meta:
            raise UsageError(
                "model", "is a graph that was not loaded by calib8", "Give its path or a ModelProto"
            )
        return source
    model = _read(source)
    model.meta[_READ_FROM] = "" if isinstance(source, onnx.ModelProto) else os.fspath(source)
    return model


def _read(source: str | os.PathLike[str] | onnx.ModelProto) -> ir.Model:
    subject = "ModelProto" if isinstance(source, onnx.ModelProto) else str(checked_path(source, "model"))
    if not isinstance(source, onnx.ModelProto) and claims_to_be_tflite(source):
        return _from_tflite(subject)
    if not isinstance(source, onnx.ModelProto) and claims_to_be_tmfile(source):
        return _from_tmfile(subject)
    try:
        model, checked = _parsed(source)
        if "ai.onnx" in model.opset_imports:  # the long name of the standard operator set
            model.opset_imports[""] = model.opset_imports.pop("ai.onnx")
        _check_opset(model, subject)
        _check_inputs(model, subject)
        _check_external_data(model, subject)
        check_functions(model, subject)
        time_first(model, subject)  # before it is asked whether ONNX Runtime takes it
        _check_graph(model, checked, subject)
        check_constants(model, subject)
        check_names(model, subject)
        check_weights(model, subject)
    except UNREADABLE as error:
        raise _not_onnx(subject, error) from error
    return model


def read_from(model: ir.Model) -> str:
    """The path that ``load_model`` read a graph from, empty for a ModelProto."""
    return str(model.meta.get(_READ_FROM, ""))


def kept_open(source: ModelSource) -> ModelSource:
    """The graph for several steps; a large file stays a path, whose constants are not kept all the time.

    Raises:
        Calib8Error: what ``load_model`` raises.
    """
    path = None if isinstance(source, onnx.ModelProto | ir.Model) else checked_path(source, "model")
    if path is not None and path.is_file() and path.stat().st_size > MOST_KEPT:
        return source
    return load_model(source)


@contextmanager
def naming_file(model: ir.Model) -> Iterator[None]:
    """Errors of the model as a whole name its file, where it was given as one, and not its graph.

    Args:
        model: what ``load_model`` returned.

    Raises:
        Calib8Error: that of the body, perhaps with another subject.
    """
    try:
        yield
    except Calib8Error as error:
        path = model.meta.get(_READ_FROM)
        if not path or error.subject not in (model.graph.name, "model"):
            raise
        raise type(error)(path, error.problem, error.cure) from error


def _parsed(source: str | os.PathLike[str] | onnx.ModelProto) -> tuple[ir.Model, Checked]:
    """The graph, and what of it onnx's checker looks at."""
    if isinstance(source, onnx.ModelProto):
        check_initializers(source, "ModelProto")
        return ir.from_proto(source), source
    path = Path(source)
    check_model_file(source, "Give the path of an .onnx, .tflite or .tmfile")
    try:
        light = read_light(path)
        model = _read_whole(path) if light is None else light.model
    except OSError as error:
        raise ModelError(
            str(path), f"cannot be read ({error.strerror or error})", "Check its permissions"
        ) from error
    if model.graph.num_nodes() == 0 and not model.opset_imports:
        raise _not_onnx(str(path), None)
    if light is None or has_external_data(model):
        return model, library_path(path)
    return model, light.checked


def _read_whole(path: Path) -> ir.Model:
    """As ``onnx_ir.load``, which takes the last of several initializers of one name; runtimes the first."""
    proto = onnx.load(path, load_external_data=False)
    check_initializers(proto, str(path))
    model = ir.from_proto(proto)
    ir.external_data.set_base_dir(model.graph, path.parent)
    return model


def _from_tflite(path: str) -> ir.Model:
    from calib8.model.from_tflite.translate import float_model  # ONNX models do without the schema
    from calib8.tflite.read import read_tflite

    model = float_model(read_tflite(path), path)
    _check_inputs(model, path)
    return model


def _from_tmfile(path: str) -> ir.Model:
    from calib8.model.from_tmfile.translate import float_model  # ONNX models do without the format
    from calib8.tmfile.read import read_tmfile

    model = float_model(read_tmfile(path), path)
    _check_inputs(model, path)
    return model


def _not_onnx(subject: str, error: Exception | None) -> ModelError:
    detail = f" ({_first_line(error)})" if error is not None and str(error) else ""
    return ModelError(
        subject, f"is not an ONNX model or is truncated{detail}", "Export or download the model again"
    )


def _check_opset(model: ir.Model, subject: str) -> None:
    version = opset_version(model)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= version <= newest:
        raise UnsupportedModelError(
            subject,
            f"uses operator set {version}; supported are {OLDEST_OPSET} to {newest}",
            "Export it with another opset_version (17 is a good choice)",
        )


def _check_inputs(model: ir.Model, subject: str) -> None:
    for spec in graph_inputs(model):
        if spec.shape is not None and 0 in spec.shape:
            problem = f"its input '{spec}' has an axis of size 0, so there is nothing to compute"
            raise ModelError(subject, problem, "Export it with the sizes of a sample, or with a free axis")


def _check_external_data(model: ir.Model, subject: str) -> None:
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        cure = "Keep the external data file beside the model, under the name it was exported with"
        file = f"external data file '{tensor.location}'"
        path, place = Path(tensor.path), Path(os.path.normpath(tensor.location))
        if place.is_absolute() or place.parts[:1] == ("..",):
            raise ModelError(subject, f"{file} of '{name}' is outside of the folder of the model", cure)
        if not path.is_file():
            raise ModelError(subject, f"{file} of '{name}' is missing", cure)
        if tensor.length not in (None, tensor.nbytes):
            problem = f"has {tensor.length} bytes of external data for '{name}', which takes {tensor.nbytes}"
            raise ModelError(subject, problem, "Export or download the model again")
        needed = (tensor.offset or 0) + tensor.nbytes
        if path.stat().st_size < needed:
            raise ModelError(subject, f"{file} ends before tensor '{name}' ({needed} bytes needed)", cure)


def _check_graph(model: ir.Model, checked: Checked, subject: str) -> None:
    """onnx's own checker; what it refuses passes all the same if ONNX Runtime can load it.

    The checker reads a path itself, so that external data and > 2 GB pass; of a large file it gets bytes in
    which the large constants have a single element, as it looks at their sizes only. It is stricter than any
    runtime: exporters forget the shape of an output, or to list initializers as inputs in old files.
    """
    try:
        onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, DecodeError, ValueError) as error:
        if _loads_in_runtime(model):
            put_in_order(model)
            return
        raise ModelError(subject, f"is not valid ONNX ({_first_line(error)})", "Export it again") from error
    for name, value in model.graph.initializers.items():
        if value.const_value is None:
            raise ModelError(
                subject, f"initializer '{name}' has no data", "Export or download the model again"
            )


def _loads_in_runtime(model: ir.Model) -> bool:
    """Whether ONNX Runtime takes it: as it is written, in little memory, or else with its optimizations."""
    with suppress(Calib8Error):
        open_session(model, threads=1, configure=as_written)
        return True
    with suppress(Calib8Error):
        open_session(model, threads=1)
        return True
    return False


def _first_line(error: BaseException) -> str:
    """First line of what went wrong first: a reader wraps that in errors that only say where."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
