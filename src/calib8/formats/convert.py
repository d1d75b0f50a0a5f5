"""``convert_table``: a calibration table in the format of another tool, and what that cannot hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from calib8.calibration.source import prepare_for_table
from calib8.errors import TableError, UsageError
from calib8.files import check_output, checked_path
from calib8.formats.bind import Binding, bind, layers_to_tensors
from calib8.formats.difference import losses
from calib8.formats.table_file import TableFile
from calib8.formats.tables import FORMATS, read_table, table_format, table_text, write_text
from calib8.formats.tengine import TYPES as TENGINE_FORMATS
from calib8.formats.tengine_names import with_converter_names, with_own_names
from calib8.model.load import ModelSource
from calib8.notebook import in_notebook, notes
from calib8.parameters import escaped, parameter
from calib8.passes.converter_names import converter_names
from calib8.requests import checks_types
from calib8.table import CalibrationTable, range_grid

AnyTable = str | os.PathLike[str] | TableFile | CalibrationTable


@dataclass(frozen=True)
class TableConversion:
    """What ``convert_table`` wrote.

    Attributes:
        source: the table that was given.
        output: the file.
        to: its format, a key of ``calib8.formats.tables.FORMATS``.
        table: the ranges that the file holds, called after tensors.
        binding: which names belong to the model, None without one.
        lost: what the format cannot hold, in words.
    """

    source: TableFile
    output: Path
    to: str
    table: CalibrationTable
    binding: Binding | None
    lost: tuple[str, ...]

    def __repr__(self) -> str:
        """One line: what became of what."""
        how = f"{len(self.table.entries)} ranges, {self.source.format} to {self.to}"
        lost = f", lost: {escaped('; '.join(self.lost))}" if self.lost else ""
        return f"<TableConversion: {how}, {str(self.output)!r}{lost}>"

    def _repr_html_(self) -> str:
        """The ranges that were written and what was lost, for notebooks."""
        return in_notebook(repr(self), notes([f"lost: {what}" for what in self.lost]), range_grid(self.table))


@dataclass(frozen=True)
class _Bound:
    """A table called after tensors; on a model, if one was given, with what Tengine calls its tensors."""

    file: TableFile
    prepared: ir.Model | None
    binding: Binding | None
    names: Mapping[str, str] = field(default_factory=dict)


@checks_types
def convert_table(
    table: AnyTable,
    output: str | os.PathLike[str],
    to: str = "calib8",
    *,
    form: str | None = None,
    model: ModelSource | None = None,
    partial: bool = False,
    header: str | None = None,
    lossy: bool = False,
) -> TableConversion:
    """Writes a table in the format of another tool, or one of another tool as calib8's.

    Args:
        table: a ``CalibrationTable``, what ``calib8.read_table`` gave, or the path of a table of any format.
        output: the table to write.
        to: its format, a key of ``calib8.formats.tables.FORMATS``.
        form: format of the file ``table``; None: told by the content.
        model: path or ModelProto of the float model: binds the table to it, and tells the layers of an ncnn
            table, and what Tengine's converter calls the tensors.
        partial: with a model: pass over names that it does not have.
        header: first line of a TensorRT cache; None: that of the table, else the usual one.
        lossy: write it even where the format cannot hold all of it.

    Raises:
        UsageError: there is no such format, options that do not fit it, or something would be lost.
        TableError: the table cannot be read or is broken, or a name that the format cannot hold.
        ModelError: the model cannot be read.
        OutputError: the file cannot be written; an old file stays intact.
    """
    place = checked_path(output, "output")
    read = [one for one in (table, model) if isinstance(one, str | os.PathLike)]
    check_output(parameter("output", place), place, [("an input", one) for one in read])
    _check(to, model, partial, header)
    source = _opened(table, form)
    bound = _on_model(source, model, partial)
    named = with_converter_names(bound.file.table, bound.names) if to in TENGINE_FORMATS else bound.file.table
    text = table_text(named, to, model=bound.prepared, header=header or source.header)
    written = _read_back(bound, to, text, place)
    lost = losses(bound.file, written, keeps_weights=FORMATS[to].layers)
    if lost and not lossy:
        problem = f"cannot hold all of {source.source}, but loses {'; '.join(lost)}"
        cure = f"Add {parameter('lossy', True)} if that is acceptable"
        raise UsageError(parameter("to", to), problem, cure)
    write_text(place, text)
    return TableConversion(source, place, to, written, bound.binding, tuple(lost))


def _check(to: str, model: ModelSource | None, partial: bool, header: str | None) -> None:
    wanted = table_format(to, parameter("to", to))
    with_model = f"Give the model with {parameter('model')}"
    if header is not None and to != "tensorrt":
        cure = f"Use it with {parameter('to', 'tensorrt')}"
        raise UsageError(parameter("header", header), f"format '{to}' has none", cure)
    if model is None and partial:
        raise UsageError(parameter("partial", True), "concerns the names of a model", with_model)
    if model is None and wanted.layers:
        raise UsageError(parameter("to", to), "its names are those of layers", with_model)


def _opened(table: AnyTable, form: str | None) -> TableFile:
    """What was given as the file of some tool."""
    if not isinstance(table, TableFile | CalibrationTable):
        return read_table(table, form)
    if form is not None:
        problem = "says what a file is, and the table is given as a value"
        raise UsageError(parameter("form", form), problem, "Leave it out")
    return table if isinstance(table, TableFile) else TableFile("calib8", table)


def _on_model(file: TableFile, model: ModelSource | None, partial: bool) -> _Bound:
    if model is None:
        if file.keys == "layers":
            cure = f"Give the model with {parameter('model')}"
            raise UsageError(file.source, "names layers, not tensors", cure)
        return _Bound(file, None, None)
    original, prepared = prepare_for_table(model, known=file.table.inputs, invent=True)
    binding = bind(file, prepared.model, original, partial=partial)
    if not binding.table.entries:
        named = os.fspath(model) if isinstance(model, str | os.PathLike) else "the model"
        problem = f"has no range of a tensor of {named}"
        raise TableError(file.source, problem, "Give the model that it was made for")
    tensors = replace(file, table=binding.table, keys="tensors")
    return _Bound(tensors, prepared.model, binding, converter_names(original))


def _read_back(bound: _Bound, to: str, text: str, output: Path) -> CalibrationTable:
    """What the text says of tensors."""
    back = FORMATS[to].read(text, str(output))
    if to in TENGINE_FORMATS:
        return with_own_names(back.table, bound.names)
    return back.table if bound.prepared is None else layers_to_tensors(back, bound.prepared).table
