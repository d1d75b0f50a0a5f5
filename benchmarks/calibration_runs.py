"""Measurements of calib8's own calibration, one a process: ``calibration.py`` starts them.

    python benchmarks/calibration_runs.py plain MODEL IMAGES COUNT FOLDER      float inference, one by one
    python benchmarks/calibration_runs.py calib8-METHOD MODEL IMAGES COUNT FOLDER   calib8.quantize, and save
    python benchmarks/calibration_runs.py ratios MODEL IMAGES ROUNDS FOLDER    gathering against inference
    python benchmarks/calibration_runs.py command ARGUMENT …                   the command calib8
    python benchmarks/calibration_runs.py kernels ROUNDS                       counting alone

Each prints JSON. Memory is VmHWM of the process.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibration_peers import Clock, images, peak_megabytes

THREADS = 2
BLOCK = 8
"""Images of one turn in ``ratios``."""


def plain(model: Path, file: Path, count: int) -> dict[str, Any]:
    """What any float run costs: load, open, and one image at a time."""
    from calib8.model.load import load_model
    from calib8.model.runtime import open_session

    part, whole = Clock(), Clock()

    def run() -> None:
        session = open_session(load_model(model), threads=THREADS)

        @part.timed
        def infer() -> None:
            for feeds in images(file, session.inputs[0].name, count):
                session.run(feeds)

        infer()

    whole.timed(run)()
    return record(part, whole)


def record(part: Clock, whole: Clock) -> dict[str, Any]:
    return {
        "part_s": part.wall,
        "part_cpu_s": part.cpu,
        "whole_s": whole.wall,
        "whole_cpu_s": whole.cpu,
        "peak_mb": peak_megabytes(),
    }


def quantized(method: str, model: Path, file: Path, count: int, folder: Path) -> dict[str, Any]:
    """From the float file to the INT8 file; the part is gathering (with opening) and the choice of ranges."""
    from calib8 import pipeline
    from calib8.model.load import load_model

    part, whole = Clock(), Clock()
    pipeline.gather = part.timed(pipeline.gather)
    pipeline._table = part.timed(pipeline._table)
    name = load_model(model).graph.inputs[0].name

    def run() -> None:
        data = lambda: images(file, name, count)  # noqa: E731
        result = pipeline.quantize(model, data, method=method, threads=THREADS)
        result.save(folder / "int8.onnx")

    whole.timed(run)()
    return record(part, whole)


def ratios(model: Path, file: Path, rounds: int) -> dict[str, Any]:
    """ms per image of inference and of gathering in several ways, in turns in one process."""
    from calib8.calibration.collect import Collector
    from calib8.model.load import load_model
    from calib8.model.runtime import open_session
    from calib8.passes.place import calibration_tensors
    from calib8.passes.prepare import prepare

    original = load_model(model)
    name = original.graph.inputs[0].name
    prepared = prepare(original, next(images(file, name, 1))).model
    tensors = calibration_tensors(prepared)
    session = open_session(original, threads=THREADS)
    ways: dict[str, dict[str, bool]] = {
        "taps, full record": {},
        "taps, counts and extremes": {"bins": False},
        "graph outputs, full record": {"in_graph": False},
    }
    batches = {"taps, full record": (1, 2, 4, 8), "taps, counts and extremes": (1, 4)}
    runs: dict[tuple[str, int], tuple[Callable[[dict], object], int]] = {}
    for batch in (1, 2, 4, 8):
        runs["plain inference", batch] = session.run, batch
    opened = {way: Collector(prepared, tensors, threads=THREADS, **more) for way, more in ways.items()}
    fallbacks = {way: collector.fallback for way, collector in opened.items()}
    for way, collector in opened.items():
        for batch in batches.get(way, (1,)):
            runs[way, batch] = collector.add, batch
    blocks = {batch: list(images(file, name, BLOCK, batch)) for batch in (1, 2, 4, 8)}
    for run, batch in runs.values():
        run(blocks[batch][0])
        run(blocks[batch][0])
    times: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, (run, batch) in runs.items():
            times[key].append(block_time(run, blocks[batch]))
    found = opened["taps, full record"].statistics()
    seen = opened["taps, full record"].samples
    elements = sum(tensor.count for tensor in found.tensors.values()) / seen
    for collector in opened.values():
        collector.close()
    rows = [ratio_row(*key, found) for key, found in times.items()]
    return {"tensors": len(tensors), "elements": elements, "fallbacks": fallbacks, "rows": rows}


def block_time(run: Callable[[dict], object], block: list[dict]) -> tuple[float, float]:
    """Wall and processor seconds per image, after a run that lets the threads of others fall asleep."""
    run(block[0])
    start, used = time.perf_counter(), time.process_time()
    for feeds in block:
        run(feeds)
    return (time.perf_counter() - start) / BLOCK, (time.process_time() - used) / BLOCK


def ratio_row(way: str, batch: int, found: list[tuple[float, float]]) -> dict[str, Any]:
    wall, cpu = ([1e3 * value for value in column] for column in zip(*found, strict=True))
    return {
        "way": way,
        "batch": batch,
        "ms": min(wall),
        "median_ms": statistics.median(wall),
        "cpu_ms": min(cpu),
    }


def command(arguments: list[str]) -> dict[str, Any]:
    """The command in this process: start of Python aside, all that a user waits for."""
    from calib8.cli import main

    sys.argv = ["calib8", *arguments]
    clock = Clock()
    try:
        clock.timed(main)()
    except SystemExit as error:
        if error.code:
            raise
    return {"wall_s": clock.wall, "cpu_s": clock.cpu, "peak_mb": peak_megabytes()}


def kernels(rounds: int) -> list[dict[str, Any]]:
    """ns per value of counting on one thread, the fastest of all rounds, by instruction set."""
    from calib8 import _core

    values = dict(activations())
    cases = [(isa, kind, bins) for isa in _core.available_isas() for kind in values for bins in (True, False)]
    states = {case: _core.TensorAccumulator(case[2]) for case in cases}
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for isa, kind, bins in cases:
            start = time.perf_counter()
            states[isa, kind, bins].update(values[kind], isa)
            best[isa, kind, bins] = min(
                best[isa, kind, bins], (time.perf_counter() - start) / values[kind].size
            )
    return [
        {"isa": isa, "values": kind, "bins": bins, "ns": 1e9 * seconds}
        for (isa, kind, bins), seconds in best.items()
    ]


def activations() -> Iterator[tuple[str, np.ndarray]]:
    """Half a million values like those of layers: half zeros behind a rectifier, a third clipped, none."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(2**19).astype(np.float32)
    yield "Relu, half zeros", np.maximum(normal, 0)
    yield "Relu6, a third zeros", np.clip(3 * normal + 1.3, 0, 6).astype(np.float32)
    yield "linear, no zeros", rng.laplace(size=2**19).astype(np.float32)


def main() -> None:
    kind, *rest = sys.argv[1:]
    found: Any
    if kind == "command":
        found = command(rest)
    elif kind == "kernels":
        found = kernels(int(rest[0]))
    else:
        model, file, number, folder = Path(rest[0]), Path(rest[1]), int(rest[2]), Path(rest[3])
        if kind == "plain":
            found = plain(model, file, number)
        elif kind == "ratios":
            found = ratios(model, file, number)
        else:
            found = quantized(kind.partition("-")[2], model, file, number, folder)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
