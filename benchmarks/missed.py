"""What bounds the networks that miss an aim of speed: where their time goes, by kind of step.

    python benchmarks/missed.py FOLDER ENGINE.json

ENGINE.json is what ``engine.py FOLDER --json`` wrote on this machine. The aims: 1.03 times the speed of the
fastest other runtime by the medians, 1.6 times where depthwise layers take a twelfth of the time or more, and
two threads 1.8 times as fast as one where that takes more than a millisecond. "Most" is the ratio if every
step but the products took no time, and these ran at the peak of the machine: an aim above it is out of reach.
Each kind of step has its share of the time and, with products, of the peak.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calib8.analysis.breakdown import break_down
from calib8.analysis.workloads import open_workload
from engine import INT8

EVERY: Final = 1.03
DEPTHWISE: Final = 1.6
TWO_THREADS: Final = 1.8
LEAST_MS: Final = 1.0
RUNS: Final = 100
OF_DEPTHWISE: Final = 0.08
"""Share of the time from which on depthwise layers make a network one of them."""

LEAST_SHARE: Final = 0.01
"""Kinds of steps with less of the time are one group."""

HEADING: Final = (
    "| network | threads | aim | reached | most | where the time goes: share (of peak) |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Timed:
    """Medians of one network with one number of threads, in ms; ``macs`` of one run."""

    network: str
    threads: int
    own: float
    other: float
    macs: float


def timings(document: Mapping[str, Any]) -> list[Timed]:
    """Every network of a document in which another runtime ran."""
    found: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for result in document["results"]:
        found.setdefault((result["model"], result["threads"]), {})[result["runtime"]] = result
    return [
        Timed(
            network,
            threads,
            by_runtime["calib8"]["median_ms"],
            min(other["median_ms"] for name, other in by_runtime.items() if name != "calib8"),
            by_runtime["calib8"]["gmacs"] * by_runtime["calib8"]["min_ms"] * 1e6,
        )
        for (network, threads), by_runtime in found.items()
        if len(by_runtime) > 1
    ]


def parts_of(folder: Path, network: str, threads: int) -> Sequence[Any]:
    return break_down(open_workload(folder / (network + INT8)), threads, RUNS).parts


def shares(parts: Sequence[Any], peak: float) -> str:
    """The kinds of steps, the longest first: 'conv 71 % (92 %), depthwise 20 % (41 %)'."""
    kinds: dict[str, list[float]] = {}
    total = sum(part.seconds for part in parts)
    for part in parts:
        kind = kinds.setdefault(part.kind, [0.0, 0.0])
        kind[0] += part.seconds
        kind[1] += part.macs
    small = [kind for kind, (seconds, _) in kinds.items() if seconds < LEAST_SHARE * total]
    rest = sum(kinds.pop(kind)[0] for kind in small)
    ordered = sorted(kinds.items(), key=lambda item: -item[1][0])
    texts = [
        f"{kind} {100 * seconds / total:.0f} %"
        + (f" ({100e-9 * macs / seconds / peak:.0f} %)" if macs else "")
        for kind, (seconds, macs) in ordered
    ]
    return ", ".join([*texts, f"others {100 * rest / total:.0f} %"] if rest else texts)


def share_of(kind: str, parts: Sequence[Any]) -> float:
    """Of the time, by the steps of one kind."""
    return float(
        sum(part.seconds for part in parts if part.kind == kind) / sum(part.seconds for part in parts)
    )


def missed(folder: Path, document: Mapping[str, Any]) -> Iterator[str]:
    """A row for every aim that a network misses."""
    peaks = {int(count): peak for count, peak in document["machine"]["peak_gmacs"].items()}
    known = timings(document)
    alone = {timed.network: timed.own for timed in known if timed.threads == 1}
    for timed in known:
        parts = parts_of(folder, timed.network, timed.threads)
        least_ms = timed.macs / peaks[timed.threads] * 1e-6
        wanted = DEPTHWISE if share_of("depthwise", parts) >= OF_DEPTHWISE else EVERY
        aims = [(wanted, timed.other / timed.own, timed.other / least_ms, "")]
        first = alone.get(timed.network, 0.0)
        if timed.threads == 2 and first > LEAST_MS:
            aims.append((TWO_THREADS, first / timed.own, 2.0, " of one thread"))
        for aim, reached, most, what in aims:
            if reached < aim:
                name = f"{timed.network} | {timed.threads} | {aim} ×{what}"
                yield f"| {name} | {reached:.2f} | {most:.2f} | {shares(parts, peaks[timed.threads])} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("document", type=Path)
    chosen = parser.parse_args()
    print(*HEADING, sep="\n")
    for row in missed(chosen.folder, json.loads(chosen.document.read_text())):
        print(row, flush=True)


if __name__ == "__main__":
    main()
