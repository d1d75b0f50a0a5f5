"""How many processors this process may use, and how many threads a model.

A container with ``--cpus 1.5`` on a machine of 64 cores sees all of them. Linux lets its threads run until
1.5 cores' worth of the period is used up, and then stops all of them until the next one begins. With more
threads than that they only stop more often:

    quota     microseconds of all threads together in each period      cores = quota / period
    threads = min(cores that may be run on, ⌈quota / period⌉)
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from calib8.errors import UsageError
from calib8.parameters import parameter

if TYPE_CHECKING:
    from pathlib import Path

    Folder = str | Path

ROOT: Final = ""
"""Where ``proc`` and ``sys`` lie, as a text: sessions start without pathlib."""

MOST_THREADS: Final = 256
"""That share a step in calib8's engine; also what a benchmark gives to other runtimes."""


def usable_cores(root: Folder = ROOT) -> int:
    """Processor cores that this process may use at once, by its affinity and its CPU quota.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    return threads_for(allowed_cores(), cpu_quota(root))


def default_threads() -> int:
    """Threads where nothing is said: as many as there are cores, and no more than calib8 takes."""
    return min(usable_cores(), MOST_THREADS)


def refuse_many_threads(threads: int) -> None:
    """Refuses more threads than calib8 takes, before one of them is started.

    Raises:
        UsageError: there are more than ``MOST_THREADS``.
    """
    if threads > MOST_THREADS:
        problem = f"is more than {MOST_THREADS}, the most that calib8 takes"
        raise UsageError(parameter("threads", threads), problem, f"Give a number from 1 to {MOST_THREADS}")


def threads_for(cores: int, quota: float | None) -> int:
    """As many as the cores, or as a quota keeps busy, rounded up; at least 1."""
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def allowed_cores() -> int:
    """Processor cores that this process may run on, its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(root: Folder = ROOT) -> float | None:
    """Cores' worth of time that control groups (version 1 or 2) leave to this process; None: all of it.

    The smallest limit counts, of the group that the process is in and of those around it.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    limits = [limit for group in _groups(root) if (limit := _limit(group)) is not None]
    return min(limits, default=None)


def _groups(root: Folder) -> Iterator[str]:
    """Folders of the groups, from the outermost one on; those that a container does not see do not exist."""
    for line in system_text(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        mounts = ("", "unified") if not controllers else ("cpu", controllers)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in mounts:
            group = f"{root}/sys/fs/cgroup/{mount}"
            yield group
            for part in path.split("/"):
                if part not in ("", ".", ".."):  # ".." leads out of what a container sees
                    group = f"{group}/{part}"
                    yield group


def _limit(group: str) -> float | None:
    """The limit of one group, in cores."""
    words = system_text(f"{group}/cpu.max").split()
    if not words:
        words = [
            system_text(f"{group}/cpu.cfs_quota_us").strip(),
            system_text(f"{group}/cpu.cfs_period_us").strip(),
        ]
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        return None  # "max", or -1
    quota, period = map(int, words)
    return quota / period if period > 0 else None


def system_text(path: Folder) -> str:
    """What a file of the system holds; nothing where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see ROOT
            return file.read()
    except OSError:
        return ""
