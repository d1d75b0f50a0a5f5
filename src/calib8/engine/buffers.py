"""The memory that steps read and write, by number: arena, constants, then the inputs and the outputs."""

from __future__ import annotations

from typing import Final

from calib8 import _core

ARENA: Final = _core.engine.ARENA
CONSTANTS: Final = _core.engine.CONSTANTS
FIRST_PORT: Final = _core.engine.FIRST_PORT
