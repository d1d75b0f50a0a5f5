"""All formats in one table: which there are, how each is recognized, read and written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnx_ir as ir

from calib8.errors import TableError, UsageError
from calib8.files import atomic_output, check_file, checked_path
from calib8.formats import aimet, dynamic_ranges, mxnet, ncnn, onnxruntime, tengine, tensorrt
from calib8.formats.table_file import TableFile
from calib8.parameters import either, one_of, parameter
from calib8.table import TABLE_FORMAT, CalibrationTable
from calib8.tflite.magic import claims_to_be_tflite


@dataclass(frozen=True)
class TableFormat:
    """One format.

    Attributes:
        title: what people call it.
        read: content and name of the file → what it says; raises TableError.
        write: table, model (None if there is none), header (empty: the usual one) → content.
        layers: its names are those of layers, so that writing it takes a model.
    """

    title: str
    read: Callable[[str, str], TableFile]
    write: Callable[[CalibrationTable, ir.Model | None, str], str]
    layers: bool = False


def _plain(
    write: Callable[[CalibrationTable], str],
) -> Callable[[CalibrationTable, ir.Model | None, str], str]:
    return lambda table, model, header: write(table)


def _read_own(text: str, source: str) -> TableFile:
    return TableFile("calib8", CalibrationTable.from_json(text, source), source=source)


def _write_ncnn(table: CalibrationTable, model: ir.Model | None, header: str) -> str:
    if model is None:
        asked = either("form='ncnn'", "--to ncnn")
        raise UsageError(
            asked, "its table is called after layers", f"Give the model with {parameter('model')}"
        )
    return ncnn.write(table, model)


def _write_tensorrt(table: CalibrationTable, model: ir.Model | None, header: str) -> str:
    return tensorrt.write(table, header or tensorrt.DEFAULT_HEADER)


FORMATS: Final[dict[str, TableFormat]] = {
    "calib8": TableFormat("calibration table", _read_own, _plain(CalibrationTable.to_json)),
    "tensorrt": TableFormat("TensorRT calibration cache", tensorrt.read, _write_tensorrt),
    "tensorrt-ranges": TableFormat(
        "TensorRT dynamic ranges", dynamic_ranges.read, _plain(dynamic_ranges.write)
    ),
    "ncnn": TableFormat("ncnn table", ncnn.read, _write_ncnn, layers=True),
    "tengine": TableFormat(
        "Tengine int8 scales",
        partial(tengine.read, form="tengine"),
        _plain(partial(tengine.write, form="tengine")),
    ),
    "tengine-uint8": TableFormat(
        "Tengine uint8 scales",
        partial(tengine.read, form="tengine-uint8"),
        _plain(partial(tengine.write, form="tengine-uint8")),
    ),
    "mxnet": TableFormat("MXNet thresholds", mxnet.read, _plain(mxnet.write)),
    "onnxruntime": TableFormat("ONNX Runtime calibration data", onnxruntime.read, _plain(onnxruntime.write)),
    "aimet": TableFormat("AIMET encodings 1.0.0", aimet.read, _plain(aimet.write)),
    "aimet-0.6.1": TableFormat(
        "AIMET encodings 0.6.1", aimet.read, _plain(partial(aimet.write, version=aimet.MAPPINGS))
    ),
}

_JSON: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "calib8": lambda document: document.get("format") == TABLE_FORMAT,
    "aimet": aimet.recognizes,
    "onnxruntime": onnxruntime.recognizes,
    "mxnet": mxnet.recognizes,
}
_TEXT: Final[dict[str, Callable[[str], bool]]] = {
    "tensorrt": tensorrt.recognizes,
    "ncnn": ncnn.recognizes,
    "tengine": tengine.recognizes,
    "tensorrt-ranges": dynamic_ranges.recognizes,
}
"""How a content is recognized, asked in this order."""


_FORM: Final = either("form of calib8.read_table", "--format, --table-format of quantize")


def table_format(name: str, asked: str | None = None) -> TableFormat:
    """A format by its name.

    Args:
        name: a key of ``FORMATS``.
        asked: how it was asked for, for the message; None: with ``form``.

    Raises:
        UsageError: there is no such format.
    """
    if name not in FORMATS:
        raise UsageError(asked or parameter("form", name), "unknown format", one_of(name, FORMATS))
    return FORMATS[name]


def read_table(path: str | os.PathLike[str], form: str | None = None) -> TableFile:
    """Reads a table of any format.

    Args:
        path: the file.
        form: a key of ``FORMATS``; None: told by the content.

    Raises:
        UsageError: there is no such format, or no path.
        TableError: the file cannot be read, is of no known format, or is broken.
    """
    read = None if form is None else table_format(form).read
    source = str(checked_path(path, "table"))
    check_file(path, "Give a calibration table", TableError)
    if claims_to_be_tflite(path):
        from calib8.tflite.uses import uses_of_file  # tables do without the schema

        raise TableError(source, "is a TFLite model", f"Give a calibration table{uses_of_file(path)}")
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise TableError(source, f"cannot be read ({error})", "Give a calibration table") from error
    return (recognize(text, source) if read is None else read)(text, source)


def recognize(text: str, source: str) -> Callable[[str, str], TableFile]:
    """The reader for a content.

    Raises:
        TableError: it is like no format.
    """
    if text.lstrip().startswith("{"):
        document = _peek(text, source)
        for name, is_like in _JSON.items():
            if is_like(document):
                return FORMATS[name].read
    else:
        for name, is_text_like in _TEXT.items():
            if is_text_like(text):
                return tengine.read if name == "tengine" else FORMATS[name].read
    raise TableError(
        source,
        "is like no calibration table that is known",
        f"Name its format ({_FORM})",
    )


def _peek(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(source, f"is not JSON ({error})", "Give a calibration table") from error
    return document if isinstance(document, dict) else {}


def table_text(table: CalibrationTable, form: str, *, model: ir.Model | None = None, header: str = "") -> str:
    """The content of a table in a format.

    Args:
        table: ranges of tensors.
        form: a key of ``FORMATS``.
        model: the prepared graph, for formats that name layers.
        header: first line of a TensorRT cache; empty: the usual one.

    Raises:
        UsageError: there is no such format, or it lacks the model.
        TableError: a name that the format cannot hold.
    """
    return table_format(form).write(table, model, header)


def write_table(
    path: str | os.PathLike[str],
    table: CalibrationTable,
    form: str,
    *,
    model: ir.Model | None = None,
    header: str = "",
) -> None:
    """Writes a table in a format, see ``table_text``; what the format cannot hold is left out.

    Raises:
        UsageError, TableError: as ``table_text``.
        OutputError: the file cannot be written; an old file stays intact.
    """
    write_text(path, table_text(table, form, model=model, header=header))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes the content of a table.

    Raises:
        OutputError: the file cannot be written; an old file stays intact.
        TableError: a name is no valid text.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise TableError(os.fspath(path), f"a name is not text ({error})", "Rename the tensor") from error
    with atomic_output(path) as temporary:
        temporary.write_bytes(content)
