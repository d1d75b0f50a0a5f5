"""The calibration table: for every quantized activation its range, and why it is that range.

The range is the truth; scale and zero point follow from it and the activation type, so one table
serves every target. The file is JSON with sorted names: the same statistics give the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from calib8.errors import TableError
from calib8.files import atomic_output, check_file, checked_path
from calib8.notebook import grid, in_notebook
from calib8.number_texts import percent
from calib8.parameters import escaped
from calib8.qparams import FLOAT32_MAX

TABLE_FORMAT: Final = "calib8-calibration-table"
TABLE_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)
"""Version 1 says nothing of the inputs."""

GIVEN: Final = "given"
"""Method of an entry whose range the user gave: nothing that the graph tells changes it."""

POWER_OF_TWO: Final = " power-of-two"
"""Behind the method of an entry whose scale was made a power of two."""


@dataclass(frozen=True)
class Range:
    """A closed interval of real values, finite float32, ``min <= max``."""

    min: float
    max: float

    def __post_init__(self) -> None:
        """Refuses NaN, Inf and crossed bounds."""
        if not -FLOAT32_MAX <= self.min <= self.max <= FLOAT32_MAX:
            raise ValueError(f"[{self.min}, {self.max}] is not a range")

    @property
    def magnitude(self) -> float:
        """Largest absolute value."""
        return max(abs(self.min), abs(self.max))

    def widened_to_zero(self) -> Range:
        """The smallest range that holds this one and 0."""
        return Range(min(self.min, 0.0), max(self.max, 0.0))

    def hull(self, other: Range) -> Range:
        """The smallest range that holds both."""
        return Range(min(self.min, other.min), max(self.max, other.max))


@dataclass(frozen=True)
class TableEntry:
    """What is known of one tensor.

    Attributes:
        range: the chosen range.
        method: name of the method that chose it, ``GIVEN`` for the user's own range.
        clipped: share of the finite values seen that lie outside the range, 0 … 1.
        count: number of finite values seen.
        zeros: how many of them were exactly zero.
        observed: smallest and largest finite value seen.
        reason: why this range, where more than the method tells; may be empty.
    """

    range: Range
    method: str
    clipped: float
    count: int
    zeros: int
    observed: Range
    reason: str = ""


@dataclass(frozen=True)
class CalibrationTable:
    """Ranges of the activations of one prepared model.

    Attributes:
        model_hash: hash of the prepared float graph, see ``calib8.model.graph.model_hash``.
        entries: tensor name → entry, in ascending order of the names.
        inputs: input name → sizes of one sample, of inputs for which model and preprocessing of the run said
            them all.
    """

    model_hash: str
    entries: Mapping[str, TableEntry]
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: how many ranges, by which methods."""
        return f"<CalibrationTable: {len(self.entries)} ranges by {self.methods}>"

    def _repr_html_(self) -> str:
        """The ranges, for notebooks."""
        return in_notebook(repr(self), range_grid(self))

    @property
    def methods(self) -> str:
        """The names of the methods that chose the ranges, in words."""
        return escaped(", ".join(sorted({entry.method for entry in self.entries.values()}))) or "no method"

    @property
    def power_of_two(self) -> bool:
        """Whether it was made for scales that are powers of two."""
        return any(entry.method.endswith(POWER_OF_TWO) for entry in self.entries.values())

    def range_of(self, tensor: str) -> Range:
        """The range of a tensor.

        Raises:
            TableError: the table has no such tensor.
        """
        entry = self.entries.get(tensor)
        if entry is None:
            raise TableError(tensor, "the calibration table has no such tensor", "Calibrate this model again")
        return entry.range

    def to_json(self) -> str:
        """The table as JSON text, byte-identical for equal tables."""
        document = {
            "format": TABLE_FORMAT,
            "version": TABLE_VERSION,
            "model_hash": self.model_hash,
            "inputs": {name: list(self.inputs[name]) for name in sorted(self.inputs)},
            "tensors": {name: _fields(self.entries[name]) for name in sorted(self.entries)},
        }
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "calibration table") -> CalibrationTable:
        """Reads what ``to_json`` wrote.

        Raises:
            TableError: not such a table, a newer version, or a broken entry (named).
        """
        document = _parse(text, source)
        tensors = document.get("tensors")
        if not isinstance(tensors, dict):
            raise TableError(source, "has no 'tensors'", "Calibrate again")
        entries = {name: _entry(name, tensors[name], source) for name in sorted(tensors)}
        return cls(str(document.get("model_hash", "")), entries, _inputs(document, source))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON file.

        Raises:
            OutputError: the file cannot be written; an old file stays intact.
        """
        with atomic_output(path) as temporary:
            temporary.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CalibrationTable:
        """Reads a JSON file written by ``save``.

        Raises:
            UsageError: no path.
            TableError: the file cannot be read or is not such a table.
        """
        file = checked_path(path, "table")
        check_file(file, "Give a table that calib8 wrote", TableError)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TableError(
                str(path), f"cannot be read ({error})", "Give a table that calib8 wrote"
            ) from error
        return cls.from_json(text, str(path))


def range_grid(table: CalibrationTable) -> str:
    """The ranges of a table, for notebooks."""
    return grid(
        ("tensor", "minimum", "maximum", "clipped", "method"),
        list(table.entries.items()),
        lambda one: (
            one[0],
            one[1].range.min,
            one[1].range.max,
            percent(one[1].clipped if one[1].count else None),
            one[1].method,
        ),
    )


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(source, f"is not JSON ({error})", "Give a table that calib8 wrote") from error
    if not isinstance(document, dict) or document.get("format") != TABLE_FORMAT:
        raise TableError(source, f"is not a {TABLE_FORMAT}", "Give a table that calib8 wrote")
    version = document.get("version")
    if version not in READABLE_VERSIONS:
        problem = f"has version {version}, not {' or '.join(map(str, READABLE_VERSIONS))}"
        raise TableError(source, problem, "Calibrate again or update calib8")
    return document


def _inputs(document: Mapping[str, Any], source: str) -> dict[str, tuple[int, ...]]:
    found = document.get("inputs", {})
    lists = found.values() if isinstance(found, dict) else [None]
    if not all(isinstance(sizes, list) and all(type(size) is int for size in sizes) for sizes in lists):
        raise TableError(source, "has broken 'inputs'", "Calibrate again")
    return {name: tuple(found[name]) for name in sorted(found)}


def _fields(entry: TableEntry) -> dict[str, Any]:
    """The entry as JSON has it, without an empty reason."""
    fields = asdict(entry)
    return fields if entry.reason else {key: fields[key] for key in fields if key != "reason"}


def _entry(name: str, fields: Any, source: str) -> TableEntry:
    parts = (
        [fields, *(fields.get(key) for key in ("range", "observed"))] if isinstance(fields, dict) else [None]
    )
    try:
        if not all(isinstance(part, dict) for part in parts):
            raise ValueError("it needs a 'range' and an 'observed' with their limits")
        entry = TableEntry(
            range=Range(**fields["range"]),
            method=str(fields["method"]),
            clipped=float(fields["clipped"]),
            count=int(fields["count"]),
            zeros=int(fields["zeros"]),
            observed=Range(**fields["observed"]),
            reason=str(fields.get("reason", "")),
        )
        if not (0.0 <= entry.clipped <= 1.0 and 0 <= entry.zeros <= entry.count):
            raise ValueError(f"clipped {entry.clipped}, zeros {entry.zeros} of {entry.count}")
        return entry
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TableError(
            f"{source}, tensor '{name}'", f"broken entry ({error})", "Calibrate again"
        ) from error
