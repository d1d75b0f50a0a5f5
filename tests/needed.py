"""Packages and programs that a user's machine may lack; in CI a missing one is a failure."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest


def needed(package: str) -> Any:
    """The package; without it tests are skipped, and fail in CI."""
    if os.environ.get("CI"):
        try:
            return __import__(package)
        except ImportError as missing:
            pytest.fail(f"{package} cannot be imported: CI must run its tests ({missing})")
    return pytest.importorskip(package)


def needed_program(*names: str) -> str:
    """Path of the first of these programs that there is; without any tests are skipped, and fail in CI."""
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is not None:
        return found
    if os.environ.get("CI"):
        pytest.fail(f"there is no {' and no '.join(names)}: CI must run its tests")
    pytest.skip(f"there is no {' and no '.join(names)}")


def needed_onnxruntime(least: tuple[int, int], why: str) -> None:
    """Tests of what ``least`` brought are skipped with an older ONNX Runtime, and fail in CI."""
    import onnxruntime

    version = onnxruntime.__version__
    if tuple(map(int, version.split(".")[:2])) >= least:
        return
    if os.environ.get("CI"):
        pytest.fail(f"onnxruntime {version} {why}: CI must run its tests")
    pytest.skip(f"onnxruntime {version} {why}")
