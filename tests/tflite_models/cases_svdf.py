"""Random SVDF layers of 8-bit codes."""

from __future__ import annotations

import numpy as np
from single_op import Net, quantized, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Tensor


def svdf(
    rng: np.random.Generator,
    samples: int,
    inputs: int,
    units: int,
    rank: int,
    taps: int,
    *,
    biased: bool = True,
    wide: bool = False,
) -> Graph:
    """One layer.

    Args:
        rng: of everything random.
        samples, inputs, units, rank, taps: its sizes; it has units · rank filters.
        biased: it has a bias.
        wide: weights over time at the ends of 16 bits, so that sums reach beyond int32.
    """
    net, filters = Net(), units * rank
    x = net.codes((samples, inputs), "int8", 0.05, random_zero_point(rng, "int8"))
    weight = net.constant(rng.integers(-127, 128, (filters, inputs)).astype(np.int8), quantized(0.02, 0))
    top = 32767 if wide else 4000
    time = rng.integers(-top, top + 1, (filters, taps)).astype(np.int16)
    if wide:
        time = np.where(time < 0, -top, top).astype(np.int16)
    over_time = net.constant(time, quantized(2.0**-15, 0))
    bias = -1
    if biased:
        bias = net.constant(rng.integers(-(1 << 20), 1 << 20, units).astype(np.int32), quantized(1e-7, 0))
    reach = 0.05 * 0.02 * 73 * 73 * np.sqrt(inputs)
    kind = quantized(float(np.float32(reach / 8000 if not wide else reach / 60000)), 0)
    state = net._add(Tensor("state", (samples, filters * taps), "int16", None, kind, is_variable=True))
    spread = reach * top / 60000 * np.sqrt(rank * taps) / 60
    y = net.output(
        (samples, units),
        "int8",
        quantized(random_scale(rng, spread, 2 * spread), random_zero_point(rng, "int8")),
    )
    options = {"rank": rank, "fused_activation_function": "RELU"}
    return net.graph("SVDF", (x, weight, over_time, bias, state), (y,), 3, **options)


def random_svdf(rng: np.random.Generator, dtype: str = "int8") -> Graph:
    """Of any size; ``dtype`` is for the fuzzer, such layers are int8."""
    sizes = (int(rng.integers(1, high)) for high in (4, 70, 20, 4, 13))
    return svdf(rng, *sizes, biased=rng.random() < 0.7, wide=rng.random() < 0.3)


CASES_OF = {"SVDF": random_svdf}
"""For the fuzzer."""
