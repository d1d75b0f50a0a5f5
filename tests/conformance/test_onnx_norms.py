"""Profile ``onnx`` against ONNX Runtime's normalizations, which are float32 between DQ and Q."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fused_cases import cases, kernel, nhwc, run_onnx

from calib8.program.instructions import GroupNorm, LayerNorm
from calib8.program.ops.group_norm import group_norm
from calib8.program.ops.layer_norm import layer_norm
from calib8.program.rounding.group_norm import group_norm_rule
from calib8.program.rounding.layer_norm import norm_rule


def test_layer_norm() -> None:
    """There is no fused kernel: mean and variance are float32 sums in an order of their own.

    Five codes in a million differ, by one, next to ties; the sums here are exact.
    """
    wrong = total = 0
    for case in cases(output=(0.01, 0.05)):
        rng, ends = case.rng, np.iinfo(case.dtype)
        channels = int(rng.choice([3, 17, 40, 96, 320, 768, 1000]))
        data = case.codes(64, channels)
        if rng.random() < 0.5:  # close together
            data = (data // 16).astype(data.dtype)
        scale, bias = rng.normal(0, 1, channels), rng.normal(0, 0.5, channels)
        scale, bias = scale.astype(np.float32), bias.astype(np.float32)
        epsilon = float(np.float32(rng.choice([1e-5, 1e-6, 1e-3])))
        attributes = {"axis": -1, "epsilon": epsilon}
        expected = run_onnx(case, "LayerNormalization", data, attributes, {"scale": scale, "bias": bias})
        rule = norm_rule("onnx", case.x.scale, case.y.scale, scale, bias, epsilon)
        step = LayerNorm("n", (0,), (1,), rule, int(ends.min), int(ends.max))
        result = kernel(case, layer_norm, step, data, data.shape)
        difference = np.abs(result.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong <= 5e-5 * total


def test_instance_norm() -> None:
    """Every channel over its pixels; ONNX Runtime adds in float32."""
    wrong = total = 0
    for case in cases(output=(0.01, 0.05)):
        rng, ends = case.rng, np.iinfo(case.dtype)
        channels, rows, columns = (
            int(rng.choice(sizes)) for sizes in ([1, 3, 8, 24], [5, 17, 40], [7, 32, 56])
        )
        data = case.codes(2, channels, rows, columns)
        if rng.random() < 0.5:  # close together
            data = (data // 16).astype(data.dtype)
        scale, bias = rng.normal(0, 1, channels), rng.normal(0, 0.5, channels)
        scale, bias = scale.astype(np.float32), bias.astype(np.float32)
        epsilon = float(np.float32(rng.choice([1e-5, 1e-6, 1e-3])))
        constants = {"scale": scale, "bias": bias}
        expected = run_onnx(case, "InstanceNormalization", data, {"epsilon": epsilon}, constants)
        rule = group_norm_rule("onnx", rows * columns, case.x.scale, case.y.scale, scale, bias, epsilon)
        step = GroupNorm("n", (0,), (1,), channels, rule, int(ends.min), int(ends.max))
        image = nhwc(data)
        result = kernel(case, group_norm, step, image, image.shape)
        difference = np.abs(result.astype(int) - nhwc(expected).astype(int))
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong <= 5e-5 * total


@pytest.mark.parametrize("op", ["RMSNormalization", "LpNormalization"])
def test_rows_around_0(op: str) -> None:
    """Rows with a mean square of 1, or with the length 1; ONNX Runtime adds in float32."""
    wrong = total = 0
    for case in cases(output=(0.01, 0.05) if op == "RMSNormalization" else (0.001, 0.008)):
        rng, ends = case.rng, np.iinfo(case.dtype)
        channels = int(rng.choice([3, 17, 40, 96, 320, 768, 1000]))
        data = case.codes(64, channels)
        if rng.random() < 0.5:  # close to the zero point
            data = np.clip(data // 16 + case.x.zero_point, ends.min, ends.max).astype(data.dtype)
        scale, epsilon = rng.normal(0, 1, channels).astype(np.float32), float(np.float32(1e-5))
        attributes: dict[str, Any] = {"axis": -1, "epsilon": epsilon}
        constants = {"scale": scale}
        if op == "LpNormalization":
            attributes, constants, epsilon = {"axis": -1, "p": 2}, {}, 0.0
            scale = np.full(channels, 1 / np.sqrt(channels), np.float32)
        expected = run_onnx(case, op, data, attributes, constants)
        none = np.zeros(channels, np.float32)
        rule = norm_rule("onnx", case.x.scale, case.y.scale, scale, none, epsilon, centred=False)
        step = LayerNorm("n", (0,), (1,), rule, int(ends.min), int(ends.max), centred=False)
        result = kernel(case, layer_norm, step, data, data.shape)
        difference = np.abs(result.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong <= 1e-4 * total, f"{wrong} of {total}"
