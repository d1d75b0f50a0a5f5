"""MXNet's thresholds as JSON: ``{"conv0_output": [-2.64, 2.64]}``, the range of every layer's output.

MXNet has no file of its own for them; this is the dictionary that its quantization takes in Python.
"""

from __future__ import annotations

import json
from typing import Any

from calib8.formats.table_file import EntryCollector, TableFile, json_object, number
from calib8.table import CalibrationTable


def recognizes(document: dict[str, Any]) -> bool:
    """Every value is a pair."""
    return bool(document) and all(isinstance(value, list) and len(value) == 2 for value in document.values())


def read(text: str, source: str) -> TableFile:
    """Reads a JSON object of ``[min, max]``.

    Raises:
        TableError: no such object, a name twice, bounds that are crossed or not finite.
    """
    entries = EntryCollector(source, "MXNet")
    for name, pair in json_object(text, source).items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise entries.error(f"{pair!r} is not a pair of numbers", name=name)
        entries.add(name, (number(pair[0]), number(pair[1])))
    return entries.finish(format="mxnet")


def write(table: CalibrationTable) -> str:
    """The JSON object, names sorted, every digit kept."""
    document = {name: [entry.range.min, entry.range.max] for name, entry in sorted(table.entries.items())}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
