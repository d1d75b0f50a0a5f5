"""Faults of functions of float32 values, and what the verifier has to say of each."""

from __future__ import annotations

from planting import slot, step

from calib8.program.rules import CellFunction

NAME = "RealFunction"

PARAMETERS = [
    slot(NAME, 0, r'has "x", which holds plain int32', dtype="int32"),
    slot(NAME, 1, r"of shape \[7, 3\], but computes \[3, 7\]", shape=(7, 3)),
    step(NAME, "has the number 0.1. Alpha and beta are float32", function=CellFunction("Affine", 0.1, 1.0)),
    step(NAME, r"has the number 1e\+300", function=CellFunction("Affine", 1.0, 1e300)),
    step(NAME, "function", function=CellFunction("Swish")),  # type: ignore[arg-type]
]
