"""Mean and standard deviation as recipes give them, in units of 0 … 1 or in pixels, as mean and scale.

    0-255   (pixel − mean) / std            mean = mean          scale = 1 / std
    0-1     (pixel/255 − mean) / std        mean = 255·mean      scale = 1 / (255·std)

Which of the two is meant is told by the numbers, or asked for where they could be either.
"""

from __future__ import annotations

from typing import Literal, get_args

from calib8.errors import UsageError
from calib8.parameters import one_of, parameter

Units = Literal["0-1", "0-255"]


def mean_and_scale(
    mean: tuple[float, ...], std: tuple[float, ...], units: str | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and scale for pixels 0 … 255.

    Args:
        mean, std: one per channel or one for all, in ``units``.
        units: ``0-1`` or ``0-255``; None: means of at most 1 beside deviations below 1 are 0-1, a mean
            above 1 or none at all beside deviations above 1 is 0-255.

    Raises:
        UsageError: a deviation that is not above 0, unknown units, numbers that do not fit the units or
            could be of either.
    """
    if not std or not all(_is_positive(value) for value in std):
        raise UsageError("preprocessing", f"std cannot be {std!r}", "Give standard deviations above 0")
    if units is None:
        units = _told(mean, std)
    if units not in get_args(Units):
        raise UsageError("preprocessing", f"units cannot be {units!r}", one_of(units, get_args(Units)))
    if units == "0-255":
        return mean, tuple(1.0 / value for value in std)
    if any(not 0.0 <= value <= 1.0 for value in mean):
        problem = f"a mean of {_listed(mean)} does not lie in 0 … 1"
        raise UsageError("preprocessing", problem, "Give it in these units, or units 0-255")
    return tuple(255.0 * value for value in mean), tuple(1.0 / (255.0 * value) for value in std)


def _told(mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """The units that mean and std can only be in."""
    if all(0.0 <= value <= 1.0 for value in mean) and max(std) < 1.0:
        return "0-1"
    above = any(value > 1.0 for value in mean) or (not any(mean) and max(std) > 1.0)
    if above and min(std) >= 1.0:
        return "0-255"
    problem = f"a mean of {_listed(mean)} with a std of {_listed(std)} may be of pixels 0 … 1 or 0 … 255"
    raise UsageError(
        "preprocessing", problem, f"Say which: {parameter('units', '0-1')} or {parameter('units', '0-255')}"
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < float("inf")


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)
