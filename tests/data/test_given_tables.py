"""Tables given as data are refused, with a line that makes samples of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.errors import UsageError
from calib8.tensors import TensorSpec
from needed import needed

ROW = TensorSpec("x", np.dtype(np.float32), (None, 4))
PICTURE = TensorSpec("x", np.dtype(np.float32), ("N", 1, 2, 2))
VALUES = np.arange(12, dtype=np.float64).reshape(3, 4)
COLUMNS = ["a", "b", "c", "d"]


def table(package: str) -> Any:
    """Three rows of four numbers."""
    module = needed(package)
    made = module.table if package == "pyarrow" else module.DataFrame
    return made(dict(zip(COLUMNS, VALUES.T, strict=True)))


def message(data: object, spec: TensorSpec) -> str:
    with pytest.raises(UsageError) as caught:
        open_dataset(data, [spec], None)  # type: ignore[arg-type]
    return str(caught.value)


def lines(text: str) -> tuple[str, str]:
    """The code that a message gives: for numbers, and for rows."""
    found = re.search(r"Give (.*), or (.*) where rows", text)
    assert found is not None, text
    return found[1], found[2]


@pytest.mark.parametrize("spec", [ROW, PICTURE])
@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_the_line_in_the_message_makes_samples_of_numbers(package: str, spec: TensorSpec) -> None:
    data = table(package)
    text = message(data, spec)
    assert f"of {package}, and the model takes x: float32" in text
    names = {"data": data, "columns": COLUMNS, "numpy": np}
    array = eval(lines(text)[0], names)
    samples = list(open_dataset(array, [spec], None))
    assert np.array_equal(np.concatenate([one.inputs["x"] for one in samples]).reshape(3, 4), VALUES)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_the_line_in_the_message_makes_rows(package: str) -> None:
    module = needed(package)
    made = module.table if package == "pyarrow" else module.DataFrame
    data = made({"number": [1, 2, 3], "values": VALUES.tolist()})
    rows = eval(lines(message(data, ROW))[1], {"data": data})
    samples = list(open_dataset(rows, [ROW], None, input_map={"x": "values"}))
    assert np.array_equal(np.concatenate([one.inputs["x"] for one in samples]), VALUES)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("pandas.core.frame.DataFrame", "data[columns].to_numpy('float32')"),
        ("pandas.core.series.Series", "data.tolist()"),
        ("polars.dataframe.frame.DataFrame", "data.to_dicts()"),
        ("polars.lazyframe.frame.LazyFrame", "data.collect()"),
        ("pyarrow.lib.RecordBatch", "data.to_pylist()"),
    ],
)
def test_tables_are_known_by_their_names(name: str, code: str) -> None:
    """Stand-ins: iterable as the packages' types are, and of a class derived from them."""
    module, _, kind = name.rpartition(".")
    methods = {"__module__": module, "__iter__": lambda self: iter(COLUMNS), "__len__": lambda self: 4}
    derived = type("Mine", (type(kind, (), methods),), {"__getitem__": lambda self, key: VALUES[:, 0]})
    text = message(derived(), ROW)
    assert f"is a Mine of {module.partition('.')[0]}, and" in text and code in text
    with pytest.raises(UsageError, match="and data are arrays or rows"):
        list(open_dataset(lambda: derived(), [ROW], None))


def test_others_of_these_names_are_not_tables() -> None:
    """The library of data sets yields rows, which are read."""
    rows = [{"x": VALUES[place].astype(np.float32)} for place in range(3)]
    methods = {"__module__": "datasets.arrow_dataset", "__iter__": lambda self: iter(rows)}
    samples = list(open_dataset(type("Table", (), methods)(), [ROW], None))
    assert len(samples) == 3
