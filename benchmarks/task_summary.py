"""The table of docs/tasks.md: a figure of each network of docs/detectors.md, calib8's and the best of others.

    python benchmarks/task_summary.py OUT docs/tasks.md

OUT is the folder of rows of ``task_runs.py``. Of the page only the rows of the table change.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from task_networks import NETWORKS
from task_runs import kept_or_measured

HEAD: Final = "| network | figure | `onnxruntime` | `calib8` | best of others |"
FIGURES: Final = {
    "detect": ("map50", "mAP@.5"),
    "segment": ("miou", "mean IoU of the map"),
    "ctc": ("lines", "lines as FP32 reads them"),
    "embed": ("cosine", "mean cosine"),
    "classify": ("agreement", "classes as FP32 has them"),
}
"""Task → figure, and its words."""
OURS: Final = ("calib8-balanced", "calib8-engine-balanced")


def line(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The row of a network; a dash where nothing was measured."""
    network = NETWORKS[name]
    key, words = FIGURES[network.task]
    found = {row["row"]: row[key] for row in rows if row.get(key) is not None}
    others = [value for row, value in found.items() if row not in OURS]
    values = [*(found.get(row) for row in OURS), max(others, default=None)]
    return "| " + " | ".join([short(network.title), words, *(told(key, value) for value in values)]) + " |"


def short(title: str) -> str:
    """The title without sizes."""
    return ", ".join(part for part in title.split(", ") if not part.endswith("pixels"))


def told(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if key == "cosine" else f"{100.0 * value:.1f} %"


def replaced(page: str, lines: Sequence[str]) -> str:
    """The page with other rows in its table.

    Raises:
        SystemExit: it has no such table.
    """
    head, found, rest = page.partition(HEAD + "\n")
    if not found:
        raise SystemExit(f"The page has no table with the heading {HEAD}")
    rule, _, below = rest.partition("\n")
    _, _, after = below.partition("\n\n")
    return "".join([head, found, rule, "\n", *(f"{row}\n" for row in lines), "\n", after])


def main() -> None:
    """Runs from the command line."""
    out, page = (Path(word) for word in sys.argv[1:])
    rows = {name: kept_or_measured(out, name) for name in NETWORKS}
    lines = [line(name, found) for name, found in rows.items() if found]
    page.write_text(replaced(page.read_text(encoding="utf-8"), lines), encoding="utf-8")


if __name__ == "__main__":
    main()
