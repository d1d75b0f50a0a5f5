"""INT8 accuracy by effort, beside other tools: top-1, top-5, agreement, SQNR, seconds and peak memory.

    python benchmarks/repair.py DATA [--models mobilenet_v2,…] [--rows balanced,nncf,…] [--judged N]
                                [--nncf PYTHON] [--json FILE]

DATA holds the models and images that ``models.json`` names. Every row is quantized in a process of its own
from the same at most 100 calibration samples with two threads; all are judged on the evaluation samples,
which nothing else has seen, in ONNX Runtime. ``--nncf`` is the Python of an environment with NNCF. Other
tools get models of an opset below 13 converted to it: per-channel weights need it. What fails has a row too.
``engine.py --from`` takes the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter

import calib8
from accuracy_tables import FLOAT
from calib8.analysis.runtimes import open_in_runtime
from calib8.data.opening import open_dataset
from calib8.errors import Calib8Error
from calib8.judge import evaluate
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calibration_peers import peak_megabytes
from engine import names, write
from methods import BATCH, Network, opened
from repair_tables import repair_rows
from results import machine

SAMPLES = 100
PEERS = ("onnxruntime-minmax", "onnxruntime-entropy", "nncf")
NAIVE = "naive"
EFFORTS = ("fast", "balanced", "best")
ROWS = (NAIVE, *PEERS, *EFFORTS)
PEERS_OPSET = 13
HERE = Path(__file__).parent


def quantized(network: Network, row: str, file: Path) -> dict[str, Any]:
    """Quantizes in this process; seconds, peak memory and what was done."""
    wish: dict[str, Any] = {"effort": row}
    if row == NAIVE:
        wish = {"method": "minmax", "repair": ["none"]}
    start = time.perf_counter()
    made = calib8.quantize(
        network.model, network.data, preprocess=network.preprocess, samples=SAMPLES, threads=2, **wish
    )
    made.save(file)
    seconds = time.perf_counter() - start
    steps = (
        []
        if made.repaired is None
        else [name for step in made.repaired.steps if step.kept for name in step.names]
    )
    return {"seconds": seconds, "peak_mb": peak_megabytes(), "kept": steps}


def in_own_process(name: str, root: Path, row: str, file: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, str(root), "--models", name, "--one", row, "--output", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def by_peer(
    row: str, model: Path, inputs: Path, folder: Path, python: str, samples: int = SAMPLES
) -> dict[str, Any]:
    """What another tool makes of the same inputs."""
    folder.mkdir()
    command = [python, str(HERE / "calibration_peers.py"), row, str(model), str(inputs), str(samples)]
    done = subprocess.run([*command, str(folder)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    open_in_runtime(folder / "int8.onnx", "onnxruntime", 2)
    return {"seconds": found["whole_s"], "peak_mb": found["peak_mb"], "kept": []}


def calibration_inputs(network: Network, file: Path) -> Path:
    """The inputs of the calibration samples as one array, float32 [samples, …]."""
    specs = graph_inputs(load_model(network.model))
    dataset = open_dataset(network.data, specs, network.preprocess, samples=SAMPLES)
    np.save(file, np.concatenate([sample.inputs[specs[0].name] for sample in dataset]))
    return file


def measure(
    network: Network, root: Path, folder: Path, rows: Sequence[str], judged: int | None, nncf: str | None
) -> list[dict[str, Any]]:
    """A record of FP32 and of each row."""
    inputs, peers_model = calibration_inputs(network, folder / "inputs.npy"), for_peers(network, folder)
    files, made = {FLOAT: network.model}, {FLOAT: {"seconds": None, "peak_mb": None, "kept": []}}
    failed = []
    for row in rows:
        try:
            if row in PEERS:
                python = nncf if row == "nncf" else sys.executable
                if python is None:
                    continue
                made[row] = by_peer(row, peers_model, inputs, folder / row, python)
                files[row] = folder / row / "int8.onnx"
            else:
                made[row] = in_own_process(network.name, root, row, folder / f"{row}.onnx")
                files[row] = folder / f"{row}.onnx"
        except (subprocess.CalledProcessError, Calib8Error) as error:
            failed.append(failure(network, row, error))
    results = evaluate(
        list(files.values()), network.evaluation, preprocess=network.preprocess, samples=judged, batch=BATCH,
        threads=2,
    )  # fmt: skip
    found = [
        {"network": network.name, "row": row, "judged": result.images, "top1": result.top1,
         "top5": result.top5, "agreement": result.agreement, "sqnr_db": result.sqnr_db, **made[row]}
        for row, result in zip(files, results, strict=True)
    ] + failed  # fmt: skip
    order = (FLOAT, *rows)
    return sorted(found, key=lambda record: order.index(record["row"]))


def for_peers(network: Network, folder: Path) -> Path:
    """The model as other tools get it."""
    model = onnx.load(network.model)
    if max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")) >= PEERS_OPSET:
        return network.model
    onnx.save(onnx.version_converter.convert_version(model, PEERS_OPSET), folder / "peers.onnx")
    return folder / "peers.onnx"


def failure(network: Network, row: str, error: Exception) -> dict[str, Any]:
    """The record of a row that came to nothing; the last line of what it said goes to stderr."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    reason = (said.strip().splitlines() or ["no message"])[-1]
    print(f"{network.name} {row}: {reason}", file=sys.stderr)
    nothing = dict.fromkeys(("judged", "top1", "top5", "agreement", "sqnr_db", "seconds", "peak_mb"))
    why = "out of memory" if "Memory" in reason else "no model that ONNX Runtime loads"
    return {"network": network.name, "row": row, **nothing, "kept": [f"fails: {why}"]}


def main() -> None:
    chosen = arguments()
    entries = json.loads((HERE / "models.json").read_text())
    if chosen.one:
        with opened(chosen.models[0], entries[chosen.models[0]], chosen.data) as (network, _):
            print(json.dumps(quantized(network, chosen.one, chosen.output)))
        return
    document: dict[str, Any] = {"machine": machine([1, 2]), "results": [], "repair": {"records": []}}
    for name in chosen.models or entries:
        with opened(name, entries[name], chosen.data) as (network, folder):
            found = measure(network, chosen.data, folder, chosen.rows, chosen.judged, chosen.nncf)
        document["repair"]["records"] += found
        write(document, chosen.json)
        print("\n".join(repair_rows(found)), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", type=names, default=[])
    parser.add_argument("--rows", type=names, default=list(ROWS))
    parser.add_argument("--judged", type=int)
    parser.add_argument("--nncf", help="Python of an environment that has NNCF")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
