"""Runs a single step made by hand, for layouts that whole programs seldom have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.codec import encode
from calib8.engine.emitter import aligned_bytes
from calib8.engine.fields import FIRST_PORT
from calib8.engine.steps import Step

Array = npt.NDArray[Any]

OUTPUT: Final = FIRST_PORT + 1
INPUT: Final = FIRST_PORT
"""Buffers that the step may name: what it reads, and what it changes."""


def run_step(step: Step, before: Array, read: Array | None = None, *, isa: str, threads: int) -> Array:
    """What becomes of ``before``, the output buffer, where the step reads ``read``, the input buffer.

    The one constant, at offset 0, is the float32 number 0.25.
    """
    read = np.zeros(1, np.uint8) if read is None else read
    constants = aligned_bytes(64)
    constants[:4] = np.array([0.25], np.float32).view(np.uint8)
    rows, sizes = [(step.opcode, encode(step))], [read.nbytes, before.nbytes]
    engine = _core.engine.Engine(rows, constants, 64, sizes, 1, isa, threads, False)
    after = before.copy()
    engine.run(_core.engine.Context(engine), 0, 1, [read], [after], None)
    return after
