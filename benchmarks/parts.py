"""Where the time of a network goes in calib8, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calib8.analysis.breakdown import break_down
from calib8.analysis.workloads import open_workload
from quantized import quantized

NETWORKS = ("mobilenet_v2", "efficientnet_lite0", "resnet50", "alexnet", "yolov5n")
RUNS = 200


def network_parts(folder: Path) -> list[dict[str, Any]]:
    """Every part of each network with one thread."""
    return [
        {"model": network, "parts": [asdict(part) for part in _parts(quantized(network, folder))]}
        for network in NETWORKS
    ]


def _parts(path: Path) -> Sequence[Any]:
    return break_down(open_workload(path), 1, RUNS).parts


def part_rows(entry: dict[str, Any], peak_gmacs: float) -> list[str]:
    """A table of one network: a line per part, with the share of the time and of the machine's peak."""
    total = sum(part["seconds"] for part in entry["parts"])
    rows = ["| layer | step | µs | % | GMAC/s | of peak |", "|---|---|---|---|---|---|"]
    for part in entry["parts"]:
        rate = part["macs"] / part["seconds"] * 1e-9 if part["seconds"] > 0 else 0.0
        shares = f"{rate:.0f} | {100 * rate / peak_gmacs:.0f} %" if part["macs"] else "– | –"
        times = f"{1e6 * part['seconds']:.1f} | {100 * part['seconds'] / total:.1f}"
        rows.append(f"| {part['name']} | {part['kind']} | {times} | {shares} |")
    return rows
