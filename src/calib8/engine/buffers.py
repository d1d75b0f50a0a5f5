"""The memory that steps read and write, by number: the arena, the constants, the inputs, then the outputs."""

from __future__ import annotations

from typing import Final

ARENA: Final = 0
CONSTANTS: Final = 1
FIRST_PORT: Final = 2
