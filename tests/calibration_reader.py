"""A stand-in for ONNX Runtime's CalibrationDataReader, which its quantization tools read."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt


class CalibrationReader:
    """Gives rows as {"x": a batch of one} until there are none, then None."""

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self.rows = iter(rows)

    def get_next(self) -> dict[str, Any] | None:
        row = next(self.rows, None)
        return None if row is None else {"x": row[None]}
