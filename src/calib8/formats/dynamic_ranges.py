"""TensorRT's dynamic-range file, as its sample for INT8 by hand reads it: one ``name:amax`` per line.

    data:2.6408                       range [−amax, amax]

Names may hold colons: a line is split at its last one.
"""

from __future__ import annotations

from calib8.errors import TableError
from calib8.formats.table_file import EntryCollector, TableFile, float_or_none, lines_of, symmetric_scale
from calib8.table import CalibrationTable, Range


def recognizes(text: str) -> bool:
    """The first line ends with a colon and a number."""
    lines = lines_of(text)
    return bool(lines) and float_or_none(lines[0][1].rpartition(":")[2]) is not None and ":" in lines[0][1]


def read(text: str, source: str) -> TableFile:
    """Reads a dynamic-range file.

    Raises:
        TableError: a line without name or number, a name twice, a range that is not positive and finite.
    """
    entries = EntryCollector(source, "TensorRT dynamic range")
    for number, line in lines_of(text):
        name, _, digits = line.rpartition(":")
        limit = float_or_none(digits)
        if limit is None:
            raise entries.error(f"'{line[:80]}' is not a name, ':' and a number", f"line {number}")
        if not limit > 0.0:
            raise entries.error(f"the range {digits.strip()} is not positive", f"line {number}", name)
        entries.add(name, (-limit, limit), f"line {number}")
    return entries.finish(format="tensorrt-ranges")


def write(table: CalibrationTable) -> str:
    """The file: the larger magnitude of every range, with all its digits.

    Raises:
        TableError: a name that holds a line break.
    """
    lines = []
    for name, entry in sorted(table.entries.items()):
        if "\n" in name or not name:
            raise TableError(f"tensor '{name}'", "no line of a dynamic-range file can hold it", "Rename it")
        lines.append(f"{name}:{_limit(entry.range)!r}\n")
    return "".join(lines)


def _limit(chosen: Range) -> float:
    """The magnitude; 127 (scale 1) where that is too small for a float32 scale."""
    scale = symmetric_scale(chosen)
    return chosen.magnitude if chosen.magnitude > 0.5 * scale else 127.0 * scale
