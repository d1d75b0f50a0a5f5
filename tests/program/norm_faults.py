"""Faults of the rounding parameters of LayerNorm and GroupNorm, and what the verifier has to say of each."""

from __future__ import annotations

import numpy as np
from example_programs import floats, ints, with_slot, with_step
from planting import Fault, of, rule, step, with_classes

LARGE = (2, 2048, 2048, 6)

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
    of(lambda p: with_step(with_classes((1 << 15) + 1)(p), centred=False), "channels 32769", "LayerNorm"),
    step("GroupNorm", "0 groups of 6 channels. Give whole groups", groups=0),
    step("GroupNorm", "4 groups of 6 channels", groups=4),
    of(lambda p: with_slot(with_slot(p, 0, shape=(4, 6)), 1, shape=(4, 6)), "reads 2 axes", "GroupNorm"),
    of(lambda p: with_slot(with_slot(p, 0, shape=LARGE), 1, shape=LARGE),
       "number of codes of a group 12582912", "GroupNorm"),
    rule("GroupNorm", r"factors of shape \[4\]. Give \[6\]", "onnx", factor=floats(1, 1, 1, 1)),
    rule("GroupNorm", r"offsets of shape \[1\]", "onnx", offset=floats(1)),
    rule("GroupNorm", "the factor nan", "onnx", factor=floats(1, 1, np.nan, 1, 1, 1)),
    rule("GroupNorm", "the factor 2e", "onnx", factor=floats(1, 1, 2e20, 1, 1, 1)),
    rule("GroupNorm", "the offset -inf", "onnx", offset=floats(1, 1, -np.inf, 1, 1, 1)),
    rule("GroupNorm", "the epsilon -0.25", "onnx", epsilon=-0.25),
    rule("GroupNorm", r"multipliers of shape \[1\]", "single", multiplier=ints(1)),
    rule("GroupNorm", r"shifts of multipliers of shape \[1, 6\]", "single",
         multiplier_shift=ints(*[25] * 6).reshape(1, 6)),
    rule("GroupNorm", r"shifts of offsets of shape \[5\]", "single", offset_shift=ints(*[25] * 5)),
    rule("GroupNorm", "the multiplier -2147483648", "single", multiplier=ints(*[-(1 << 31)] * 6)),
    rule("GroupNorm", "the offset -2147483648", "tflite", offset=ints(0, 0, 0, 0, 0, -(1 << 31))),
    rule("GroupNorm", "the shift 0. It must be in 1 … 126", "single", multiplier_shift=ints(*[0] * 6)),
    rule("GroupNorm", "the shift 127", "tflite", offset_shift=ints(*[127] * 6)),
    rule("GroupNorm", "the epsilon -1", "single", epsilon=-1),
    rule("GroupNorm", f"the epsilon {(1 << 62) + 1}", "single", epsilon=(1 << 62) + 1),
]  # fmt: skip
