"""The memory that steps read and write, by number: arena, constants, then the inputs and the outputs."""

from __future__ import annotations

from typing import Final

ARENA: Final = 0
CONSTANTS: Final = 1
FIRST_PORT: Final = 2
