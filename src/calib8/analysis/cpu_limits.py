"""The processor, and what a process may have of it: some of its cores, or a share of their time."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calib8.processors import ROOT, allowed_cores, cpu_quota, system_text, threads_for

if TYPE_CHECKING:
    from calib8.processors import Folder


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
    def threads(self) -> int:
        """That calib8 takes where no number is given."""
        return threads_for(self.usable, self.quota)

    @property
    def limits(self) -> tuple[str, ...]:
        """What leaves less than the machine has; empty where nothing does."""
        found = []
        if self.usable < self.cores:
            found.append("affinity (taskset, cpuset)")
        if self.quota is not None and self.quota < self.cores:
            found.append("CPU quota of the control group (container, service)")
        return tuple(found)


def processor_here(root: Folder = ROOT) -> Processor:
    """What this process sees.

    Args:
        root: where ``proc`` and ``sys`` lie.
    """
    machine = platform.machine()
    name = _model_name(root) or platform.processor() or machine
    return Processor(name, machine, os.cpu_count() or 1, allowed_cores(), cpu_quota(root))


def _model_name(root: Folder) -> str:
    for line in system_text(f"{root}/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return ""
