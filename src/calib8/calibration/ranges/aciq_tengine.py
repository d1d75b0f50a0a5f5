"""ACIQ as Tengine's and ncnn's tools compute it: Gauss only, with a σ guessed from the largest magnitude.

    σ̂ = 2 · max|x| · 0.175 (1 + √(π ln 4)) / √(2 ln N)          N = values of the tensor in one sample
    T = t · σ̂                      t = 3.92403714, the tools' own, for 8 bits; as in aciq for others

Nothing is measured: σ̂ is what N normal values with such a largest one would have, and max|x| is that of
all samples. Below N ≈ 8,000 T exceeds max|x|: the tools scale symmetric codes by it all the same, and so does
a symmetric range; an asymmetric one, which they do not have, ends at what was seen. For N = 1, where σ̂ is
infinite, T is max|x|. T is rounded to float32, the type of those tools.
Source: OAID Tengine, quant_tool (algorithm 2); Tencent ncnn, ncnn2table (method aciq).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.calibration.ranges.aciq import gaussian_ratio
from calib8.calibration.ranges.threshold import unlimited_range
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import FLOAT32_MAX, QuantSpec
from calib8.table import Range

EIGHT_BIT_RATIO: Final = float(np.float32(3.92403714))
"""4e-7 above the solution of the equation; the tools hold it in float32."""


def aciq_tengine(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range [max(min, −T), min(max, T)] (symmetric: [−T, T]) with T as above.

    Args:
        statistics: of a tensor with a finite value other than 0; bins are not needed. Where samples differ in
            size, N is their mean.
        spec: how the tensor will be coded.
    """
    values = statistics.count / statistics.samples
    return unlimited_range(_threshold(statistics.magnitude, values, spec.bits), statistics, spec)


def _threshold(magnitude: float, values: float, bits: int) -> float:
    """T of so many values, the largest of which is ``magnitude``."""
    if values <= 1.0:
        return magnitude
    spread = 0.5 * 0.35 * (1 + math.sqrt(math.pi * math.log(4)))
    sigma = magnitude * 2 * spread / math.sqrt(2 * math.log(values))
    threshold = (EIGHT_BIT_RATIO if bits == 8 else gaussian_ratio(bits)) * sigma
    return float(np.float32(min(threshold, FLOAT32_MAX)))
