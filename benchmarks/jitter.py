"""How evenly runs take: median and 99th percentile, idle and beside busy processes; several sessions at once.

    python benchmarks/jitter.py FOLDER [--networks mobilenet_v2,resnet50] [--seconds S] [--json FILE]

FOLDER holds NAME.int8.onnx, as ``engine.py`` takes them. Every runtime has a process of its own, and they
take turns. "Busy" means that as many other processes compute as there are processors. "N × T" are N sessions
of T threads each in one process, each called from a thread of its own: runs per second of all of them
together, and how long a single run takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8.analysis.runtimes import open_in_runtime
from calib8.processors import usable_cores
from engine import names, write
from results import machine

RUNTIMES: Final = ("calib8", "onnxruntime", "openvino")
LAYOUTS: Final = ((1, 1), (1, 2), (2, 1), (4, 1), (4, 2))
"""Sessions and threads of each."""

ROUNDS: Final = 8
HEADING: Final = (
    "| network |  | sessions × threads | runtime | p50 ms | p99 ms | runs/s |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)
BUSY: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10000))"
"""Computes until the process that began it has ended."""


class Worker:
    """A process with one runtime."""

    def __init__(self, runtime: str, model: Path) -> None:
        command = [sys.executable, __file__, str(model.parent), "--work", runtime, "--networks", model.name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )

    def ask(self, sessions: int, threads: int, seconds: float) -> list[float]:
        """Seconds of every run of all sessions within so many seconds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([sessions, threads, seconds]) + "\n")
        self._process.stdin.flush()
        answer: list[float] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def work(runtime: str, model: Path) -> None:
    """Answers a worker's questions; sessions stay open."""
    opened: dict[tuple[int, int], list[Any]] = {}
    for line in sys.stdin:
        sessions, threads, seconds = json.loads(line)
        key = (sessions, threads)
        if key not in opened:
            opened.clear()
            opened[key] = [open_in_runtime(model, runtime, threads) for _ in range(sessions)]
        print(json.dumps(timed(opened[key], seconds)), flush=True)


def timed(sessions: Sequence[Any], seconds: float) -> list[float]:
    """Durations of the runs of all sessions at once."""
    (spec,) = sessions[0].inputs
    shape = [size if isinstance(size, int) else 1 for size in spec.shape]
    feeds = {spec.name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    for session in sessions:
        session.run(feeds)
    found: list[list[float]] = [[] for _ in sessions]

    def run(session: Any, durations: list[float]) -> None:
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            session.run(feeds)
            durations.append(time.perf_counter() - start)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(sessions, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [duration for durations in found for duration in durations]


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that compute."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measured(model: Path, seconds: float) -> list[dict[str, Any]]:
    """Rows of one network: every situation and runtime."""
    workers = {runtime: Worker(runtime, model) for runtime in RUNTIMES}
    rows: list[dict[str, Any]] = []
    situations = [("idle", layout, 0) for layout in LAYOUTS]
    situations += [("busy", layout, usable_cores()) for layout in ((1, 1), (1, 2))]
    for situation, (sessions, threads), others in situations:
        taken: dict[str, list[float]] = {runtime: [] for runtime in RUNTIMES}
        with busy_processes(others):
            for _ in range(ROUNDS):
                for runtime, worker in workers.items():
                    taken[runtime] += worker.ask(sessions, threads, seconds / ROUNDS)
        for runtime, durations in taken.items():
            rows.append({
                "network": model.name.removesuffix(".int8.onnx"), "situation": situation,
                "sessions": sessions, "threads": threads, "runtime": runtime,
                "p50_ms": float(np.median(durations)) * 1e3,
                "p99_ms": float(np.percentile(durations, 99)) * 1e3,
                "runs_per_second": len(durations) / seconds,
            })  # fmt: skip
            print(line(rows[-1]), flush=True)
    for worker in workers.values():
        worker.close()
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    layout = f"{row['sessions']} × {row['threads']}"
    times = (f"{row[key]:.3f}" for key in ("p50_ms", "p99_ms"))
    cells = (row["network"], row["situation"], layout, row["runtime"], *times)
    return f"| {' | '.join(cells)} | {row['runs_per_second']:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", type=names, default=["mobilenet_v2", "resnet50"])
    parser.add_argument("--seconds", type=float, default=6.0, help="of every situation and runtime")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", choices=RUNTIMES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.folder / chosen.networks[0])
        return
    print("\n".join(HEADING))
    document: dict[str, Any] = {"machine": machine([1, 2]), "results": [], "jitter": []}
    for name in chosen.networks:
        document["jitter"] += measured(chosen.folder / f"{name}.int8.onnx", chosen.seconds)
        write(document, chosen.json)


if __name__ == "__main__":
    main()
