"""The rounding profiles: which kind of rule makes codes of sums (docs/numerics.md)."""

from __future__ import annotations

from typing import Final, Literal

from calib8.errors import UsageError
from calib8.parameters import one_of

Profile = Literal["onnx", "tflite", "single"]
PROFILES: Final[tuple[Profile, ...]] = ("onnx", "tflite", "single")


def chosen_profile(profile: str | None, integer_only: bool) -> Profile:
    """The rounding profile that is meant, ``onnx`` or with ``integer_only`` ``single`` where none is given.

    Raises:
        UsageError: unknown, or ``onnx`` with ``integer_only``.
    """
    if profile is None:
        return "single" if integer_only else "onnx"
    known = next((name for name in PROFILES if name == profile), None)
    if known is None:
        raise UsageError(f"profile '{profile}'", "unknown rounding profile", one_of(profile, PROFILES))
    if integer_only and known == "onnx":
        problem = "multiplies by float32 numbers, which is not integer only"
        raise UsageError("profile 'onnx'", problem, "Use single or tflite")
    return known
