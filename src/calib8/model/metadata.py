"""What a quantized file says of itself: target, activation type, preprocessing, version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import onnx
import onnx_ir as ir

from calib8.errors import ModelError
from calib8.files import check_model_file
from calib8.json_texts import parse_json

PREFIX: Final = "calib8."


def write_metadata(model: ir.Model, entries: dict[str, str]) -> None:
    """Stores entries under ``calib8.<key>`` in the model's metadata."""
    for key, value in entries.items():
        model.metadata_props[PREFIX + key] = value


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The entries that ``write_metadata`` stored, without the prefix; empty for a foreign model.

    Raises:
        ModelError: the file is no ONNX model.
    """
    check_model_file(path, "Give the path of an .onnx file")
    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise ModelError(str(path), "is not an ONNX model", "Give the path of an .onnx file") from error
    return _own({entry.key: entry.value for entry in proto.metadata_props})


def stored_entries(model: ir.Model) -> dict[str, str]:
    """The same of a model that is loaded."""
    return _own(model.metadata_props)


def stored_names(model: ir.Model, key: str) -> tuple[str, ...]:
    """An entry that is a list of names; none where there is no entry.

    Raises:
        ModelError: it is something else.
    """
    try:
        found = parse_json(stored_entries(model).get(key, "[]"))
        if isinstance(found, list) and all(isinstance(name, str) for name in found):
            return tuple(found)
    except ValueError:
        pass
    raise ModelError(model.graph.name or "model", f"its metadata '{key}' are broken", "Quantize it again")


def _own(entries: Mapping[str, str]) -> dict[str, str]:
    """Those of calib8; protobuf gives bytes where a broken file has what is no text."""
    texts = {key: value for key, value in entries.items() if isinstance(key, str) and isinstance(value, str)}
    return {key.removeprefix(PREFIX): value for key, value in texts.items() if key.startswith(PREFIX)}
