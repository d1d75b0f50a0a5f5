"""What the classes of a model are called: a list in a file, or what an exporter stored in the model.

a line per class            person                      class 0
                            bicycle                     class 1
metadata ``names``          {0: 'person', 1: 'bicycle'} or ['person', 'bicycle'], as Ultralytics writes it
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from calib8.errors import DataError
from calib8.files import check_file

METADATA: Final = "names"
"""Key of the metadata of an ONNX file."""

MOST: Final = 100_000
"""So many signs of metadata are looked at, and so many classes have names."""

_CURE: Final = "Write the name of a class per line, that of class 0 first"


def read_class_names(path: Path) -> Mapping[int, str]:
    """Names of a text file: class → name.

    Raises:
        DataError: no such file, no text, no line, or an empty one between others.
    """
    check_file(path, _CURE, DataError)
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(str(path), f"is not a list of names ({error})", _CURE) from error
    if not lines:
        raise DataError(str(path), "holds no name", _CURE)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise DataError(f"{path}:{number}", "is empty", _CURE)
    return {number: line.strip() for number, line in enumerate(lines)}


def names_in_metadata(metadata: Mapping[str, str]) -> Mapping[int, str]:
    """Names that the exporter stored; empty where there are none, or they are of no known form."""
    text = metadata.get(METADATA, "")
    if not text or len(text) > MOST:
        return {}
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if isinstance(found, list | tuple):
        found = dict(enumerate(found))
    if not isinstance(found, dict):
        return {}
    plain = all(isinstance(key, int) and isinstance(name, str) for key, name in found.items())
    return {key: " ".join(name.split()) for key, name in found.items()} if plain else {}
