"""Results of ``repair.py`` as tables: figures come from its document, never from a hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accuracy_tables import FLOAT
from calibration_tables import section, table

TITLES = {
    FLOAT: "FP32",
    "naive": "calib8, min-max, no repair",
    "onnxruntime-minmax": "onnxruntime, MinMax",
    "onnxruntime-entropy": "onnxruntime, Entropy",
    "nncf": "NNCF",
    "fast": "**calib8 fast**",
    "balanced": "**calib8 balanced** (default)",
    "best": "**calib8 best**",
}

TEXT = """INT8 (uint8 activations, int8 weights per channel) in ONNX Runtime, compared with the results of \
other tools for the same calibration samples and with their defaults. Top-1 and top-5 in %, agreement with \
FP32's class in %, SQNR of all outputs together in dB; seconds and peak memory of the whole quantization in \
a process of its own. `–` means that the network or the images do not have this figure. One of 400 images is \
0.25 points: differences in agreement below about one point are noise, SQNR separates better. \
A single figure rests on one draw of samples: ppocr_cls agrees on 93.75 % with `balanced`, and with 99, \
95, 90, 80, 70 and 60 of the 100 calibration samples on 96.0, 95.5, 94.25, 96.25, 94.75 and 95.25 % \
(before scores of branches were judged: 94.25, and 94.5, 95.0, 93.25, 95.0, 94.0 and 92.5 %)."""


def repair_section(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What docs/results.md shows."""
    return section("Accuracy by effort, beside other tools", TEXT, repair_rows(found["records"]))


def repair_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per network and row, what was kept of all repairs last."""
    return table(
        ["network", "", "top-1", "top-5", "agreement", "SQNR", "s", "MB", "repairs kept"],
        [
            [
                record["network"],
                TITLES.get(record["row"], record["row"]),
                *(_number(record[key], 100.0, 2) for key in ("top1", "top5", "agreement")),
                _number(record["sqnr_db"], 1.0, 2),
                _number(record["seconds"], 1.0, 1),
                _number(record["peak_mb"], 1.0, 0),
                ", ".join(record["kept"]),
            ]
            for record in records
        ],
    )


def _number(value: float | None, factor: float, digits: int) -> str:
    return "–" if value is None else f"{factor * value:.{digits}f}"
