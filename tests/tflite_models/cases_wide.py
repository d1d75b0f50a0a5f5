"""Random models of one operator on 16-bit codes: those of int8 with finer codes in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import cases_arith
import numpy as np
from widened import widened

from calib8.tflite.graph import Graph

OPS: Final = (
    "ADD", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "MAX_POOL_2D",
    "MUL", "SUB", "TRANSPOSE_CONV",
)  # fmt: skip


def _wide(op: str) -> Callable[[np.random.Generator, str], Graph]:
    def make(rng: np.random.Generator, _dtype: str) -> Graph:
        return widened(cases_arith.CASES_OF[op](rng, "int8"), rng)

    return make


CASES_OF: Final[Mapping[str, Callable[[np.random.Generator, str], Graph]]] = {op: _wide(op) for op in OPS}
"""Operator → a random model of it; the type is int16, whatever is asked for."""
