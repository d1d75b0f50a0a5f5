"""The page of ``tasks.py``: what INT8 finds beside FP32, by network and tool, from its documents.

    python benchmarks/tasks_tables.py PAGE TITLE=FILE.json …

PAGE is written whole. A TITLE says what the network is; the order is that of the arguments. The page of the
documentation, with where its networks come from, is written by ``task_runs.py --page``.
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

Named = tuple[str, Sequence[Mapping[str, Any]], str]
"""Title, rows and a remark."""

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

How much of what FP32 finds INT8 finds too, in %. FP32 is the truth: objects are its boxes with scores above
0.25 after non-maximum suppression, and count as found if INT8 has a box of the same class with an IoU above
0.5. Every tool gets the same 100 pictures and its defaults; all models are judged by the same judge
([judges](judges.md)) on other pictures, which no tool has seen. `tail` leaves everything after the last
layers with weights in float. dB is the SQNR of each branch of the outputs. "MACs in float" are the share of
the products that stay in float, "–" where it was not measured: calib8's defaults for ONNX Runtime pay with
them, and so with speed, where a task would lose too much without (a YOLOv8n: 48 of its 64 convolutions, see
[repair.md](repair.md)); the target `calib8` has none. NNCF is the quantizer that OpenVINO recommends. A
YOLO11n is in no package any more; [repair.md](repair.md) has a row of it.

The pictures are photographs, and mosaics of photographs; characters, words and lines of text are drawn. No
photograph is in pictures of both kinds, those for calibrating and those for judging. Crops of faces are what
UltraFace takes for a face, mirrored and shifted until there are enough of them.

A few objects say little: one of 115 is 0.9 points. Many of the objects of face detectors here have scores
just above 0.25, where a little noise decides.
"""

REPRODUCED = """## Measuring it again

The networks are in packages that anybody can fetch. One script gathers them and makes the pictures, another
measures all rows and writes this page. A row takes minutes; what was measured before is kept.

```sh
python benchmarks/task_networks.py NETWORKS DATA
python benchmarks/task_runs.py NETWORKS --json-folder ROWS --nncf NNCF/bin/python \\
    --modelopt MODELOPT/bin/python --page docs/detectors.md
```

DATA holds photographs (`imagenet/calib`, `imagenet/eval` and `photos`), CIFAR-10 (`cifar10/train1024.npz` and
`test5000.npz`) and two models that no package has; other photographs give other figures. NNCF and MODELOPT
are virtual environments with `nncf onnx onnxruntime openvino` and with
`torch nvidia-modelopt[onnx] onnxruntime`. `--only` selects networks.
"""

FOREIGN = """UltraFace is `version-RFB-320.onnx` of the ONNX model zoo, and ResNet-20 the one of akamaster as
an ONNX file; the script has the SHA-256 of every file. The FP32 ResNet-20 with LeakyReLU is that network with
other activations, trained for three more epochs. The CRNN with two LSTM layers is trained by
`benchmarks/task_recogniser.py` on lines that are drawn for it; FP32 reads 99.75 % of the 800 as they were
drawn. A model of TFLite becomes an ONNX model that takes its
picture channels first; PReLU, which the file of MobileFaceNet writes as five operators, becomes one. The
networks of face-api.js are built from its weights, with the BatchNormalization of the SSD folded. SCRFD and
the CRNN get the sizes that they are used with here.
"""


def page(found: Sequence[Named], origins: Sequence[tuple[str, str, str]] = ()) -> str:
    """The page of all networks; ``origins`` are network, package and file, told at its end."""
    lines = [line for title, rows, remark in found for line in network(title, rows, remark)]
    return "\n".join([TEXT, *lines, *(_origins(origins) if origins else [])])


def _origins(origins: Sequence[tuple[str, str, str]]) -> list[str]:
    """How to measure again, and where the networks come from."""
    lines = [[name, package, f"`{file}`"] for name, package, file in origins]
    return [REPRODUCED, *table(["network", "from", "file"], lines), "", FOREIGN]


def network(title: str, rows: Sequence[Mapping[str, Any]], remark: str = "") -> list[str]:
    """A heading, a remark and a table; what failed last."""
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
    said = [remark, ""] if remark else []
    return [f"## {title}", "", *said, *table(heads, lines), "", *_failed(rows)]


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
    found = [(title, json.loads(Path(file).read_text(encoding="utf-8")), "") for title, _, file in pairs]
    Path(output).write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
