"""Where a run happened: versions, processor, threads."""

from __future__ import annotations

import platform
from typing import Final

from calib8.analysis.cpu_limits import processor_here
from calib8.analysis.required_packages import installed_version
from calib8.run_report.told import Figure

PACKAGES: Final = ("calib8", "onnxruntime", "onnx", "numpy")
"""Whose versions are told."""


def environment(threads: int) -> tuple[Figure, ...]:
    """Versions, processor, instruction sets and threads.

    Args:
        threads: that were used.
    """
    from calib8.engine.run import default_isa

    versions = tuple(Figure(name, installed_version(name) or "not installed") for name in PACKAGES)
    processor = processor_here()
    return (
        *versions,
        Figure("Python", platform.python_version()),
        Figure("system", f"{platform.system()} {platform.machine()}"),
        Figure("processor", processor.name),
        Figure("instruction set of the engine", default_isa()),
        Figure("threads", f"{threads} of {processor.usable} cores"),
    )
