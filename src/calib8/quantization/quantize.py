"""From a prepared model and a table to the int8 graph: place, find spots, resolve ranges, insert, seal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from calib8.calibration.decide import one_sided_power_of_two
from calib8.passes.integer_cells import cell_powers
from calib8.passes.place import Placement, place
from calib8.passes.resolve_ranges import resolve_ranges
from calib8.passes.spots import NO_SPOTS, Spots, find_spots
from calib8.qparams import QParams
from calib8.quantization.corrections import NO_CORRECTIONS, Corrections
from calib8.quantization.insert import insert_quantizers, keep_layers_float
from calib8.quantization.own_quantizers import restore_own_quantizers
from calib8.quantization.seal import seal_float_layers
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable


@dataclass(frozen=True)
class QuantizedGraph:
    """An int8 graph.

    Attributes:
        model: the QDQ graph.
        placement: which nodes are quantized, and why the others are not.
        qparams: tensor name → scale and zero point.
        keep_float: nodes that were asked to stay float, and those that had to.
        dropped: layer → number of channels of which not all codes of its correction could stay: their scale,
            or a pair of them, is not what the target takes. Codes of repairs fit.
        spots: which tensors have 16-bit codes, and why others that were to have them do not.
    """

    model: ir.Model
    placement: Placement
    qparams: dict[str, QParams]
    keep_float: frozenset[str]
    dropped: Mapping[str, int]
    spots: Spots = NO_SPOTS


def quantize_graph(
    prepared: ir.Model,
    table: CalibrationTable,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    *,
    float_reasons: Mapping[str, str] = MappingProxyType({}),
    power_of_two: bool = False,
    corrections: Corrections = NO_CORRECTIONS,
    spots: frozenset[str] = frozenset(),
) -> QuantizedGraph:
    """The int8 graph of a prepared model, which is not changed.

    Layers that no scale can save from overflowing become float, and everything is placed anew without them.

    Args:
        prepared: the float graph.
        table: ranges of its activations.
        scheme: the target's rules.
        keep_float: names of nodes to keep in float.
        float_reasons: nodes that stay float though nobody asked for it, such as for want of a range → reason.
        power_of_two: all scales are powers of two; a table that was made so asks for it by itself.
        corrections: what repairs put in the place of plain rounding.
        spots: names of tensors that are to have 16-bit codes; those that cannot keep 8 bits.

    Raises:
        TableError: the table lacks a tensor.
    """
    rounding = one_sided_power_of_two if power_of_two or table.power_of_two else None
    overflowing = dict(float_reasons)
    while True:
        floats = keep_float | frozenset(overflowing)
        placement = place(prepared, scheme, floats)
        found = find_spots(prepared, placement, table, scheme, spots)
        ranges = resolve_ranges(prepared, placement, table, scheme, rounding, found.taken)
        before = resolve_ranges(prepared, placement, table, scheme, rounding) if found.taken else {}
        narrow = {name: before[name] for name in found.taken}
        in_integers = scheme.recurrent == "integer"
        powers = cell_powers(prepared, placement.quantized_nodes(), table) if in_integers else {}
        result = insert_quantizers(
            prepared, placement, ranges, scheme, corrections, found.taken, narrow, powers
        )
        if not result.float_layers:
            break
        overflowing |= result.float_layers
    if scheme.seal_float_layers:
        seal_float_layers(result.model)
    restore_own_quantizers(result.model)
    placement = keep_layers_float(placement, overflowing)
    return QuantizedGraph(result.model, placement, result.qparams, floats, result.dropped, found)
