"""Random tables and names, and a table of given ranges."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from calib8.formats.table_file import entry_without_statistics, symmetric_bounds
from calib8.qparams import FLOAT32_TINY
from calib8.table import CalibrationTable, Range

LARGEST_SCALE = 2.0**120
"""127 of them are still a float32."""

scales = st.one_of(
    st.sampled_from([3e-7, 2e-38, FLOAT32_TINY, 1e30, 1.0, 2.0**-20]).map(lambda s: float(np.float32(s))),
    st.floats(FLOAT32_TINY, LARGEST_SCALE, width=32),
)
"""Normal float32 values."""

line_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=8
)
"""What fits into a line: colons, spaces, brackets and anything else."""

json_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
word_names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)

bounds = st.tuples(st.floats(-(2.0**100), 0, width=32), st.floats(0, 2.0**100, width=32))
"""Ranges with 0 in them."""


def table_of(ranges: dict[str, tuple[float, float]], method: str = "made up") -> CalibrationTable:
    entries = {name: entry_without_statistics(Range(*ranges[name]), method) for name in sorted(ranges)}
    return CalibrationTable("", entries)


def symmetric_table(scale_of: dict[str, float]) -> CalibrationTable:
    return table_of({name: symmetric_bounds(scale) for name, scale in scale_of.items()})


def ranges_of(table: CalibrationTable) -> dict[str, tuple[float, float]]:
    return {name: (entry.range.min, entry.range.max) for name, entry in table.entries.items()}
