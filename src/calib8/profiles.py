"""The rounding profiles: which kind of rule makes codes of sums (docs/numerics.md)."""

from __future__ import annotations

from typing import Final, Literal

from calib8.errors import UsageError
from calib8.parameters import one_of

Profile = Literal["onnx", "tflite", "single", "tengine"]
PROFILES: Final[tuple[Profile, ...]] = ("onnx", "tflite", "single")
"""Those that an ONNX model can be lowered with."""

ALL_PROFILES: Final[tuple[Profile, ...]] = (*PROFILES, "tengine")
"""Those of programs and plans: ``tengine`` is what Tengine's own models have, and no others."""

WITH_FLOATS: Final[tuple[Profile, ...]] = ("onnx", "tengine")
"""Those that multiply by float32 numbers."""


def chosen_profile(profile: str | None, integer_only: bool) -> Profile:
    """The rounding profile that is meant, ``onnx`` or with ``integer_only`` ``single`` where none is given.

    Raises:
        UsageError: unknown, or one that multiplies by float32 numbers with ``integer_only``.
    """
    if profile is None:
        return "single" if integer_only else "onnx"
    known = next((name for name in ALL_PROFILES if name == profile), None)
    if known is None:
        raise UsageError(f"profile '{profile}'", "unknown rounding profile", one_of(profile, ALL_PROFILES))
    if integer_only and known in WITH_FLOATS:
        problem = "multiplies by float32 numbers, which is not integer only"
        raise UsageError(f"profile '{known}'", problem, "Use single or tflite")
    return known


def onnx_profile(profile: str | None, integer_only: bool) -> Profile:
    """The profile that is meant for an ONNX model.

    Raises:
        UsageError: as ``chosen_profile``, or one that only models of another kind have.
    """
    chosen = chosen_profile(profile, integer_only)
    if chosen not in PROFILES:
        problem = "is what Tengine's own models have"
        raise UsageError(f"profile '{chosen}'", problem, "Give an int8 .tmfile, which needs no profile")
    return chosen
