"""How a tmfile is known: by its first bytes, or by its name."""

from __future__ import annotations

import os
import struct
from typing import Final

SUFFIX: Final = ".tmfile"

MAIN_VERSION: Final = 2

VERSIONS: Final = struct.pack("<HHH", MAIN_VERSION, 0, 0)
"""The first bytes: main version, sub-version, version of the compiler."""

HEADER_BYTES: Final = 12
"""Versions, two bytes of padding, and where the root table lies."""


def is_tmfile_bytes(data: bytes) -> bool:
    """The bytes begin like a tmfile: with its versions, and a root that lies behind the header.

    Args:
        data: the first 12 bytes, or more.
    """
    if len(data) < HEADER_BYTES or data[: len(VERSIONS)] != VERSIONS:
        return False
    return int.from_bytes(data[8:HEADER_BYTES], "little") >= HEADER_BYTES


def claims_to_be_tmfile(path: str | os.PathLike[str]) -> bool:
    """The file begins like a tmfile, or is named like one.

    So that a damaged file is not taken for a damaged ONNX model. False also for what cannot be read.
    """
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe would wait for ever
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            first = file.read(HEADER_BYTES)
    except OSError:
        return False
    return is_tmfile_bytes(first) or is_tmfile_name(path)


def is_tmfile_name(path: str | os.PathLike[str]) -> bool:
    """A file of this name is, or is to be, a tmfile."""
    return os.fspath(path).lower().endswith(SUFFIX)
