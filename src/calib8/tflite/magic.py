"""How a TFLite file is known: by its first bytes, or by its name."""

from __future__ import annotations

import os
from typing import Final

IDENTIFIER: Final = b"TFL3"
"""Bytes 4 … 7 of every file."""

SUFFIX: Final = ".tflite"


def is_tflite_bytes(data: bytes) -> bool:
    """The bytes begin like a TFLite model."""
    return data[4:8] == IDENTIFIER


def claims_to_be_tflite(path: str | os.PathLike[str]) -> bool:
    """The file begins like a TFLite model, or is named like one.

    So that a damaged file is not taken for a damaged ONNX model. False also for what cannot be read.
    """
    first = _first_bytes(path)
    if first is None:
        return False
    return is_tflite_bytes(first) or is_tflite_name(path)


def is_tflite_name(path: str | os.PathLike[str]) -> bool:
    """A file of this name is, or is to be, a TFLite model."""
    return os.fspath(path).lower().endswith(SUFFIX)


def _first_bytes(path: str | os.PathLike[str]) -> bytes | None:
    """Eight of them; None where there is no regular file that can be read."""
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe would wait for ever
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(8)
    except OSError:
        return None
