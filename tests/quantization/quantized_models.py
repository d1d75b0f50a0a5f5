"""From a small model to its int8 form, with ranges that are simply the smallest and largest value."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from calib8.model.graph import model_hash
from calib8.model.load import load_model
from calib8.model.taps import tapped_model
from calib8.passes.place import Placement, calibration_tensors, place
from calib8.passes.prepare import prepare
from calib8.passes.resolve_ranges import resolve_ranges
from calib8.quantization.insert import QuantizedModel, insert_quantizers
from calib8.scheme import TARGETS, QuantScheme
from calib8.table import CalibrationTable, Range, TableEntry
from small_models import Array, run

ORT = TARGETS["onnxruntime"]
SCHEMES = {
    "uint8": ORT,
    "int8": ORT.with_activations("int8"),
    "symmetric": ORT.with_activations("int8-symmetric"),
    **{name: scheme for name, scheme in TARGETS.items() if name != "onnxruntime"},
}
CONV = "Conv<pads=[1,1,1,1]>"


def seen_ranges(model: ir.Model, feeds: Mapping[str, Array]) -> CalibrationTable:
    """Smallest and largest value of every tensor that any target would quantize."""
    names = calibration_tensors(model)
    computed = [name for name in names if name not in feeds]
    values = dict(zip(computed, run(tapped_model(model, computed), feeds), strict=True)) | dict(feeds)
    entries = {}
    for name in names:
        found = Range(float(np.min(values[name])), float(np.max(values[name])))
        entries[name] = TableEntry(found, "minmax", 0.0, values[name].size, 0, found)
    return CalibrationTable(model_hash(model), entries)


def quantized(
    proto: onnx.ModelProto,
    feeds: Mapping[str, Array],
    scheme: QuantScheme,
    narrowed: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[ir.Model, Placement, QuantizedModel]:
    """The prepared model, the placement and the int8 form; ``narrowed`` replaces single ranges."""
    prepared = prepare(load_model(proto), feeds).model
    table = seen_ranges(prepared, feeds)
    entries = dict(table.entries)
    for name, bounds in (narrowed or {}).items():
        entries[name] = TableEntry(Range(*bounds), "percentile", 0.01, 1, 0, entries[name].observed)
    table = CalibrationTable(table.model_hash, entries)
    placement = place(prepared, scheme)
    ranges = resolve_ranges(prepared, placement, table, scheme)
    return prepared, placement, insert_quantizers(prepared, placement, ranges, scheme)


def initializers(model: ir.Model) -> dict[str, Array]:
    """Name → values of all constants."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in ir.to_proto(model).graph.initializer}
