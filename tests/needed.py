"""Packages of the extra ``test`` that a user's machine may lack; in CI a missing one is a failure."""

from __future__ import annotations

import os
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
