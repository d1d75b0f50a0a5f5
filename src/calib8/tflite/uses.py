"""What takes a TFLite file, by what the file holds: the hint in errors of functions that do not take it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from calib8.parameters import Text, either, with_both
from calib8.tflite.kinds import Kind, kind_of_file

USES: Final[Mapping[Kind, str]] = {
    "float": Text(
        "a float .tflite file goes into quantize, calibrate, tune, diagnose, evaluate, "
        f"{either('', 'run, ')}benchmark and inspect"
    ),
    "quantized": Text(
        f"a quantized .tflite file goes into evaluate, {either('InferenceSession', 'run')}, benchmark, "
        "compile, export and inspect"
    ),
    "hybrid": Text(
        "a .tflite file of float activations and integer weights goes into inspect, and with the runtime "
        f"litert into evaluate, {either('', 'run ')}and benchmark"
    ),
}


def uses_of_file(path: str | os.PathLike[str]) -> str:
    """What takes this file, to be put behind a cure; empty for a damaged file."""
    found = kind_of_file(path)
    return "" if found is None else f"; {with_both(USES[found])}"
