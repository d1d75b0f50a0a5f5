"""Children that must end by themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

LIMIT = 240
"""Seconds after which a child that has not ended is ended, which fails the test; it takes less than one."""


class Child(NamedTuple):
    number: int
    guard: threading.Timer

    def ended_well(self) -> bool:
        """Whether it ends by itself, and its function said yes."""
        status = os.waitpid(self.number, 0)[1]
        self.guard.cancel()
        return status == 0


def child_of(work: Callable[[], bool], limit: float = LIMIT) -> Child:
    """A forked child that does this and ends."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)  # what pytest would do at the end is the parent's
    guard = threading.Timer(limit, os.kill, (number, 9))
    guard.daemon = True
    guard.start()
    return Child(number, guard)


def ends_well(work: Callable[[], bool]) -> bool:
    """Whether a forked child ends by itself, and the function says yes there."""
    return child_of(work).ended_well()
