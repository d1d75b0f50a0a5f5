"""Fingerprints of samples: whether what was read before is what would be read now."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt


def file_fingerprint(path: Path) -> bytes:
    """SHA-256 of a file, empty where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def array_fingerprint(arrays: Mapping[str, npt.NDArray[np.generic]]) -> bytes:
    """SHA-256 of arrays of any type: names, types, shapes and values, the names in ascending order."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, arrays[name].shape)).encode())
        digest.update(array.tobytes())
    return digest.digest()
