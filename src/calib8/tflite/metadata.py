"""What calib8 stores in a TFLite file beside the network."""

from __future__ import annotations

import os
from typing import Final

from calib8.errors import ModelError
from calib8.tflite.read import read_tflite

PREPROCESS: Final = "calib8_preprocess"
"""Name of the entry that says how images become inputs, in JSON as ``Preprocess.to_json`` writes it."""


def stored_preprocess_text(path: str | os.PathLike[str]) -> str | None:
    """The entry of a file; None for a file of another tool.

    Raises:
        ModelError: the file is damaged.
    """
    found = read_tflite(path).metadata.get(PREPROCESS)
    if found is None:
        return None
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"its metadata entry '{PREPROCESS}' is not text"
        raise ModelError(os.fspath(path), problem, "Export the model again") from error
