"""Parquet files as rows of samples: only the columns that are needed, a few rows at a time.

image: binary, or struct{bytes, path} as Hugging Face stores it   an encoded picture
x: list of numbers, lists of lists …                              an array
label, labels, cls                                                the class
__key__, key                                                      the name of a row
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np

from calib8.data.labels import LABEL_NAMES
from calib8.data.records import CLASS_COLUMNS, KEYS, mapped_input
from calib8.data.stored_files import StoredFile
from calib8.errors import DataError, UsageError
from calib8.parameters import Text, parameter

ROWS_AT_ONCE: Final = 16
"""Rows that are decoded together: few, because pictures may be large."""


def row_count(file: StoredFile) -> int:
    """How many rows a file holds, told by its footer.

    Raises:
        UsageError: pyarrow is missing.
        DataError: the file cannot be opened, or is no Parquet file.
    """
    with _opened(file) as parquet:
        return int(parquet.metadata.num_rows)


def chosen_columns(
    file: StoredFile, inputs: Sequence[str], named: Sequence[str], everything: bool
) -> tuple[str, ...]:
    """The columns to read.

    Args:
        file: the first one.
        inputs: names of the model's inputs.
        named: columns that the user named; empty: they are told by their names and types.
        everything: a function of the user's takes whole rows.

    Raises:
        UsageError: pyarrow is missing.
        DataError: a column is missing, or none or several could be meant.
    """
    with _opened(file) as parquet:
        schema = parquet.schema_arrow
    names = [str(name) for name in schema.names]
    beside = [name for name in (*LABEL_NAMES, *CLASS_COLUMNS, *KEYS) if name in names and name not in inputs]
    if everything:
        return tuple(names)
    if named:
        return (*_all_there(named, schema, file), *(key for key in KEYS if key in names and key not in named))
    if len(inputs) > 1 or inputs[0] in names:
        return (*_all_there(inputs, schema, file), *beside)
    return (_only_one(schema, inputs[0], file, beside), *beside)


def parquet_rows(
    file: StoredFile, columns: Sequence[str], rows: Sequence[int] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a file with their numbers, in ascending order.

    Args:
        file: one of the files.
        columns: those to read.
        rows: numbers of rows, ascending; None: all. Groups of rows that hold none are not read.

    Raises:
        UsageError: pyarrow is missing.
        DataError: the file is broken, or lacks a column.
    """
    place, wanted = -1, None if rows is None else set(rows)
    with _opened(file) as parquet:
        _all_there(columns, parquet.schema_arrow, file)
        try:
            for first, group in _groups(parquet, rows):
                place = first - 1
                batches = parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=list(columns))
                for batch in batches:
                    for number in range(batch.num_rows):
                        place += 1
                        if wanted is None or place in wanted:
                            yield place, {name: _value(batch.column(name)[number]) for name in columns}
        except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
            raise _broken(file, error, f" behind row {place}" if place >= 0 else "") from error


def _groups(parquet: Any, rows: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """First row and number of each group of rows that is needed."""
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    bounds = np.cumsum([0, *sizes]).tolist()
    chosen = None if rows is None else np.asarray(rows, np.int64)
    for group, (first, end) in enumerate(pairwise(bounds)):
        if chosen is None or np.any((chosen >= first) & (chosen < end)):
            yield first, group


def _value(scalar: Any) -> Any:
    """A value as records hold it: bytes, a number, a dict, an array."""
    value = scalar.as_py()
    if isinstance(value, list):
        try:
            return np.asarray(value)
        except ValueError:  # rows of differing lengths
            return value
    return value


@contextmanager
def _opened(file: StoredFile) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError as missing:
        cure = "Install it: pip install 'calib8[parquet]'"
        raise UsageError(file.name, "needs the package pyarrow", cure) from missing
    with file.open() as raw:
        try:
            opened = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=1 << 20)
        except (OSError, ValueError) as error:
            raise _broken(file, error, "") from error
        with opened:
            yield opened


def _all_there(columns: Sequence[str], schema: Any, file: StoredFile) -> Sequence[str]:
    missing = next((column for column in columns if column not in schema.names), None)
    if missing is not None:
        problem = f"has no column '{missing}'; it has {_listed(schema)}"
        raise DataError(file.name, problem, Text(f"Name columns that it has with {parameter('input_map')}"))
    return columns


def _only_one(schema: Any, name: str, file: StoredFile, beside: Sequence[str]) -> str:
    """The column of the only input: the only picture, else the only array."""
    fields = [field for field in schema if field.name not in beside]
    pictures = [field.name for field in fields if _is_picture(field.type)]
    arrays = [field.name for field in fields if _is_array(field.type)]
    chosen = pictures or arrays
    if len(chosen) == 1:
        return str(chosen[0])
    problem = "has several columns" if chosen else "has no column of pictures or arrays"
    cure = f"Say which is meant, such as {mapped_input(name, str((chosen or ['image'])[0]))}"
    raise DataError(file.name, f"{problem} for input '{name}': it has {_listed(schema)}", Text(cure))


def _is_picture(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):
        fields = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        return "bytes" in fields and set(fields) <= {"bytes", "path"} and _is_picture(fields["bytes"])
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_array(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        return bool(types.is_integer(inner) or types.is_floating(inner)) or _is_array(inner)
    return False


def _listed(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"


def _broken(file: StoredFile, error: Exception, where: str) -> DataError:
    reason = " ".join(str(error).split())
    return DataError(file.name, f"cannot be read as Parquet{where} ({reason})", "Write or copy it again")
