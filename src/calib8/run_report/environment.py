"""Where a run happened: versions, processor, threads."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from calib8.processors import usable_cores
from calib8.run_report.told import Figure

PACKAGES: Final = ("calib8", "onnxruntime", "onnx", "numpy")
"""Whose versions are told."""


def environment(threads: int) -> tuple[Figure, ...]:
    """Versions, processor, instruction sets and threads.

    Args:
        threads: that were used.
    """
    from calib8.engine.run import default_isa

    versions = tuple(Figure(name, _version(name)) for name in PACKAGES)
    return (
        *versions,
        Figure("Python", platform.python_version()),
        Figure("system", f"{platform.system()} {platform.machine()}"),
        Figure("processor", processor_name()),
        Figure("instruction set of the engine", default_isa()),
        Figure("threads", f"{threads} of {usable_cores()} cores"),
    )


def processor_name(source: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the processor; that of its kind where the system tells no other."""
    try:
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
