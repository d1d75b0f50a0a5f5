"""Tables of Tengine's tools for an ONNX model, whose tensors their converter calls otherwise.

A table whose names a tool of Tengine does not find gives those tensors the scale 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from calib8.table import CalibrationTable
from calib8.tmfile.graph import copy_of, made_for

Entry = TypeVar("Entry")


def with_made(entries: Mapping[str, Entry], wanted: Iterable[str]) -> dict[str, Entry]:
    """With entries of the wanted tensors that ``exporting.tmfile`` made for others: those of the others.

    An output that is a copy, and what it copies, are one tensor once the copy is gone.
    """
    found = dict(entries)
    for name in wanted:
        for like in (made_for(name), copy_of(name)):
            if name not in found and like is not None and like in entries:
                found[name] = entries[like]
    return found


def with_converter_names(table: CalibrationTable, names: Mapping[str, str]) -> CalibrationTable:
    """A table for Tengine's tools: every tensor under the name that the converter gives it.

    Args:
        table: ranges of the prepared model.
        names: what ``converter_names`` gave.
    """
    taken = {names[name] for name in table.entries if name in names}
    entries = {
        names.get(name, name): entry
        for name, entry in table.entries.items()
        if name in names or name not in taken
    }
    return replace(table, entries=entries)


def with_own_names(table: CalibrationTable, names: Mapping[str, str]) -> CalibrationTable:
    """A table of Tengine's tools: every tensor under the name that the ONNX model gives it.

    A table that names the results of fusions already, as one made for the ONNX model does, stays as it is.
    """
    entries = dict(table.entries)
    for own, theirs in names.items():
        if theirs in entries and own not in entries:
            entries[own] = entries.pop(theirs)
    return replace(table, entries=entries)
