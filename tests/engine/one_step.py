"""Runs a single step made by hand, for layouts that whole programs seldom have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.engine.compile import aligned_bytes
from calib8.engine.fields import FIRST_PORT
from calib8.engine.plan import Plan, PlanPort
from calib8.engine.run import Engine
from calib8.engine.steps import Step

Array = npt.NDArray[Any]

OUTPUT: Final = FIRST_PORT + 1
INPUT: Final = FIRST_PORT
"""Buffers that the step may name: what it reads, and what it changes."""


def run_step(step: Step, before: Array, read: Array | None = None, *, isa: str, threads: int) -> Array:
    """What becomes of ``before``, the output buffer, where the step reads ``read``, the input buffer."""
    read = np.zeros(1, np.uint8) if read is None else read
    ports = [PlanPort(name, str(array.dtype), array.shape) for name, array in (("x", read), ("y", before))]
    constants = aligned_bytes(64)
    constants[:4] = np.array([0.25], np.float32).view(np.uint8)
    plan = Plan("", "onnx", (step,), ("",), (0,), (), constants, 64, 0, (ports[0],), (ports[1],), 0)
    after = before.copy()
    Engine(plan, isa=isa, threads=threads).run_into({"x": read}, [after])
    return after
