"""Functions of codes that a model spells out as tables, taken together as one operator.

    index = CAST(code) + first[c]           int32
    GATHER(entries, index)                  constant codes         →  TABLE(code, entries, first)

``calib8 export`` writes functions that TFLite lacks so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import Lookup
from calib8.program.lower_tflite.builder import Builder
from calib8.program.program import CODE_TYPES, WIDE_TYPE
from calib8.program.rules import Codes
from calib8.tflite.graph import Graph, Operator

TYPES: Final = (*CODE_TYPES, WIDE_TYPE)
"""Of codes; a function of 16-bit ones has one table, no row per channel."""

TABLE: Final = "TABLE"
"""Name of the operator; the schema has none of this name."""


def with_tables(graph: Graph) -> tuple[Operator, ...]:
    """The operators, each GATHER that looks codes up in a constant as a ``TABLE``."""
    producers = {place: operator for operator in graph.operators for place in operator.outputs}
    return tuple(_as_table(graph, producers, operator) or operator for operator in graph.operators)


def _as_table(graph: Graph, producers: Mapping[int, Operator], operator: Operator) -> Operator | None:
    if operator.op != "GATHER" or len(operator.inputs) != 2 or any(operator.options.values()):
        return None
    entries, index = operator.inputs
    data = graph.tensors[entries].data
    if data is None or data.ndim != 1 or data.dtype.name not in TYPES:
        return None
    addition = producers.get(index)
    if addition is None or addition.op != "ADD" or len(addition.inputs) != 2:
        return None
    if addition.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    for wide, first in (addition.inputs, addition.inputs[::-1]):
        cast, start = producers.get(wide), graph.tensors[first].data
        if cast is None or cast.op != "CAST" or start is None or start.dtype != np.int32:
            continue
        source = cast.inputs[0]
        if graph.tensors[source].dtype in TYPES and _per_channel(graph, source, first):
            return Operator(TABLE, (source, entries, first), operator.outputs)
    return None


def _per_channel(graph: Graph, source: int, first: int) -> bool:
    """One number, or one per index of the last axis."""
    shape = graph.tensors[first].shape
    return int(np.prod(shape)) == 1 or shape == graph.tensors[source].shape[-1:]


def table(builder: Builder, operator: Operator) -> None:
    """Codes looked up by code, with a row of entries per channel where ``first`` has several numbers."""
    source, entries, first = operator.inputs
    x, y = builder.codes(source), builder.codes(operator.outputs[0])
    limits = np.iinfo(x.dtype)
    starts = builder.constant(first).reshape(-1).astype(np.int64)
    places = starts[:, None] + np.arange(limits.min, limits.max + 1)
    data: Codes = builder.constant(entries)
    if places.min() < 0 or places.max() >= data.size:
        raise NoFormError(f"it looks up places {places.min()} to {places.max()} of {data.size}")
    if data.dtype.name != y.dtype:
        raise NoFormError(f"its entries are {data.dtype}, its result {y.dtype}")
    if x.is_wide and len(places) > 1:
        raise NoFormError(f"it has {len(places)} tables of 65536 entries")
    rows = np.ascontiguousarray(data[places])
    ports = ((builder.number(source),), (builder.number(operator.outputs[0]),))
    builder.steps.append(
        Lookup(builder.name(operator), *ports, rows[0] if rows.shape[0] == 1 else rows, "Table")
    )
