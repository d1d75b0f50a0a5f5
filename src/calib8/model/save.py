"""Writing models: atomically, with external data once protobuf's 2 GB would be passed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import onnx_ir as ir

from calib8.errors import OutputError
from calib8.files import atomic_output, checked_path, output_file

PROTOBUF_LIMIT: Final = 2**31 - 2**20
"""Largest size of one .onnx file in bytes, with a megabyte left for the graph itself."""

SMALLEST_MAPPED: Final = 1024
"""Bytes; constants that are larger may lie beside a graph, shapes and the like never do."""


def constant_bytes(model: ir.Model) -> int:
    """Bytes of all initializers."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def save_model(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Writes an .onnx file; models over 2 GB get their constants in ``NAME.onnx.data`` beside it.

    Raises:
        UsageError: no path.
        OutputError: the file cannot be written; an old file stays intact.
    """
    target = checked_path(path, "model")
    if constant_bytes(model) < PROTOBUF_LIMIT:
        with atomic_output(target) as temporary:
            temporary.write_bytes(model_bytes(model))
        return
    target = output_file(target)  # what a link leads to: the constants belong beside that
    data_name = target.name + ".data"
    with atomic_output(target) as temporary, atomic_output(target.with_name(data_name)) as data:
        ir.save(model, temporary, external_data=data.name)
        _rename_external_data(temporary, data.name, data_name)


def model_bytes(model: ir.Model) -> bytes:
    """The serialized model with all its constants inside, the same bytes for the same model.

    Raises:
        OutputError: larger than protobuf can hold.
    """
    tensors = (value.const_value for value in model.graph.initializers.values())
    if any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors):
        model = ir.external_data.load_to_model(model.clone())
    try:
        data: bytes = ir.to_proto(model).SerializeToString(deterministic=True)
    except ValueError as error:
        raise OutputError(
            model.graph.name or "model", f"cannot be serialized ({error})", "Save it to a path"
        ) from error
    return data


def save_beside_constants(model: ir.Model, path: Path) -> None:
    """Writes a file that ONNX Runtime maps the large constants of, from ``NAME.data``, in place of copying.

    Neither the model nor its constants are in memory a second time on the way.

    Raises:
        OutputError: the system does not write them, or a constant states sizes that no file has.
    """
    try:
        parts = ir.external_data.unload_from_model(
            model.clone(), path.parent, path.name + ".data", size_threshold_bytes=SMALLEST_MAPPED
        )
        path.write_bytes(ir.to_proto(parts).SerializeToString(deterministic=True))
    except OSError as error:
        problem = f"its constants cannot be written to {path.parent} ({error.strerror or error})"
        cure = "Free some space there, or export the model again"
        raise OutputError(model.graph.name or "model", problem, cure) from error


def _rename_external_data(path: Path, old: str, new: str) -> None:
    import onnx

    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location" and entry.value == old:
                entry.value = new
    path.write_bytes(proto.SerializeToString(deterministic=True))
