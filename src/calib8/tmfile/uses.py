"""What takes a Tengine file, by what the file holds: the hint in errors of functions that do not take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.parameters import Text, either
from calib8.tmfile.kinds import Kind

USES: Final[Mapping[Kind, str]] = {
    "float": Text(
        "a float .tmfile goes into quantize, calibrate, tune, compare, diagnose, evaluate, benchmark and "
        "inspect"
    ),
    "quantized": Text(
        f"an int8 .tmfile goes into evaluate, compare and diagnose (as their second model), "
        f"{either('InferenceSession', 'run')}, compile, export (as a program), benchmark and inspect"
    ),
    "half": Text("a .tmfile of float16 goes into inspect alone"),
}
