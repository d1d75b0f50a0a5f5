"""The processor, and what a process may have of it: some of its cores, or a share of their time.

A container with ``--cpus 1.5`` on a machine of 64 cores sees all of them. Linux lets its threads run until
1.5 cores' worth of the period is used up, and then stops all of them until the next one begins:

    quota     microseconds of all threads together in each period      cores = quota / period
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from calib8.processors import usable_cores

_ROOT: Final = Path("/")


@dataclass(frozen=True)
class Processor:
    """The processor of this machine, as far as this process may use it.

    Attributes:
        name: as the system calls it.
        architecture: such as ``x86_64``.
        cores: of the machine, as the system counts them.
        usable: cores that this process may run on, its affinity.
        quota: time that it may have, in cores; None: no control group limits it.
    """

    name: str
    architecture: str
    cores: int
    usable: int
    quota: float | None

    @property
    def limits(self) -> tuple[str, ...]:
        """What leaves less than the machine has; empty where nothing does."""
        found = []
        if self.usable < self.cores:
            found.append("affinity (taskset, cpuset)")
        if self.quota is not None and self.quota < self.cores:
            found.append("CPU quota of the control group (container, service)")
        return tuple(found)


def processor_here(root: Path = _ROOT) -> Processor:
    """What this process sees.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    machine = platform.machine()
    name = _model_name(root) or platform.processor() or machine
    return Processor(name, machine, os.cpu_count() or 1, usable_cores(), cpu_quota(root))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Cores' worth of time that control groups (version 1 or 2) leave to this process; None: all of it.

    The smallest limit counts, of the group that the process is in and of those around it.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    limits = [limit for group in _groups(root) if (limit := _limit(group)) is not None]
    return min(limits, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the groups, from the outermost one on; those that a container does not see do not exist."""
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        mounts = ("", "unified") if not controllers else ("cpu", controllers)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in mounts:
            group = root / "sys" / "fs" / "cgroup" / mount
            yield group
            for part in PurePosixPath(path).parts:
                if part not in ("/", ".."):  # ".." leads out of what a container sees
                    group = group / part
                    yield group


def _limit(group: Path) -> float | None:
    """The limit of one group, in cores."""
    words = _text(group / "cpu.max").split()
    if not words:
        words = [_text(group / "cpu.cfs_quota_us").strip(), _text(group / "cpu.cfs_period_us").strip()]
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
        return None  # "max", or -1
    quota, period = map(int, words)
    return quota / period if period > 0 else None


def _model_name(root: Path) -> str:
    for line in _text(root / "proc" / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return ""


def _text(path: Path) -> str:
    """What a file of the system holds; nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
