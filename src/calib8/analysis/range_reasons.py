"""Reasons that the range of a tensor gives: it clips the data, or they use little of it.

input       the input's codes do not fit the data: more than 1 % clipped, or less than a third in use
clipped     more than 1 % of the values lie outside of the codes
unused      the values reach less than an eighth of what the codes hold: three of eight bits are never used
"""

from __future__ import annotations

import shlex
from typing import Final, Protocol

from calib8.analysis.compare import TensorComparison
from calib8.analysis.reason import Reason
from calib8.parameters import either, parameter
from calib8.passes.wide_ranges import HEADROOM
from calib8.qparams import INT16

CLIPPED: Final = 0.01
USED_OF_INPUT: Final = 1.0 / 3.0
USED: Final = 1.0 / 8.0


class Ranges(Protocol):
    """What is known of the ranges beside the figures of a tensor."""

    given: frozenset[str]

    def limits(self, tensor: str) -> tuple[str, float, float] | None:
        """Op and limits of what yields a tensor, where the op has limits of its own."""


def input_reason(row: TensorComparison) -> Reason | None:
    """An input whose codes are not those of such data."""
    if row.node is not None or row.representable is None or row.saturated is None:
        return None
    low, high = row.representable
    if row.saturated <= CLIPPED and _used(row) >= USED_OF_INPUT:
        return None
    text = (
        f"its codes hold {low:.4g} … {high:.4g}, the data {row.observed[0]:.4g} … {row.observed[1]:.4g} "
        f"({100.0 * row.saturated:.1f} % clipped): the model was calibrated with other preprocessing or "
        "other data"
    )
    training = "compare mean, scale and colour order with those of the training"
    return Reason("input", text, f"Calibrate again with data like these, or {training}")


def _used(row: TensorComparison) -> float:
    """Share of what the codes hold that the values reach, zero included; 1 without codes.

    The room that 16-bit codes are given beyond what was seen does not count.
    """
    if row.representable is None:
        return 1.0
    low, high = row.representable
    if row.dtype == INT16.dtype.name:
        low, high = low / HEADROOM, high / HEADROOM
    return (max(row.observed[1], 0.0) - min(row.observed[0], 0.0)) / (high - low)


def given_reason(row: TensorComparison, facts: Ranges) -> Reason | None:
    """A range that the user gave, and that the data leave or hardly use."""
    outside, unused = _outside(row), _unused(row)
    if not (outside or unused) or row.tensor not in facts.given:
        return None
    given = parameter("ranges")
    text = (
        f"the range given with {given} clips: {outside}"
        if outside
        else (f"the range given with {given} is far too wide: {unused}")
    )
    one = either(f"ranges[{row.tensor!r}]", f"--range '{row.tensor}=…'")
    advice = f"Leave out {one}"
    return Reason("clipped" if outside else "unused", text, advice, without_ranges=(row.tensor,))


def _outside(row: TensorComparison) -> str:
    """How much is clipped, empty where that is little."""
    if row.saturated is None or row.saturated <= CLIPPED or row.representable is None:
        return ""
    low, high = row.representable
    return (
        f"{100.0 * row.saturated:.1f} % of its values lie outside of {low:.4g} … {high:.4g} (they reach "
        f"{row.observed[0]:.4g} … {row.observed[1]:.4g})"
    )


def _unused(row: TensorComparison) -> str:
    """How little of the codes is used, empty where that is enough."""
    if row.node is None or row.representable is None or _used(row) >= USED:
        return ""
    low, high = row.representable
    return (
        f"its codes hold {low:.4g} … {high:.4g}, its values reach {row.observed[0]:.4g} … "
        f"{row.observed[1]:.4g}: {100.0 * _used(row):.2g} % of the codes are used"
    )


def clipped_reason(row: TensorComparison, facts: Ranges) -> Reason | None:
    """A range that the data leave."""
    text = _outside(row)
    if not text:
        return None
    fixed = _fixed(row, facts, text)
    advice = f"Calibrate on more typical data, or with {parameter('method', 'minmax')}"
    return Reason("clipped", text, advice, method="minmax") if fixed is None else Reason("clipped", *fixed)


def unused_reason(row: TensorComparison, facts: Ranges) -> Reason | None:
    """A range that the data hardly use."""
    text = _unused(row)
    if not text:
        return None
    fixed = _fixed(row, facts, text)
    other = parameter("method", "mse")
    advice = f"Calibrate again on data like these, or with {other}: single values may have made the range"
    return Reason("unused", text, advice, method="mse") if fixed is None else Reason("unused", *fixed)


def _fixed(row: TensorComparison, facts: Ranges, text: str) -> tuple[str, str] | None:
    """Text and advice where the op has this range by itself."""
    fixed = facts.limits(row.tensor)
    if fixed is None or not _is_fixed(row, *fixed[1:]):
        return None
    op, least, most = fixed
    typed = shlex.quote(f"{row.tensor}={least:g},{most:g}")
    given = either(f"ranges={{{row.tensor!r}: ({least:g}, {most:g})}}", f"--range {typed}")
    text += f", and a {op} has this range whatever the data are"
    return text, f"Give it another one with {given}, or keep it in float"


def _is_fixed(row: TensorComparison, least: float, most: float) -> bool:
    """Whether the codes are those of an op with limits: up to a step they end there."""
    if row.scale is None or row.representable is None:
        return False
    step = 1.5 * max(row.scale)
    return all(abs(end - limit) <= step for end, limit in zip(row.representable, (least, most), strict=True))
