"""Rounding parameters of Softmax."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calib8.errors import UnsupportedModelError
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rules import FixedSoftmax, Profile, TableSoftmax
from calib8.qparams import QParams

SHARES = QParams(1 / 256, -128)


def test_fixed_point_of_tflite() -> None:
    rule = softmax_rule("tflite", float(np.float32(0.05)), "int8", SHARES, "int8", 5)
    assert isinstance(rule, FixedSoftmax)
    assert (rule.multiplier, rule.shift, rule.diff_min) == (1717986944, 22, -496)


def test_a_scale_so_large_that_only_the_largest_code_counts() -> None:
    rule = softmax_rule("tflite", 16.0, "uint8", QParams(1 / 256, 0), "uint8", 5)
    assert isinstance(rule, FixedSoftmax)
    assert (rule.shift, rule.diff_min) == (31, 0)
    just_below = softmax_rule("tflite", 15.9, "uint8", QParams(1 / 256, 0), "uint8", 5)
    assert isinstance(just_below, FixedSoftmax)
    assert just_below.shift == 30
    assert just_below.diff_min == -1


@pytest.mark.parametrize(
    ("output", "dtype"), [(QParams(1 / 128, -128), "int8"), (QParams(1 / 256, 0), "int8")]
)
def test_tflite_has_one_output_scale(output: QParams, dtype: str) -> None:
    with pytest.raises(ValueError, match="1/256 and the lowest code"):
        softmax_rule("tflite", 0.05, "int8", output, dtype, 5)


def test_table_of_onnx_uses_the_range_of_float32() -> None:
    rule = softmax_rule("onnx", 0.1, "int8", QParams(0.003, -128), "int8", 1000)
    assert isinstance(rule, TableSoftmax)
    assert rule.table.dtype == np.float32
    assert rule.factor == math.floor(np.float32(1) / np.float32(0.003)) == 333
    assert rule.fraction_bits == 0
    largest = float(rule.table[255])
    assert np.finfo(np.float32).max / 1000 * math.exp(-5.01) < largest
    assert largest < np.finfo(np.float32).max / 1000 * math.exp(-4.99)
    np.testing.assert_allclose(rule.table[255 - 50] / largest, math.exp(-5), rtol=1e-6)


def test_table_of_single_has_24_fraction_bits() -> None:
    rule = softmax_rule("single", 0.1, "int8", SHARES, "int8", 1 << 20)
    assert isinstance(rule, TableSoftmax)
    assert rule.table.dtype == np.int32
    assert rule.table[255] == 1 << 24
    assert rule.table[245] == math.floor(math.exp(-1) * (1 << 24) + 0.5)
    assert rule.factor == 256 << 16
    assert rule.fraction_bits == 16


def test_single_stays_within_int64() -> None:
    rule = softmax_rule("single", 1e-6, "int8", QParams(2.0**-21, 0), "int8", 1 << 20)
    assert isinstance(rule, TableSoftmax)
    largest, total = int(rule.table[255]), int(rule.table[255]) << 20
    assert 2 * largest * int(rule.factor) + (total << rule.fraction_bits) < 1 << 63
    assert total << (rule.fraction_bits + 1) < 1 << 63


@pytest.mark.parametrize(
    ("profile", "scale", "output", "classes", "what"),
    [
        ("single", 0.1, SHARES, (1 << 20) + 1, "1048577 classes"),
        ("single", 0.1, QParams(1e-7, 0), 5, "output scale 1e-07"),
        ("tflite", 1e-9, SHARES, 5, "input scale 1e-09"),
        ("onnx", 0.1, QParams(1e-40, 0), 5, "output scale 1e-40"),
    ],
)
def test_what_is_out_of_range_is_refused(
    profile: Profile, scale: float, output: QParams, classes: int, what: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=what):
        softmax_rule(profile, scale, "int8", output, "int8", classes)
