"""A calibration table as the file of some tool holds it: what all formats have in common.

    symmetric    range = [−127 s, 127 s]
    asymmetric   range = [s (qmin − z), s (qmax − z)]          real = s (code − z)

Scales are float32 values and the products are exact in float64, so ``activation_qparams`` turns the
range back into exactly the scale and the zero point that the file had.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from calib8.errors import TableError
from calib8.notebook import in_notebook, notes
from calib8.qparams import (
    FLOAT32_MAX,
    INT8_SYMMETRIC,
    QParams,
    QuantSpec,
    activation_qparams,
    representable_range,
)
from calib8.table import CalibrationTable, Range, TableEntry, range_grid

_NAMED: Final = 5
"""So many names are listed before the rest is counted."""


@dataclass(frozen=True)
class TableFile:
    """What a file says.

    Attributes:
        format: a key of ``calib8.formats.tables.FORMATS``.
        table: ranges; its ``model_hash`` is empty unless the file names the model.
        keys: what the entries are called after: tensors, or layers whose first input is meant.
        without_scale: names that the file lists without a usable scale: they stay float.
        weight_scales: name → scales of weights as the file has them; nothing is made of them.
        header: first line of a TensorRT cache, empty elsewhere.
        source: the file, for messages.
    """

    format: str
    table: CalibrationTable
    keys: Literal["tensors", "layers"] = "tensors"
    without_scale: tuple[str, ...] = ()
    weight_scales: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    header: str = ""
    source: str = "calibration table"

    def __repr__(self) -> str:
        """One line: which format, how many ranges, where from."""
        return f"<TableFile: {len(self.table.entries)} ranges of {self.keys}, {self.format}, {self.source!r}>"

    def _repr_html_(self) -> str:
        """The ranges, for notebooks."""
        without = [f"{name}: without a scale, stays float" for name in self.without_scale]
        return in_notebook(repr(self), range_grid(self.table), notes(without))


class EntryCollector:
    """Gathers the entries of one file; names that come twice and numbers that give no range are refused."""

    def __init__(self, source: str, method: str) -> None:
        """``source`` is the file, for messages; ``method`` goes into every entry."""
        self.source = source
        self.method = method
        self._entries: dict[str, TableEntry] = {}
        self._without: list[str] = []
        self._seen: dict[str, str] = {}

    def add(self, name: str, bounds: tuple[float, float], where: str = "") -> None:
        """An entry with the range ``bounds``; ``where`` is its place in the file, such as ``line 7``.

        Raises:
            TableError: the name has been seen, or the bounds are crossed or no finite float32.
        """
        self._see(name, where)
        try:
            chosen = Range(float(bounds[0]), float(bounds[1]))
        except ValueError as error:
            raise self.error(str(error), where, name) from error
        self._entries[name] = entry_without_statistics(chosen, self.method)

    def add_scale(self, name: str, scale: float, where: str = "") -> None:
        """An entry with the range of a symmetric int8 scale.

        Raises:
            TableError: as ``add``, and for a scale that is no positive finite float32.
        """
        self.add(name, symmetric_bounds(self.positive(scale, where, name)), where)

    def add_without_scale(self, name: str, where: str = "") -> None:
        """A name that the file lists, but for which it has no range.

        Raises:
            TableError: the name has been seen.
        """
        self._see(name, where)
        self._without.append(name)

    def positive(self, value: float, where: str, name: str) -> float:
        """``value`` as a float32 value.

        Raises:
            TableError: it is NaN, infinite, zero or negative.
        """
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        if not 0.0 < rounded <= FLOAT32_MAX:
            raise self.error(f"the scale {value:g} is not a positive finite number", where, name)
        return rounded

    def error(self, problem: str, where: str = "", name: str | None = None) -> TableError:
        """An error that names file, place and tensor."""
        place = f", {where}" if where else ""
        tensor = "" if name is None else f", tensor '{name}'"
        return TableError(
            f"{self.source}{place}{tensor}", problem, "Mend the line, or write the table again with its tool"
        )

    def finish(self, **fields: Any) -> TableFile:
        """The file; ``fields`` are those of ``TableFile`` beyond the entries.

        Raises:
            TableError: it held no entry at all.
        """
        if not self._seen:
            raise self.error("holds no tensor")
        entries = {name: self._entries[name] for name in sorted(self._entries)}
        table = CalibrationTable("", entries)
        without = tuple(sorted(self._without))
        return TableFile(table=table, without_scale=without, source=self.source, **fields)

    def _see(self, name: str, where: str) -> None:
        if not name:
            raise self.error("has no tensor name", where)
        if name in self._seen:
            first = f" (first in {self._seen[name]})" if self._seen[name] else ""
            raise self.error(f"comes twice{first}", where, name)
        self._seen[name] = where


def entry_without_statistics(chosen: Range, method: str) -> TableEntry:
    """An entry of which nothing but the range is known: no counts, nothing observed."""
    return TableEntry(chosen, method, clipped=0.0, count=0, zeros=0, observed=Range(0.0, 0.0))


def symmetric_bounds(scale: float) -> tuple[float, float]:
    """Bounds of the range of a symmetric int8 scale: ±127 s, exact in float64."""
    limit = (INT8_SYMMETRIC.magnitude_levels - 1) * scale
    return -limit, limit


def asymmetric_bounds(scale: float, zero_point: int, spec: QuantSpec) -> tuple[float, float]:
    """Bounds of the range of scale and zero point: the values of the lowest and the highest code."""
    return representable_range(QParams(scale, zero_point), spec)


def symmetric_scale(chosen: Range) -> float:
    """max(|min|, |max|) / 127 as float32; 1 for a range too small for a float32 scale."""
    return activation_qparams(chosen.min, chosen.max, INT8_SYMMETRIC).scale


def is_symmetric(chosen: Range) -> bool:
    """Whether a symmetric code keeps all of the range."""
    return chosen.min == -chosen.max


def lines_of(text: str) -> list[tuple[int, str]]:
    """Number (from 1) and text of every line that is not empty; Windows line ends are accepted."""
    lines = enumerate(text.split("\n"), start=1)
    return [(number, line.rstrip("\r")) for number, line in lines if line.strip()]


def float_or_none(text: str) -> float | None:
    """The number a text stands for, ``inf`` and ``nan`` included; None where it is none."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def json_object(text: str, source: str) -> dict[str, Any]:
    """A JSON object whose names are all different.

    Raises:
        TableError: it is no JSON object, or a name comes twice.
    """
    try:
        document = json.loads(text, object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError) as error:
        raise TableError(source, f"cannot be read as JSON ({error})", "Write the table again") from error
    if not isinstance(document, dict):
        raise TableError(source, "is no JSON object", "Give a calibration table")
    return document


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"'{name}' comes twice")
        found[name] = value
    return found


def number(value: object) -> float:
    """A JSON number as float, NaN for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + more
