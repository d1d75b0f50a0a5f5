"""Tables of pandas, polars and pyarrow given as data: refused, with the line that makes samples of them.

They could be read in two ways, as columns of numbers that are the values of an input, or as rows with a
picture or an array each; and their columns are in no order that a model knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calib8.errors import UsageError
from calib8.tensors import TensorSpec
from calib8.type_texts import a_type

_LINES: Final = {
    ("pandas", "DataFrame"): ("data[columns].to_numpy('float32')", "data.to_dict('records')"),
    ("pandas", "Series"): ("data.to_numpy('float32')[:, None]", "data.tolist()"),
    ("polars", "DataFrame"): ("data[columns].to_numpy()", "data.to_dicts()"),
    ("polars", "LazyFrame"): ("data.collect()[columns].to_numpy()", "data.collect().to_dicts()"),
    ("polars", "Series"): ("data.to_numpy()[:, None]", "data.to_list()"),
    ("pyarrow", "Table"): ("numpy.column_stack([data[name] for name in columns])", "data.to_pylist()"),
    ("pyarrow", "RecordBatch"): ("numpy.column_stack([data[name] for name in columns])", "data.to_pylist()"),
    ("pyarrow", "ChunkedArray"): ("data.to_numpy()[:, None]", "data.to_pylist()"),
    ("pyarrow", "Array"): ("data.to_numpy(False)[:, None]", "data.to_pylist()"),
}
"""Package and type → the array of its numbers, a list of its rows."""


def refuse_table(data: object, inputs: Sequence[TensorSpec] = ()) -> None:
    """Refuses a table, or a column of one.

    Args:
        data: what the user gave, of any type.
        inputs: those of the model; empty where they are not known.

    Raises:
        UsageError: it is a table.
    """
    names = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__)
    found = next((name for name in names if name in _LINES), None)
    if found is None:
        return
    array, rows = _LINES[found]
    wanted = f"the model takes {', '.join(map(str, inputs))}" if inputs else "data are arrays or rows"
    problem = f"is {a_type(data)} of {found[0]}, and {wanted}"
    cure = f"Give {array}{_shaped(inputs)}, or {rows} where rows hold a picture or an array each"
    raise UsageError("data", problem, cure)


def _shaped(inputs: Sequence[TensorSpec]) -> str:
    """What gives rows of numbers the shape of the only input, where that is more than a row."""
    shape = inputs[0].shape if len(inputs) == 1 else None
    if shape is None or len(shape) < 3 or not all(isinstance(length, int) for length in shape[1:]):
        return ""
    return f".reshape(-1, {', '.join(map(str, shape[1:]))})"
