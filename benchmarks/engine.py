"""The integer engine beside ONNX Runtime and OpenVINO on whole networks.

    python benchmarks/engine.py FOLDER [--networks resnet50,…] [--threads 1,2] [--batch N] [--rounds N]
                                [--runtimes calib8,…] [--json FILE] [--page FILE]

FOLDER keeps the quantized networks of ``topologies.py``; what is missing there is made first. All runtimes
run the same file (u8 · s8, QDQ), in turns. ``--page`` writes the results as a page; with ``--from FILE`` in
place of FOLDER it is written from an earlier ``--json``, and nothing is measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calib8.analysis.benchmark import Timing, measure
from calib8.analysis.benchmark_runtimes import OPENERS, open_subject
from calib8.analysis.workloads import open_workload
from calib8.cli.speed import timing_document
from quantized import quantized
from results import comparison_rows, machine, page
from topologies import TOPOLOGIES


def timed(
    path: Path, runtimes: Sequence[str], threads: Sequence[int], batch: int, rounds: int
) -> list[Timing]:
    """Timings of one file in every runtime with every number of threads."""
    workload = open_workload(path, batch)
    subjects = [open_subject(workload, runtime, count) for count in threads for runtime in runtimes]
    return measure(subjects, rounds)


def names(text: str) -> list[str]:
    return text.split(",")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--from", dest="source", type=Path, help="an earlier --json")
    parser.add_argument("--networks", type=names, default=list(TOPOLOGIES))
    parser.add_argument("--runtimes", type=names, default=list(OPENERS))
    parser.add_argument("--threads", type=names, default=["1", "2"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    chosen = parser.parse_args()
    if (chosen.folder is None) == (chosen.source is None):
        parser.error("give either FOLDER or --from FILE")
    unknown = [name for name in chosen.networks if name not in TOPOLOGIES]
    if unknown:
        parser.error(f"unknown network {unknown[0]}: there are {', '.join(TOPOLOGIES)}")
    return chosen


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; a row of the table is printed as soon as it is known."""
    threads = [int(count) for count in chosen.threads]
    document: dict[str, Any] = {"machine": machine(threads), "results": []}
    printed = 0
    for network in chosen.networks:
        path = quantized(network, chosen.folder)
        found = timed(path, chosen.runtimes, threads, chosen.batch, chosen.rounds)
        document["results"] += [{**timing_document(timing), "model": network} for timing in found]
        rows = comparison_rows(document)
        print("\n".join(rows[printed:]), flush=True)
        printed = len(rows)
        if chosen.json:
            chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return document


def main() -> None:
    chosen = arguments()
    document = json.loads(chosen.source.read_text()) if chosen.source else measured(chosen)
    if chosen.source:
        print("\n".join(comparison_rows(document)))
    if chosen.page:
        chosen.page.write_text(page(document))


if __name__ == "__main__":
    main()
