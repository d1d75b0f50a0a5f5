"""Ranges of tensors with 16-bit codes: twice what was seen, nothing beyond limits; rounding before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from quantized_models import CONV, seen_ranges
from spot_nets import CALIB8, CONSTANTS, FEEDS, LAST, sqnr, whole

from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from calib8.passes.wide_ranges import with_wide_ranges
from calib8.qparams import FLOAT32_MAX
from calib8.quantization.quantize import quantize_graph
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.repairs import REPAIRS
from calib8.table import GIVEN, CalibrationTable, Range, TableEntry
from small_models import onnx_model, run


def entry(low: float, high: float, seen: tuple[float, float], method: str = "mse") -> TableEntry:
    return TableEntry(Range(low, high), method, 0.0, 100, 0, Range(*seen))


@pytest.mark.parametrize(
    ("low", "high", "seen", "wide"),
    [
        (-1, 2, (-1.5, 7), (-3, 14)),
        (0, 2, (-0.3, 7), (0, 14)),
        (-1, 2, (-100, 1000), (-16, 32)),
        (-1, 2, (-0.5, 1), (-1, 2)),
        (0.5, 2, (0.5, 3), (0, 6)),
        (-3e38, 3e38, (-3e38, 3e38), (-FLOAT32_MAX, FLOAT32_MAX)),
    ],
)
def test_spots_have_twice_the_range_that_was_seen(
    low: float, high: float, seen: tuple[float, float], wide: tuple[float, float]
) -> None:
    table = CalibrationTable("", {"n": entry(low, high, seen), "m": entry(low, high, seen)})
    found = with_wide_ranges(table, {"n", "unheard of"}).entries
    assert found["n"].range == Range(*wide) and found["m"].range == Range(low, high)
    given = CalibrationTable("", {"n": entry(low, high, seen, GIVEN)})
    assert with_wide_ranges(given, {"n"}).entries["n"].range == Range(low, high)


def test_clipped_ranges_open_for_spots_alone() -> None:
    prepared, expected = whole("silu")
    table = seen_ranges(prepared, FEEDS)
    entries = {
        name: replace(one, range=Range(one.range.min / 3, one.range.max / 3), method="mse")
        if name == "n"
        else one
        for name, one in table.entries.items()
    }
    clipped = replace(table, entries=entries)
    narrow = quantize_graph(prepared, clipped, CALIB8, frozenset())
    spot = quantize_graph(prepared, clipped, CALIB8, frozenset(), spots=frozenset({"n"}))
    assert sqnr(expected, run(narrow.model, FEEDS)[0]) < 20 < sqnr(expected, run(spot.model, FEEDS)[0])
    assert spot.qparams["n"].scale == pytest.approx(6 * narrow.qparams["n"].scale / 257, rel=1e-3)


def test_weights_before_16_bits_are_rounded_as_before_8() -> None:
    """Repairs that weigh products of coded inputs look at 8 bits of a spot; its columns would overflow."""
    prepared, _ = whole("two in a row")
    table = seen_ranges(prepared, FEEDS)
    data = RepairData(runs=tuple({"x": FEEDS["x"][i : i + 1]} for i in range(2)), threads=1)
    made = {}
    for spots in (frozenset[str](), frozenset({"r", "n"})):
        start = Candidate(prepared, table, CALIB8, spots=spots)
        done, report = REPAIRS["round"](start, data)
        assert len(report.layers) == 3
        made[spots] = {name: found.weight for name, found in done.corrections.items()}
    plain, wide = made.values()
    for name, weight in plain.items():
        assert np.mean(weight != wide[name]) < 0.05


LIMITED = {
    "Sigmoid": ("s = Sigmoid(c) n = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(s)", 1 / 65536),
    "Clip": ("n = Clip(c, low, top)", 0.5 / 65535),
}


@pytest.mark.parametrize("name", LIMITED)
def test_there_is_no_room_beyond_limits(name: str) -> None:
    """All 65,536 codes lie where values can be."""
    behind, scale = LIMITED[name]
    constants = {key: CONSTANTS[key] for key in ("w", "b", "u")}
    if name == "Clip":
        constants |= {"low": np.float32(0), "top": np.float32(0.5)}
    body = f"c = {CONV}(x, w, b) {behind} {LAST}"
    proto = onnx_model("float[N,8,12,12] x", "float[N,8,12,12] y", body, constants)
    prepared = prepare(load_model(proto), FEEDS).model
    found = quantize_graph(
        prepared, seen_ranges(prepared, FEEDS), CALIB8, frozenset(), spots=frozenset({"n"})
    )
    assert found.spots.taken >= {"n"} and found.qparams["n"].zero_point == -32768
    assert found.qparams["n"].scale == pytest.approx(scale, rel=1e-3)
