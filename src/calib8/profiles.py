"""The rounding profiles: which kind of rule makes codes of sums (docs/numerics.md)."""

from __future__ import annotations

from typing import Final, Literal

Profile = Literal["onnx", "tflite", "single"]
PROFILES: Final[tuple[Profile, ...]] = ("onnx", "tflite", "single")
