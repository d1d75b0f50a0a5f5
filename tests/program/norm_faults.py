"""Faults of LayerNorm's rounding parameters, and what the verifier has to say of each."""

from __future__ import annotations

import numpy as np
from example_programs import floats, ints
from planting import Fault, rule, with_classes

RULES = [
    rule("LayerNorm", r"factors of shape \[4\]. Give \[5\]", "onnx", factor=floats(1, 1, 1, 1)),
    rule("LayerNorm", r"offsets of shape \[1\]", "onnx", offset=floats(1)),
    rule("LayerNorm", "the factor nan", "onnx", factor=floats(1, 1, np.nan, 1, 1)),
    rule("LayerNorm", "the offset -inf", "onnx", offset=floats(1, 1, -np.inf, 1, 1)),
    rule("LayerNorm", "the epsilon -0.25", "onnx", epsilon=-0.25),
    rule("LayerNorm", r"multipliers of shape \[1\]", "single", multiplier=ints(1)),
    rule("LayerNorm", r"offsets of shape \[6\]", "tflite", offset=ints(*range(6))),
    rule("LayerNorm", r"shifts of shape \[1, 5\]", "single", shift=ints(*[47] * 5).reshape(1, 5)),
    rule("LayerNorm", "the multiplier -2147483648", "single", multiplier=ints(*[-(1 << 31)] * 5)),
    rule("LayerNorm", "the offset -2147483648", "tflite", offset=ints(0, 0, 0, 0, -(1 << 31))),
    rule("LayerNorm", "the shift 0. It must be in 1 … 62", "single", shift=ints(47, 47, 0, 47, 47)),
    rule("LayerNorm", "the shift 63", "tflite", shift=ints(47, 47, 47, 47, 63)),
    rule("LayerNorm", "the epsilon -1", "single", epsilon=-1),
    rule("LayerNorm", f"the epsilon {(1 << 62) + 1}", "single", epsilon=(1 << 62) + 1),
    Fault("LayerNorm", with_classes((1 << 16) + 1), "number of channels 65537", "single"),
    Fault("LayerNorm", with_classes((1 << 16) + 1), "number of channels 65537", "onnx"),
]
