"""Models on the disk, and the folder in which their plans are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from session_models import FEEDS, quantized

from calib8 import InferenceSession


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plans are kept in this test; it need not exist yet."""
    monkeypatch.setenv("CALIB8_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small INT8 model with a free batch axis."""
    onnx.save(quantized(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def result(session: InferenceSession, count: int = 1) -> np.ndarray:
    """What a session gives for so many images."""
    [array] = session.run(None, {"x": np.repeat(FEEDS["x"], count, axis=0)})
    return np.asarray(array)


def names(folder: Path, pattern: str = "*") -> list[str]:
    """Files of a folder, in order."""
    return sorted(file.name for file in folder.glob(pattern))
