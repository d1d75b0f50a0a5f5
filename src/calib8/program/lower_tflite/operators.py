"""Which function lowers which TFLite operator: a new one is a function of its family and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.program.lower_tflite import elementwise, layers, moves
from calib8.program.lower_tflite.builder import Builder
from calib8.tflite.graph import Operator

LOWER: Final[Mapping[str, Callable[[Builder, Operator], None]]] = {
    "ADD": elementwise.add,
    "CONV_2D": layers.conv_2d,
    "RESHAPE": moves.reshape,
}
"""Operator → what adds its instructions, or raises ``NoFormError``."""
