"""The C library and the provider for ONNX Runtime, built and installed once for all tests of a run."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from needed import needed_program

ROOT: Final = Path(__file__).parents[1]
PROVIDER_PACKAGE: Final = ROOT / "onnxruntime_ep" / "src" / "onnxruntime_ep_calib8" / "__init__.py"
PROVIDER_LIBRARY: Final = "libonnxruntime_ep_calib8.so"
EVERY: Final = ("-DCALIB8_C_LIBRARY=ON", "-DCALIB8_WERROR=ON", "-DCMAKE_INSTALL_LIBDIR=lib")


def installed(variable: str, name: str, factory: pytest.TempPathFactory, *options: str) -> Path:
    """Where a library lies: what the environment variable names, or a folder of all workers of this run."""
    given = os.environ.get(variable)
    if given:
        return Path(given)
    needed_program("cmake")
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "prefix" / "bin" / "calib8-run").exists():
            _cmake("-S", str(ROOT), "-B", str(folder / "build"), *EVERY, *options)
            _cmake("--build", str(folder / "build"), "-j", str(os.cpu_count() or 1))
            _cmake("--install", str(folder / "build"), "--prefix", str(folder / "prefix"))
    return folder / "prefix"


def installed_whole(factory: pytest.TempPathFactory) -> Path:
    """All instruction sets, and the provider; CALIB8_C_PREFIX names a folder that has them already."""
    return installed("CALIB8_C_PREFIX", "c_library", factory, "-DCALIB8_ONNXRUNTIME_EP=ON")


def _cmake(*words: str) -> None:
    result = subprocess.run(["cmake", *words], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"{words}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
