"""The integer engine beside ONNX Runtime and OpenVINO on whole networks.

    python benchmarks/engine.py FOLDER [--networks resnet50,…] [--threads 1,2] [--batch N] [--rounds N]
                                [--runtimes calib8,…] [--also rounding,…] [--json FILE] [--page FILE]

FOLDER keeps the quantized networks of ``topologies.py``; what is missing there is made first. Others that lie
there as NAME.int8.onnx (``torch_networks.py`` makes some) can be named too. All runtimes
run the same file (u8 · s8, QDQ), in turns. ``--page`` writes the results as a page, whose sections on other
things are kept; with ``--from FILE`` in place of FOLDER it is written from earlier ``--json`` files, joined
in their order, and nothing is measured.
``--also`` adds what rounding profiles cost (``rounding``), how long a process takes to start
(``cold_start``), and where the time goes (``parts``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calib8.analysis.benchmark import Timing, measure
from calib8.analysis.benchmark_runtimes import TAKES, open_subject
from calib8.analysis.workloads import open_workload
from calib8.cli.speed import timing_document
from calib8.errors import Calib8Error
from cold_start import cold_starts
from parts import network_parts
from quantized import quantized
from results import comparison_rows, machine, page
from rounding import rounding_costs
from topologies import TOPOLOGIES

ALSO: Mapping[str, Callable[[Path, Sequence[int], int], list[dict[str, Any]]]] = {
    "rounding": rounding_costs,
    "cold_start": lambda folder, threads, rounds: cold_starts(folder, rounds),
    "parts": lambda folder, threads, rounds: network_parts(folder),
}
"""Parts of the document besides the networks."""

INT8 = ".int8.onnx"

PEAKS_APART = 1.15
"""Peaks of one processor differ by less from day to day; processors of one name differ by more."""

RUNTIMES = tuple(name for name, forms in TAKES.items() if "quantized" in forms)
"""Those that run quantized ONNX models."""


def timed(
    path: Path, runtimes: Sequence[str], threads: Sequence[int], batch: int, rounds: int
) -> list[Timing]:
    """Timings of one file in every runtime with every number of threads."""
    workload = open_workload(path, batch)
    opened = []
    for count in threads:
        for runtime in runtimes:
            try:
                opened.append(open_subject(workload, runtime, count))
            except Calib8Error as error:  # a runtime that does not take, or does not survive, the file
                print(error, flush=True)
    return measure(opened, rounds)


def names(text: str) -> list[str]:
    return text.split(",")


def counts(text: str) -> list[int]:
    return [int(count) for count in names(text)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--from", dest="sources", type=Path, action="append", help="an earlier --json")
    parser.add_argument("--networks", type=names, default=list(TOPOLOGIES))
    parser.add_argument("--runtimes", type=names, default=list(RUNTIMES))
    parser.add_argument("--threads", type=counts, default=[1, 2])
    parser.add_argument("--also", type=names, default=[])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    chosen = parser.parse_args()
    if (chosen.folder is None) == (chosen.sources is None):
        parser.error("give either FOLDER or --from FILE")
    there = {path.name.removesuffix(INT8) for path in (chosen.folder or Path()).glob(f"*{INT8}")}
    choices = (
        ("network", chosen.networks, TOPOLOGIES.keys() | there),
        ("runtime", chosen.runtimes, RUNTIMES),
        ("addition", chosen.also, ALSO),
    )
    for what, given, known in choices:
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"unknown {what} {unknown[0]}: there are {', '.join(known)}")
    return chosen


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; a row of the table is printed as soon as it is known."""
    threads = chosen.threads
    document: dict[str, Any] = {"machine": machine(threads), "results": []}
    printed = 0
    for network in chosen.networks:
        path = (
            quantized(network, chosen.folder) if network in TOPOLOGIES else chosen.folder / (network + INT8)
        )
        found = timed(path, chosen.runtimes, threads, chosen.batch, chosen.rounds)
        document["results"] += [{**timing_document(timing), "model": network} for timing in found]
        rows = comparison_rows(document)
        print("\n".join(rows[printed:]), flush=True)
        printed = len(rows)
        write(document, chosen.json)
    for name in chosen.also:
        document[name] = ALSO[name](chosen.folder, threads, chosen.rounds)
        write(document, chosen.json)
    return document


def write(document: dict[str, Any], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(document, indent=1) + "\n")


def one_machine(first: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents are of one kind of machine."""
    peaks, others = (found.get("peak_gmacs", {}) for found in (first, other))
    pairs = [(peak, others[count]) for count, peak in peaks.items() if count in others]
    alike = all(max(pair) <= PEAKS_APART * min(pair) for pair in pairs)
    return alike and all(
        first.get(key) == other.get(key) for key in ("processor", "cores", "instruction sets")
    )


def joined(paths: Sequence[Path]) -> dict[str, Any]:
    """Several documents of one machine as one."""
    first, *others = (json.loads(path.read_text()) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if not one_machine(first["machine"], other["machine"]):
            raise SystemExit(f"{paths[0]} and {path} are of different machines: write a page for each")
        results = first["results"] + other["results"]
        groups = {group: grouped(first, other, group) for group in ("calibration", "accuracy", "repair")}
        first = {**other, **first, "results": results} | {group: one for group, one in groups.items() if one}
    return dict(first)


def grouped(first: Mapping[str, Any], other: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The parts of a group in two documents: lists one behind the other, else the later one."""
    parts = dict(first.get(group, {}))
    for part, found in other.get(group, {}).items():
        parts[part] = parts.get(part, []) + found if isinstance(found, list) else found
    return parts


def main() -> None:
    chosen = arguments()
    document = joined(chosen.sources) if chosen.sources else measured(chosen)
    if chosen.sources:
        print("\n".join(comparison_rows(document)))
    if chosen.page:
        before = chosen.page.read_text() if chosen.page.is_file() else ""
        chosen.page.write_text(page(document, before))


if __name__ == "__main__":
    main()
