"""Cost of choosing ranges: milliseconds per tensor and method, and seconds for all tensors of a network.

    python benchmarks/range_search.py [--rounds 40] [--tensors 200] [--threads 2] [--onnxruntime]
                                      [--json FILE]

The tensors are made up: normal, Laplace and rectified values whose histograms have 3,000 bins. The times of
one tensor are minima over interleaved rounds on one thread; those of a network are minima as well, wall and
processor time of all methods. ``--onnxruntime`` adds its entropy search on a histogram of as many bins.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from calib8.calibration.choose import choose_table
from calib8.calibration.ranges import METHODS, choose_range
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8_SYMMETRIC, UINT8

BINS = 3000
VALUES = 200_000
SPECS = {"uint8": UINT8, "int8-symmetric": INT8_SYMMETRIC}


def tensor(kind: str, seed: int) -> TensorStatistics:
    """Statistics whose largest magnitude lies in bin 2,999 of 4,096."""
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.standard_normal,
        "laplace": lambda size: rng.laplace(size=size),
        "relu": lambda size: np.maximum(rng.standard_normal(size), 0),
    }[kind](VALUES)
    values *= (BINS - 0.5) / 1024 / np.abs(values).max()
    return TensorStatistics.from_values(values.astype(np.float32), samples=4)


KINDS = ("normal", "laplace", "relu")


def per_tensor(rounds: int) -> list[dict[str, Any]]:
    """Method → ms, by kind of tensor and type of code; each the fastest of all rounds."""
    cases = [(kind, code, method) for kind in KINDS for code in SPECS for method in METHODS]
    tensors = {kind: tensor(kind, seed) for seed, kind in enumerate(KINDS)}
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for kind, code, method in cases:
            seconds, _ = timed(partial(choose_range, tensors[kind], SPECS[code], METHODS[method]))
            best[kind, code, method] = min(best[kind, code, method], seconds)
    return [
        {
            "tensor": kind,
            "bins": tensors[kind].magnitude_histogram()[0].size,
            "code": code,
            "ms": {method: 1e3 * best[kind, code, method] for method in METHODS},
        }
        for kind in KINDS
        for code in SPECS
    ]


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor time in seconds."""
    start, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - used


def whole_network(count: int, threads: int, rounds: int) -> list[dict[str, Any]]:
    """Seconds for all methods on ``count`` tensors, on one thread and on ``threads``."""
    kinds = [tensor(kind, seed) for seed, kind in enumerate(KINDS)]
    found = Statistics("", {f"t{index}": kinds[index % len(kinds)] for index in range(count)})

    def choose_all(used: int) -> None:
        for method in METHODS:
            choose_table(found, UINT8, method, threads=used)

    times: dict[int, list[tuple[float, float]]] = {1: [], threads: []}
    for _ in range(rounds):
        for used, seconds in times.items():
            seconds.append(timed(partial(choose_all, used)))
    return [
        {"tensors": count, "threads": used, "wall_s": min(wall), "processor_s": min(processor)}
        for used, seconds in times.items()
        for wall, processor in [zip(*seconds, strict=True)]
    ]


def onnxruntime_entropy() -> float:
    """ms of its entropy search for one tensor of 3,000 bins and 128 levels."""
    from onnxruntime.quantization.calibrate import HistogramCollector

    values = np.random.default_rng(0).standard_normal((1, VALUES)).astype(np.float32)
    collector = HistogramCollector("entropy", True, BINS, 128, 99.999, "same")
    with redirect_stdout(StringIO()):
        collector.collect({"x": [values]})
        return 1e3 * min(timed(collector.compute_collection_result)[1] for _ in range(2))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--onnxruntime", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {"per_tensor": per_tensor(options.rounds)}
    print(f"| tensor | bins | code | {' | '.join(METHODS)} |")
    print("|---" * (len(METHODS) + 3) + "|")
    for row in record["per_tensor"]:
        cells = " | ".join(f"{row['ms'][method]:.3f}" for method in METHODS)
        print(f"| {row['tensor']} | {row['bins']} | {row['code']} | {cells} |")
    record["network"] = whole_network(options.tensors, options.threads, max(options.rounds // 5, 2))
    print(f"\nall {len(METHODS)} methods for {options.tensors} tensors")
    for row in record["network"]:
        print(f"{row['threads']} threads: {row['wall_s']:.2f} s, {row['processor_s']:.2f} s of processors")
    if options.onnxruntime:
        record["onnxruntime_entropy_ms"] = onnxruntime_entropy()
        print(f"onnxruntime's entropy: {record['onnxruntime_entropy_ms']:.0f} ms a tensor")
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
