"""Ranges of changed tensors are chosen anew by the method they had; all others stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_candidates import candidate_of

from calib8.calibration.choose import choose_table
from calib8.calibration.collect import collect
from calib8.model.graph import add_constant, model_hash
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.refit import refitted, without_corrections
from calib8.table import CalibrationTable
from small_models import normal, onnx_model

RUNS = tuple({"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(6))
NET = onnx_model(
    "float[N,3,6,6] x", "float[N,2,6,6] y", "a = Conv(x, w) r = Relu(a) y = Conv(r, v)",
    {"w": normal(4, 3, 1, 1), "v": normal(2, 4, 1, 1, seed=1)},
)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "asked", "percent"),
    [
        ("mse", "mse", None),
        ("auto: minmax", "minmax", None),
        ("percentile 99.9", "percentile", 99.9),
        ("minmax power-of-two", "minmax", None),
        ("ema", "mse", None),
    ],
)
def test_the_method_is_the_one_the_tensor_had(method: str, asked: str, percent: float | None) -> None:
    made, data = candidate_of(NET, RUNS)
    entries = dict(made.table.entries)
    entries["r"] = replace(entries["r"], method=method)
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    model = made.model.clone()
    first = next(iter(model.graph))
    first.replace_input_with(1, add_constant(model.graph, "w3", 3 * normal(4, 3, 1, 1)))
    found = refitted(made, model, {"a", "r"}, data)
    assert found.table.model_hash == model_hash(model) and found.model is model
    assert {name for name in entries if found.table.entries[name] != entries[name]} == {"r"}
    entry = found.table.entries["r"]
    wanted = choose_table(collect(model, ["r"], RUNS), made.scheme.activations, asked, percent).entries["r"]
    assert entry.observed == wanted.observed
    if method.endswith("power-of-two"):
        scale = entry.range.max / 255
        assert np.log2(scale) == pytest.approx(round(np.log2(scale))) and entry.range.max >= wanted.range.max
    else:
        assert entry.range == wanted.range
    stand_in = method if method != "ema" else "mse"
    assert entry.method == stand_in
    assert found.quantized().qparams["r"].scale > made.quantized().qparams["r"].scale * 2


def test_corrections_of_changed_layers_are_dropped() -> None:
    made, _ = candidate_of(NET, RUNS)
    corrected = replace(made, corrections={"a": LayerCorrection(), "b": LayerCorrection()})
    kept, notes = without_corrections(corrected, ["b", "c"])
    assert set(kept.corrections) == {"a"} and notes[0].endswith("changed: 1")
    assert without_corrections(kept, ["c"]) == (kept, ())
