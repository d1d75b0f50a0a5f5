"""Shares with what was counted: who reads 96.9 % shall see that it is 31 of 32."""

from __future__ import annotations

from calib8.number_texts import percent


def share_of(share: float, count: int) -> str:
    """Such as ``96.9 % (31 of 32)``.

    Args:
        share: 0 … 1, a whole number of ``count``.
        count: what it is a share of.
    """
    return f"{percent(share, 1)} ({round(share * count)} of {count})"
