"""The page of ``tasks.py``: what INT8 finds beside FP32, by network and tool, from its documents.

    python benchmarks/tasks_tables.py PAGE TITLE=FILE.json …

PAGE is written whole. A TITLE says what the network is; the order is that of the arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration_tables import table

ROWS = {
    "calib8-fast": "calib8 `fast`, in ONNX Runtime",
    "calib8-balanced": "**calib8, its defaults**, in ONNX Runtime",
    "calib8-engine-fast": "calib8 `fast`, target `calib8`, in its engine",
    "calib8-engine-balanced": "**calib8, target `calib8`**, in its engine",
    "onnxruntime": "onnxruntime, its defaults",
    "onnxruntime-tail": "onnxruntime, the tail in float",
    "nncf": "NNCF",
    "modelopt": "ModelOpt",
}

FIGURES = {
    "recall": "recall",
    "precision": "precision",
    "map50": "mAP@.5",
    "map": "mAP@[.5:.95]",
    "miou": "IoU",
    "cosine": "cosine",
    "lines": "lines",
    "agreement": "agreement",
}

COSTS = {"float_share": "MACs in float", "ms": "ms"}
"""What a model costs: a share in %, and a time per sample with one thread."""

TEXT = """# Detectors and other tasks, beside other tools

How much of what FP32 finds INT8 finds too, in %, measured by `benchmarks/tasks.py` and written by
`benchmarks/tasks_tables.py`. FP32 is the truth: objects are its boxes with scores above 0.25 after
non-maximum suppression, and count as found if INT8 has a box of the same class with an IoU above 0.5. Every
tool gets the same 100 pictures and its defaults; all models are judged by the same judge
([judges](judges.md)) on other pictures, which no tool has seen: photographs, and mosaics of photographs that
are in no picture of the calibration. `tail` leaves everything after the last layers with weights in float. dB
is the SQNR of each branch of the outputs.

A few objects say little: one of 170 is 0.6 points. Many of the objects of face detectors here have scores
just above 0.25, where a little noise decides.

In the target `calib8` what YOLOv8n and BlazeFace still lose is mostly lost by 8 bits for the weights: with
all activations in float, the weights of the same models give recalls of 98.0 and 94.4 and a mAP@.5 of 98.4
and 97.7. The FP32 ResNet-20 with LeakyReLU is the one of akamaster with other activations, trained for three
more epochs.
"""


def page(found: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> str:
    """The page of all networks."""
    return "\n".join([TEXT, *(line for title, rows in found for line in network(title, rows))])


def network(title: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A heading and a table; what failed last."""
    done = [row for row in rows if "failure" not in row]
    known = [name for name in FIGURES if any(name in row for row in done)]
    costs = {name: COSTS[name] for name in _known_costs(done)}
    lines = [
        [
            ROWS.get(row["row"], row["row"]),
            *(_told(name, row.get(name)) for name in (*known, *costs)),
            _decibels(row),
        ]
        for row in done
    ]
    heads = ["", *(FIGURES[name] for name in known), *costs.values(), "dB"]
    return [f"## {title}", "", *table(heads, lines), "", *_failed(rows)]


def _known_costs(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Shares where a row has one, times where nothing else ran beside any of them."""
    known = ["float_share"] if any(row.get("float_share") is not None for row in rows) else []
    return [*known, "ms"] if rows and all(row.get("alone") for row in rows) else known


def _failed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per row that failed."""
    failures = [(ROWS.get(row["row"], row["row"]), row["failure"]) for row in rows if "failure" in row]
    return [line for name, failure in failures for line in (f"{name} failed: {failure}", "")]


def _told(name: str, value: float | None) -> str:
    """A share in %; cosines, which differ in later digits, as they are."""
    if value is None:
        return "–"
    if name == "ms":
        return f"{value:.1f}"
    return f"{value:.4f}" if name == "cosine" else f"{100.0 * value:.1f}"


def _decibels(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {db:.1f}" for name, db in row["sqnr_db"].items() if db is not None)


def main() -> None:
    """Runs from the command line."""
    output, *named = sys.argv[1:]
    pairs = [argument.partition("=") for argument in named]
    found = [(title, json.loads(Path(file).read_text(encoding="utf-8"))) for title, _, file in pairs]
    Path(output).write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
