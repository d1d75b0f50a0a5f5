"""ONNX Runtime's calibration JSON: ``lowest`` and ``highest`` of every tensor, as float32 arrays.

    {"CLS": "TensorsData", "data": {name: {"lowest": array, "highest": array, …}}, "calibration_method": …}
    array = {"data": 2.5, "dtype": "float32", "CLS": "numpy.array"}

That is what ``save_tensors_data`` of ``onnxruntime.quantization.calibrate`` writes and what is written
here. ``write_calibration_table`` writes the inner object alone (``calibration.json``); it is read too.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from calib8.errors import TableError
from calib8.formats.table_file import EntryCollector, TableFile, json_object, number
from calib8.table import CalibrationTable


def recognizes(document: dict[str, Any]) -> bool:
    """The object says so, or its values do."""
    if document.get("CLS") == "TensorsData":
        return True
    values = list(document.values())
    return bool(values) and all(isinstance(v, dict) and v.get("CLS") == "TensorData" for v in values)


def read(text: str, source: str) -> TableFile:
    """Reads either form.

    Raises:
        TableError: neither, a name twice, ranges per channel, missing, crossed or not finite bounds.
    """
    document = json_object(text, source)
    tensors: Any = document
    method = "calibration table"
    if document.get("CLS") == "TensorsData":
        tensors, method = document.get("data"), _method(document.get("calibration_method"))
    if not isinstance(tensors, dict):
        raise TableError(source, "has no 'data'", "Write the table again with ONNX Runtime")
    entries = EntryCollector(source, f"ONNX Runtime {method}")
    for name, fields in tensors.items():
        if not isinstance(fields, dict) or not {"lowest", "highest"} <= fields.keys():
            raise entries.error("has no 'lowest' and 'highest'", name=name)
        low, high = (_single(fields[key], entries, name) for key in ("lowest", "highest"))
        entries.add(name, (low, high))
    return entries.finish(format="onnxruntime")


def write(table: CalibrationTable) -> str:
    """The text that ``load_tensors_data`` reads; bounds are rounded to float32, which it demands."""
    data = {
        name: {"lowest": _array(entry.range.min), "highest": _array(entry.range.max), "CLS": "TensorData"}
        for name, entry in sorted(table.entries.items())
    }
    document = {
        "CLS": "TensorsData",
        "data": data,
        "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"},
        "smooth_quant": False,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _array(value: float) -> dict[str, Any]:
    return {"data": float(np.float32(value)), "dtype": "float32", "CLS": "numpy.array"}


def _single(value: Any, entries: EntryCollector, name: str) -> float:
    """The number in an array of one element, or a plain number."""
    data = value.get("data") if isinstance(value, dict) else value
    while isinstance(data, list):
        if len(data) != 1:
            raise entries.error(f"has {len(data)} ranges, one per channel", name=name)
        data = data[0]
    return number(data)


def _method(value: Any) -> str:
    """``Entropy`` of ``{"CLS": "CalibrationMethod", "value": "CalibrationMethod.Entropy"}``."""
    text = value.get("value") if isinstance(value, dict) else None
    return text.rpartition(".")[2] if isinstance(text, str) else "calibration table"
