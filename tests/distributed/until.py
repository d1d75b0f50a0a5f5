"""Waiting for what happens in other processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(done: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
