"""An earlier state of calib8 beside this one: `quantize`, and the first result of a process.

    python benchmarks/earlier.py DATA TREE [--models mobilenet_v2,…] [--nncf PYTHON] [--rounds 5]
                                 [--engine FOLDER --networks resnet50,…] [--json FILE]

TREE is a checkout of the earlier commit with its native core in ``src/calib8``. Each network is quantized by
both states, by ONNX Runtime's tool and by NNCF (``--nncf`` is the Python of an environment that has it), each
in a process of its own with the same at most 100 samples and two threads, one behind the other; all results
are judged by this state on the evaluation samples. ``--models ""`` leaves that table out. Then ResNet-50 is
started by both, in turns with ONNX Runtime. DATA holds the models and images that ``models.json`` names.
``--engine`` runs NAME.int8.onnx of FOLDER, as ``engine.py`` takes them, in the engines of both states instead
of all this, in turns, with one thread and with two.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import repair
from accuracy_tables import FLOAT
from cold_start import COMMON, PROCESSES, REPORT, cold_start_rows, started, summary
from engine import INT8, names, write
from methods import opened
from quantized import quantized
from repair_tables import repair_rows
from results import machine

NETWORKS = ("mobilenet_v2", "efficientnet_lite0", "squeezenet_v1.1", "resnet56", "ultraface")
EFFORTS = ("fast", "balanced")
EARLIER = "earlier "
HERE = Path(__file__).parent
STARTED = "resnet50"
TURNS = 2
SAVE = """
import sys
from calib8 import InferenceSession
InferenceSession(sys.argv[1]).save(sys.argv[2])
"""

SPEED = """
import json, sys, time
import numpy as np
from calib8 import InferenceSession
for threads in (1, 2):
    session = InferenceSession(sys.argv[1], threads=threads)
    port = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    feeds = {port.name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    for _ in range(3):
        session.run(None, feeds)
    taken, start = [], time.perf_counter()
    while len(taken) < 20 or time.perf_counter() - start < 0.5:
        before = time.perf_counter()
        session.run(None, feeds)
        taken.append(time.perf_counter() - before)
    print(json.dumps([1e3 * min(taken), 1e3 * float(np.median(taken))]))
"""
"""Prints the fastest and the median run of a model, in ms, with one thread and with two."""


def of(tree: Path) -> Mapping[str, str]:
    """The environment in which Python imports the calib8 of a checkout."""
    return os.environ | {"PYTHONPATH": str(tree / "src")}


def with_processor_time(made: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What it says of a row, and the seconds that its processes kept processors busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = made()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found | {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def quantized_by(tree: Path, name: str, data: Path, effort: str, file: Path) -> dict[str, Any]:
    """What ``repair.py`` of a checkout says of one row."""
    script = tree / "benchmarks" / "repair.py"
    command = [sys.executable, str(script), str(data), "--models", name, "--one", effort]
    done = subprocess.run(
        [*command, "--output", str(file)], check=True, capture_output=True, text=True, env=of(tree)
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def by_peers(
    name: str, folder: Path, inputs: Path, model: Path, nncf: str | None
) -> dict[str, dict[str, Any]]:
    """Row → what each of the other tools says; the last line of one that fails goes to stderr."""
    made = {}
    for row in ("onnxruntime-minmax", *(["nncf"] if nncf else [])):
        try:
            peer = partial(repair.by_peer, row, model, inputs, folder / row, nncf or sys.executable)
            made[row] = with_processor_time(peer)
        except subprocess.CalledProcessError as error:
            print(f"{name} {row}: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return made


def measured(name: str, data: Path, tree: Path, nncf: str | None) -> list[dict[str, Any]]:
    """A record of FP32, of the peers, and of each effort of both states."""
    entry = json.loads((HERE / "models.json").read_text())[name]
    with opened(name, entry, data) as (network, folder):
        inputs = repair.calibration_inputs(network, folder / "inputs.npy")
        made = by_peers(name, folder, inputs, repair.for_peers(network, folder), nncf)
        files = {FLOAT: network.model, **{row: folder / row / "int8.onnx" for row in made}}
        made[FLOAT] = {"seconds": None, "peak_mb": None, "kept": [], "cpu_s": None}
        for effort in EFFORTS:
            for row, state in ((EARLIER + effort, tree), (effort, HERE.parent)):
                files[row] = folder / f"{row}.onnx"
                made[row] = with_processor_time(partial(quantized_by, state, name, data, effort, files[row]))
        judged = repair.evaluate(
            list(files.values()),
            network.evaluation,
            preprocess=network.preprocess,
            batch=repair.BATCH,
            threads=2,
        )
        return [
            {"network": name, "row": row, "top1": result.top1, "top5": result.top5,
             "agreement": result.agreement, "sqnr_db": result.sqnr_db, **made[row]}
            for row, result in zip(files, judged, strict=True)
        ]  # fmt: skip


def rows_of(records: list[dict[str, Any]]) -> list[str]:
    """The table of ``repair.py`` with the time of all processors behind it, a line per row."""
    heading, rule, *rows = repair_rows(records)
    times = ["–" if record["seconds"] is None else f"{record['cpu_s']:.1f}" for record in records]
    added = [f"{row} {time} |" for row, time in zip(rows, times, strict=True)]
    return [f"{heading} of processors, s |", f"{rule} --- |", *added]


def starts(tree: Path, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """First results of both states in turns, each with a plan of its own, and of ONNX Runtime."""
    model = quantized(STARTED, folder)
    plans = {state: folder / f"{state or 'now'}.c8" for state in (EARLIER, "")}
    trees = {EARLIER: tree, "": HERE.parent}
    for state, plan in plans.items():
        started(SAVE + REPORT, str(model), str(plan), environment=of(trees[state]))
    runs = [(state, name) for name in ("calib8, a plan", "calib8, the model") for state in (EARLIER, "")]
    runs += [("", "calib8, the model again"), ("", "ONNX Runtime")]
    found: dict[str, list[tuple[float, float, float]]] = {state + name: [] for state, name in runs}
    for _ in range(rounds + 1):
        for state, name in runs:
            code = COMMON + PROCESSES[name] + REPORT
            times = started(code, str(model), str(plans[state]), environment=of(trees[state]))
            found[state + name].append(times)
    return [{"what": name, **summary(times[1:])} for name, times in found.items()]


def speeds(tree: Path, model: Path, turns: int) -> dict[str, list[list[float]]]:
    """State → by number of threads: the fastest run and the smallest median of all turns, in ms."""
    found: dict[str, list[Any]] = {EARLIER: [], "": []}
    for _ in range(turns):
        for state, place in ((EARLIER, tree), ("", HERE.parent)):
            command = [sys.executable, "-c", SPEED, str(model)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=of(place))
            found[state].append([json.loads(line) for line in done.stdout.splitlines()])
    return {
        state: [[min(times) for times in zip(*runs, strict=True)] for runs in zip(*all_turns, strict=True)]
        for state, all_turns in found.items()
    }


def speed_rows(name: str, found: Mapping[str, list[list[float]]]) -> list[str]:
    """A row for every number of threads."""
    rows = []
    for threads, (before, now) in enumerate(zip(found[EARLIER], found[""], strict=True), 1):
        times = " | ".join(f"{fastest:.2f} ({median:.2f})" for fastest, median in (before, now))
        ratios = " | ".join(f"{old / new:.2f}" for old, new in zip(before, now, strict=True))
        rows.append(f"| {name} | {threads} | {times} | {ratios} |")
    return rows


def print_speeds(chosen: argparse.Namespace) -> None:
    """The table of the engines."""
    print("| network | threads | earlier, ms | now, ms | earlier / now, fastest | median |")
    print("|---|---|---|---|---|---|")
    for name in chosen.networks:
        found = speeds(chosen.tree, chosen.engine / (name + INT8), TURNS)
        print("\n".join(speed_rows(name, found)), flush=True)


def main() -> None:
    chosen = arguments()
    if chosen.engine is not None:
        print_speeds(chosen)
        return
    document: dict[str, Any] = {"machine": machine([1, 2]), "repair": {"records": []}}
    with tempfile.TemporaryDirectory() as folder:
        document["cold_start"] = starts(chosen.tree, Path(folder), chosen.rounds)
    print("\n".join(cold_start_rows(document["cold_start"])), flush=True)
    for name in filter(None, chosen.models):
        found = measured(name, chosen.data, chosen.tree, chosen.nncf)
        document["repair"]["records"] += found
        print("\n".join(rows_of(found)), flush=True)
    write(document, chosen.json)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--models", type=names, default=list(NETWORKS))
    parser.add_argument("--nncf", help="Python of an environment that has NNCF")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", type=Path)
    parser.add_argument("--networks", type=names, default=["resnet50", "mobilenet_v2"])
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
