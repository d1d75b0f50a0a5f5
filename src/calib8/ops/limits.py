"""Up to which sizes ops have an integer form, where their sums set a limit."""

from __future__ import annotations

from typing import Final

LONGEST_ROW: Final = 1 << 16
"""Values that a LayerNormalization brings to one mean and spread: n·q − Σq is a float32 number."""

LONGEST_ROW_AROUND_0: Final = LONGEST_ROW >> 1
"""The same where the mean stays: Σ(q − z)² may be four times as large."""

LARGEST_GROUP: Final = 1 << 23
"""Values that a GroupNormalization brings to one mean and spread: n·Σq² has 62 bits."""
