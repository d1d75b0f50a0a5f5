"""What a rounding profile costs: the same networks in calib8 under each of them, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calib8 import InferenceSession
from calib8.analysis.benchmark import Opened, Subject, measure, pace, visit
from calib8.analysis.workloads import open_workload
from calib8.program.rules import PROFILES
from quantized import quantized

NETWORKS = ("mobilenet_v2", "resnet50")


def rounding_costs(folder: Path, threads: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Profile → ms of the fastest run and of the median, by network and number of threads."""
    return [
        {"model": network, "threads": count, **_times(quantized(network, folder), count, rounds)}
        for network in NETWORKS
        for count in threads
    ]


def _times(path: Path, threads: int, rounds: int) -> dict[str, Any]:
    workload = open_workload(path)
    shapes = {name: array.shape for name, array in workload.feeds.items()}
    opened = []
    for profile in PROFILES:
        session = InferenceSession(workload.path, profile=profile, shapes=shapes, threads=threads)
        run = partial(session.run_into, workload.feeds, session.run(None, workload.feeds))
        subject = Subject(workload.path, profile, threads, workload.batch, workload.macs)
        opened.append(Opened(subject, partial(visit, run, pace())))
    found = measure(opened, rounds)
    return {t.subject.runtime: {"min_ms": t.min_ms, "median_ms": t.median_ms} for t in found}


def rounding_rows(entries: Sequence[dict[str, Any]]) -> list[str]:
    """A table: a line per network and number of threads, with what a profile costs beside ``onnx``."""
    rows = [f"| network | threads | {' | '.join(PROFILES)} |", "|---" * (len(PROFILES) + 2) + "|"]
    for entry in entries:
        base = entry["onnx"]["min_ms"]
        cells = [
            f"{entry[profile]['min_ms']:.2f} ({entry[profile]['median_ms']:.2f})"
            + (f" +{100 * (entry[profile]['min_ms'] / base - 1):.0f} %" if profile != "onnx" else "")
            for profile in PROFILES
        ]
        rows.append(f"| {entry['model']} | {entry['threads']} | {' | '.join(cells)} |")
    return rows
