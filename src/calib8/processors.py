"""How many processors this process may use, and how many threads a model."""

from __future__ import annotations

import os
from typing import Final

MOST_THREADS: Final = 256
"""That share a step in calib8's engine; also what a benchmark gives to other runtimes."""


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
