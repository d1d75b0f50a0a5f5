"""Layers and tensors of a quantized model, with what comparing and counting found of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from calib8.analysis.comparison import Comparison, TensorComparison
from calib8.calibration.statistics import Statistics
from calib8.quantization.qdq import readable_copy
from calib8.run_report.contents import contents_of
from calib8.run_report.network import Network, Part, network_of
from calib8.run_report.tensor_charts import channels_of, tensor_shown
from calib8.run_report.told import Figure, LayerRow, NetworkNode, Precision, TensorShown
from calib8.table import CalibrationTable

_ORDER: tuple[Precision, ...] = ("float", "16 bit", "int8", "input")
"""Of a layer of several nodes the first of these is told."""


@dataclass(frozen=True)
class Known:
    """What is known of a model beside its graph; None where it is not.

    Attributes:
        decided: node → whether it was quantized.
        reasons: node → why it is in float.
        comparison: of its layers.
        macs: layer → its share of the multiply-accumulates, 0 … 1.
        statistics: of the float model's activations.
        table: the ranges.
    """

    decided: Mapping[str, bool] | None = None
    reasons: Mapping[str, str] | None = None
    comparison: Comparison | None = None
    macs: Mapping[str, float | None] | None = None
    statistics: Statistics | None = None
    table: CalibrationTable | None = None


@dataclass(frozen=True)
class Inside:
    """Layers, network and tensors of a report, see ``calib8.run_report.told.RunReport``, and what is int8."""

    layers: tuple[LayerRow, ...] = ()
    network: tuple[NetworkNode, ...] = ()
    tensors: tuple[TensorShown, ...] = ()
    contents: tuple[Figure, ...] = ()


def inside(model: ir.Model, known: Known) -> Inside:
    """What there is to tell of a QDQ model.

    Args:
        model: as loaded, or as it was made.
        known: what is known of it.
    """
    network = network_of(readable_copy(model), known.decided)
    tensors = _tensors(network, known)
    places = {tensor.name: place for place, tensor in enumerate(tensors)}
    groups = _groups(network, known.comparison)
    rows = [_row(network, group, row, known, places) for group, row in groups]
    order = sorted(range(len(rows)), key=lambda place: (_rank(rows[place]), place))
    layer_of = {part: new for new, old in enumerate(order) for part in groups[old][0]}
    nodes = tuple(
        NetworkNode(part.name, part.op, part.before, layer_of.get(place), part.precision)
        for place, part in enumerate(network.parts)
    )
    return Inside(tuple(rows[place] for place in order), nodes, tensors, (contents_of(network),))


def _rank(row: LayerRow) -> float:
    return math.inf if row.local_db is None else row.local_db


def _tensors(network: Network, known: Known) -> tuple[TensorShown, ...]:
    """Activations with codes, or whose range is known, in graph order."""
    seen = dict.fromkeys(name for part in network.parts for name in (*part.reads, *part.yields) if name)
    counts = {} if known.statistics is None else known.statistics.tensors
    entries = {} if known.table is None else known.table.entries
    return tuple(
        tensor_shown(name, counts.get(name), network.codes.get(name), entries.get(name))
        for name in seen
        if name in network.codes or name in entries
    )


def _groups(
    network: Network, comparison: Comparison | None
) -> list[tuple[tuple[int, ...], TensorComparison | None]]:
    """Places of the parts of each layer, with what was compared of it, in the order of their first parts.

    A tensor is compared behind several nodes; a node that leads to several tensors belongs to the first.
    """
    of = {part.name: place for place, part in enumerate(network.parts)}
    taken: dict[int, int] = {}
    found: list[tuple[tuple[int, ...], TensorComparison | None]] = []
    rows = () if comparison is None else comparison.tensors
    for row in rows:
        names = row.nodes if row.node is not None else (row.tensor,)
        places = tuple(of[name] for name in names if name in of and of[name] not in taken)
        taken |= dict.fromkeys(places, len(found))
        found.append((places, row))
    alone = [((place,), None) for place in range(len(network.parts)) if place not in taken]
    found = [(places, row) for places, row in found if places]
    return sorted([*found, *alone], key=lambda one: one[0][0])


def _row(
    network: Network, group: Sequence[int], compared: TensorComparison | None, known: Known,
    places: Mapping[str, int],
) -> LayerRow:  # fmt: skip
    parts = [network.parts[place] for place in group]
    head = _head(parts, compared)
    reads = [name for part in parts for name in part.reads]
    yields = [name for part in parts for name in part.yields]
    wanted = ([] if compared is None else [compared.tensor], reversed(yields), reads)
    tensors = dict.fromkeys(places[name] for each in wanted for name in each if name in places)
    precision = min((part.precision for part in parts), key=_ORDER.index)
    weights = next((found for part in parts if (found := channels_of(part.node)) is not None), None)
    row = LayerRow(
        head.name, head.op, precision, _why(parts, network, known, precision), tensors=tuple(tensors),
        weights=weights, parts=tuple(part.name for part in parts if part is not head),
        macs=None if known.macs is None else known.macs.get(head.name),
    )  # fmt: skip
    if compared is None:
        return row
    return replace(
        row, local_db=compared.local.sqnr_db, cumulative_db=compared.cumulative.sqnr_db,
        weight_db=compared.weight_sqnr_db, saturated=compared.saturated,
    )  # fmt: skip


def _head(parts: Sequence[Part], compared: TensorComparison | None) -> Part:
    named = None if compared is None else compared.node
    return next((part for part in parts if part.name == named), parts[-1])


def _why(parts: Sequence[Part], network: Network, known: Known, precision: Precision) -> str:
    if precision == "16 bit":
        names = dict.fromkeys(name for part in parts for name in (*part.reads, *part.yields))
        wide = [name for name in names if name in network.codes and network.codes[name].spec.bits > 8]
        return f"16-bit codes: {', '.join(wide)}"
    reasons = known.reasons or {}
    return next((reasons[part.name] for part in parts if reasons.get(part.name)), "")
