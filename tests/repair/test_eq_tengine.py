"""EQ as Tengine does it: its zooms, its choice by a slow definition, and the flaws that it is known for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from rounding_nets import LAYERS, candidate_and_data, candidate_of, pictures, rows_of, same_codes

from calib8.model.graph import constant
from calib8.model.runtime import Arrays
from calib8.qparams import UINT8, dequantize, quantize
from calib8.repair.candidate import RepairData
from calib8.repair.eq_tengine import TENGINE_ZOOMS, equalize_outputs_like_tengine
from small_models import normal, onnx_model


def test_the_zooms_are_those_of_tengine() -> None:
    assert len(TENGINE_ZOOMS) == 10
    assert TENGINE_ZOOMS[0] == pytest.approx(0.0065) and TENGINE_ZOOMS[-1] == pytest.approx(1.1765)
    assert np.diff(TENGINE_ZOOMS) == pytest.approx(0.13)
    assert min(abs(zoom - 1.0) for zoom in TENGINE_ZOOMS) > 0.04


def small(runs: tuple[Arrays, ...]) -> tuple[Arrays, ...]:
    """Pictures of 8 × 8, so that every position is looked at."""
    return tuple({"x": feeds["x"][..., :8, :8]} for feeds in runs)


def test_every_channel_gets_the_zoom_that_a_slow_definition_finds() -> None:
    constants = {"w": normal(4, 3, 1, 1), "b": normal(4, seed=2)}
    body = "a = Conv(x, w, b) y = Relu(a)"
    runs = small(pictures(6))
    made = candidate_of(onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants), runs)
    found, _ = equalize_outputs_like_tengine(made, RepairData(runs))
    node = next(node for node in made.model.graph if node.op_type == "Conv")
    layer, other, codes = rows_of(made, node), rows_of(found, node), made.quantized().qparams
    x = np.concatenate([feeds["x"] for feeds in runs]).transpose(1, 0, 2, 3).reshape(3, -1)
    read, written = codes["x"], codes["y"]
    coded = dequantize(quantize(x, read.scale, read.zero_point, UINT8), read.scale, read.zero_point)
    for row in range(4):
        weights, bias = layer.weights[0, row], float(constants["b"][row])
        expected, best = np.maximum(weights @ x + bias, 0.0), (-1.0, math.nan)
        for zoom in TENGINE_ZOOMS:
            scale = float(np.float32(layer.plain[0, row] * zoom))
            rounded = np.clip(np.rint(weights / scale), -127, 127) * scale
            sums = np.maximum(rounded @ coded + bias, 0.0)
            output = quantize(sums, written.scale, written.zero_point, UINT8)
            value = dequantize(output, written.scale, written.zero_point).astype(np.float64)
            lengths = np.sqrt((expected @ expected) * (value @ value))
            cosine = expected @ value / lengths if lengths > 0.0 else 0.0
            best = (cosine, zoom) if cosine > best[0] else best
        assert other.scales[0, row] == pytest.approx(layer.plain[0, row] * best[1], rel=1e-6)


def test_all_layers_leave_their_scale() -> None:
    made, data = candidate_and_data()
    found, report = equalize_outputs_like_tengine(made, data)
    assert len(report.layers) == LAYERS
    for node in made.model.graph:
        if node.name in report.layers:
            ratio = rows_of(found, node).scales / rows_of(made, node).scales
            assert np.all(np.min(np.abs(ratio[..., None] - TENGINE_ZOOMS), axis=-1) < 1e-6)
            assert not np.any(np.isclose(ratio, 1.0, atol=1e-3))


def test_a_gain_error_is_invisible_to_it() -> None:
    made, data = candidate_and_data()
    node = next(node for node in made.model.graph if node.op_type == "MatMul")
    weight = constant(node.inputs[1])
    assert weight is not None
    scaled = made.model.clone()
    name = node.inputs[1].name if node.inputs[1] is not None else ""
    scaled.graph.initializers[name or ""].const_value = ir.tensor(weight * np.float32(2.0))
    twice, _ = equalize_outputs_like_tengine(replace(made, model=scaled), data)
    once, _ = equalize_outputs_like_tengine(made, data)
    ratio = twice.correction(node.name or "").weight_scale / once.correction(node.name or "").weight_scale  # type: ignore[operator]
    assert ratio == pytest.approx(np.full(5, 2.0))


def test_only_fifty_samples_count_and_threads_leave_no_trace() -> None:
    made, _ = candidate_and_data()
    runs = pictures(52)
    first, _ = equalize_outputs_like_tengine(made, RepairData(runs[:50], 1))
    second, _ = equalize_outputs_like_tengine(made, RepairData(runs, 3))
    assert same_codes(first, second)
