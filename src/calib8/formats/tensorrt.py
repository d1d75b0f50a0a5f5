"""TensorRT's calibration cache: a header and ``name: scale`` lines, the scale as eight hex digits.

    TRT-8601-EntropyCalibration2
    data: 3caa578d                    big-endian float32, scale = amax / 127

Names may hold spaces and colons: a line is split at its last ``": "``. A zero or infinite scale is that of
a tensor for which TensorRT's calibration failed; it counts as missing, and TensorRT runs it in float.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final

from calib8.errors import TableError, UsageError
from calib8.formats.table_file import EntryCollector, TableFile, lines_of, symmetric_scale
from calib8.parameters import parameter
from calib8.table import CalibrationTable

ALGORITHMS: Final = ("EntropyCalibration", "EntropyCalibration2", "MinMaxCalibration", "LegacyCalibration")

DEFAULT_HEADER: Final = "TRT-8601-EntropyCalibration2"
"""TensorRT reads a cache only if version and algorithm are those of the reader."""

_HEADER: Final = re.compile(rf"TRT-(\d{{4,6}})-({'|'.join(ALGORITHMS)})")
_LINE: Final = re.compile(r"(.*): ([0-9a-fA-F]{8})", re.DOTALL)


def recognizes(text: str) -> bool:
    """The first line is like a header, or the second one like a tensor."""
    lines = [line for _, line in lines_of(text)[:2]]
    return bool(lines) and (lines[0].startswith("TRT-") or _LINE.fullmatch(lines[-1]) is not None)


def read(text: str, source: str) -> TableFile:
    """Reads a cache of any version and algorithm.

    Raises:
        TableError: a header that is none, a line without name or eight hex digits, a name twice, a scale
            that is negative or NaN.
    """
    lines = lines_of(text)
    header = _HEADER.fullmatch(lines[0][1].strip()) if lines else None
    if header is None:
        first = lines[0][1] if lines else ""
        raise TableError(
            f"{source}, line 1",
            f"'{first[:60]}' is not a header of a TensorRT cache",
            "It must be like TRT-8601-EntropyCalibration2",
        )
    entries = EntryCollector(source, f"TensorRT cache {header[2]}")
    for number, line in lines[1:]:
        where = f"line {number}"
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise entries.error(f"'{line[:80]}' is not a name, ': ' and eight hex digits", where)
        scale = decode(parts[2])
        if scale in (0.0, math.inf):
            entries.add_without_scale(parts[1], where)
        else:
            entries.add_scale(parts[1], scale, where)
    return entries.finish(format="tensorrt", header=header[0])


def write(table: CalibrationTable, header: str = DEFAULT_HEADER) -> str:
    """The cache: the scale of every range, its larger magnitude / 127.

    Args:
        table: ranges; what is not symmetric around 0 is widened to that.
        header: first line; TensorRT recalibrates where it is not its own.

    Raises:
        UsageError: a header that TensorRT cannot have written.
        TableError: a name that holds a line break.
    """
    if _HEADER.fullmatch(header) is None:
        problem = "is not TRT-, four to six digits and an algorithm"
        raise UsageError(parameter("header", header), problem, f"Write it like {DEFAULT_HEADER}")
    lines = [header]
    for name, entry in sorted(table.entries.items()):
        if "\n" in name or not name:
            raise TableError(f"tensor '{name}'", "no line of a TensorRT cache can hold it", "Rename it")
        lines.append(f"{name}: {encode(symmetric_scale(entry.range))}")
    return "\n".join(lines) + "\n"


def decode(digits: str) -> float:
    """Eight hex digits → the float32 that they are."""
    value: float = struct.unpack(">f", bytes.fromhex(digits))[0]
    return value


def encode(scale: float) -> str:
    """A float32 → eight hex digits, most significant first."""
    return struct.pack(">f", scale).hex()
