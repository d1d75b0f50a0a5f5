"""ACIQ as Tengine's and ncnn's tools compute it: Gauss only, with a σ guessed from the largest magnitude.

    σ̂ = 2 · max|x| · 0.175 (1 + √(π ln 4)) / √(2 ln N)          N = values of the tensor in one sample
    T = t · σ̂                      t = 3.92403714, the tools' own, for 8 bits; as in aciq for others

Nothing is measured: σ̂ is what N normal values with such a largest one would have, and max|x| is that of
all samples. Below N ≈ 8,000 T would exceed max|x|, which it is limited to; so it is for N = 1, where σ̂ is
infinite. T is rounded to float32, the type of those tools.
Source: OAID Tengine, quant_tool (algorithm 2); Tencent ncnn, ncnn2table (method aciq).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.calibration.ranges.aciq import gaussian_ratio
from calib8.calibration.ranges.threshold import threshold_range
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import Range

EIGHT_BIT_RATIO: Final = 3.92403714
"""4e-7 above the solution of the equation."""


def aciq_tengine(statistics: TensorStatistics, spec: QuantSpec) -> Range:
    """The range [max(min, −T), min(max, T)] (symmetric: [−T, T]) with T as above.

    Args:
        statistics: of a tensor with a finite value other than 0; bins are not needed. Where samples differ in
            size, N is their mean.
        spec: how the tensor will be coded.
    """
    values = statistics.count / statistics.samples
    return threshold_range(_threshold(statistics.magnitude, values, spec.bits), statistics, spec)


def _threshold(magnitude: float, values: float, bits: int) -> float:
    """T, at most max|x|."""
    if values <= 1.0:
        return magnitude
    sigma = 2 * 0.175 * (1 + math.sqrt(math.pi * math.log(4))) / math.sqrt(2 * math.log(values))
    ratio = sigma * (EIGHT_BIT_RATIO if bits == 8 else gaussian_ratio(bits))
    return float(np.float32(ratio * magnitude)) if ratio < 1.0 else magnitude
