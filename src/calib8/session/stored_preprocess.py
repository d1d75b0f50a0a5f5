"""How images or sound become inputs, as the file of a model that calib8 wrote says it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from calib8.data.framing import FRAMING, Framing
from calib8.data.preprocess import Preprocess
from calib8.engine.plan_file import claims_to_be_plan
from calib8.program.magic import is_program_file
from calib8.tflite.magic import claims_to_be_tflite
from calib8.tmfile.magic import claims_to_be_tmfile

_WITHOUT: Final = (is_program_file, claims_to_be_plan, claims_to_be_tmfile, claims_to_be_tflite)
"""What tells files that do not say how sound becomes frames."""


def stored_preprocess(models: Sequence[str | os.PathLike[str]]) -> Preprocess | None:
    """The preprocessing that the first model with one has stored; saved programs and plans store none."""
    for path in models:
        if is_program_file(path) or claims_to_be_plan(path):
            continue
        text = _stored_text(path)
        if text is not None:
            return Preprocess.from_json(text, str(path))
    return None


def stored_framing(models: Sequence[str | os.PathLike[str]]) -> Framing | None:
    """How sound becomes frames, as the first ONNX model with it has stored it; other files store none."""
    for path in models:
        if any(claims(path) for claims in _WITHOUT):
            continue
        from calib8.model.metadata import read_metadata

        text = read_metadata(path).get(FRAMING)
        if text is not None:
            return Framing.from_json(text, str(path))
    return None


def _stored_text(path: str | os.PathLike[str]) -> str | None:
    """The preprocessing that an ONNX or TFLite file has stored, as JSON; a tmfile has no place for it."""
    if claims_to_be_tmfile(path):
        return None
    if claims_to_be_tflite(path):
        from calib8.tflite.metadata import stored_preprocess_text

        return stored_preprocess_text(path)
    from calib8.model.metadata import read_metadata

    return read_metadata(path).get("preprocess")
