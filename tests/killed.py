"""Kills a process at a step that is counted: so many calls after a file was renamed into place so often."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

RENAMED = 10
"""Calls after which the rename itself is over for certain."""


def kill_later(path: Path, times: int, calls: int) -> None:
    """SIGKILL for this process, no matter how fast it runs and what it is doing then.

    Args:
        path: a file that is written under another name and renamed.
        times: that it is renamed into place; 0: the calls count from now on.
        calls: that the thread makes or returns from after that.
    """

    def step(*_: object) -> None:
        nonlocal calls
        calls -= 1
        if calls <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal times
        if event == "os.rename" and times and os.fspath(arguments[1]) == str(path):  # type: ignore[call-overload]
            times -= 1
            if not times:
                sys.setprofile(step)

    if times:
        sys.addaudithook(watch)
    else:
        sys.setprofile(step)
