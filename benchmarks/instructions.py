"""Instructions of a run in calib8's engine and in ONNX Runtime, on a processor whose newest set is AVX2.

    python benchmarks/instructions.py FOLDER [--networks resnet50,…] [--size 96] [--json FILE]

Valgrind shows to a program the processor that it emulates, which has AVX2 and FMA and none of the newer sets,
whatever the real one has; and it counts. What a run takes is what a process with three runs takes more than
one with a single run, halved: loading counts for nothing. Each network is run in two forms: with weights of
8 bits (target ``onnxruntime``; AVX2's products of bytes saturate in ONNX Runtime, so its result is another
one), and with 7 bits (``onnxruntime-avx2``). Counts tell nothing of caches or of how many instructions a
processor does at once. FOLDER keeps the networks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8 import InferenceSession, quantize
from topologies import TOPOLOGIES, draw

TARGETS: Final = {"8 bits": "onnxruntime", "7 bits": "onnxruntime-avx2"}
"""Bits of the weights → target whose form has them."""

RUNS: Final = (1, 3)

CHILDREN: Final[Mapping[str, str]] = {
    "calib8": """
import sys
import numpy as np
from calib8 import InferenceSession
path, runs, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
session = InferenceSession(path, threads=1, isa="avx2")
for _ in range(runs):
    session.run(None, {"input": np.zeros((1, 3, size, size), np.float32)})
""",
    "ONNX Runtime": """
import sys
import numpy as np
import onnxruntime
path, runs, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
for _ in range(runs):
    session.run(None, {"input": np.zeros((1, 3, size, size), np.float32)})
""",
}


def files(name: str, target: str, size: int, folder: Path) -> tuple[Path, Path]:
    """The INT8 model of a network, and its plan; made if they are missing."""
    model, plan = (folder / f"{name}_{size}.{target}.{ending}" for ending in ("onnx", "c8"))
    folder.mkdir(parents=True, exist_ok=True)
    if not model.is_file():
        rng = np.random.default_rng(1)
        images = [{"input": rng.standard_normal((1, 3, size, size), np.float32)} for _ in range(4)]
        quantize(draw(name, size)[0], images, method="minmax", target=target, repair=("none",)).save(model)
    if not plan.is_file():
        InferenceSession(model).save(plan)
    return model, plan


def counted(runtime: str, path: Path, runs: int, size: int) -> int:
    """Instructions of a process that loads a file and runs it so many times."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    child = [sys.executable, "-c", CHILDREN[runtime], str(path), str(runs), str(size)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, *child], capture_output=True, text=True, env=environment, check=False)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{runtime}, {path}: {done.stderr}")
    return int(found[1].replace(",", ""))


def per_run(runtime: str, path: Path, size: int) -> float:
    """Instructions of one run, in millions."""
    few, many = (counted(runtime, path, runs, size) for runs in RUNS)
    return (many - few) / (RUNS[1] - RUNS[0]) / 1e6


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", default="resnet18,mobilenet_v2", help="of topologies.py, with commas")
    parser.add_argument(
        "--size", type=int, help="rows and columns of an image; by default the published ones"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("| network | weights | calib8 | ONNX Runtime | ratio |\n|---|---|---|---|---|")
    for name in arguments.networks.split(","):
        size = arguments.size or TOPOLOGIES[name].size
        for bits, target in TARGETS.items():
            model, plan = files(name, target, size, arguments.folder)
            ours, theirs = per_run("calib8", plan, size), per_run("ONNX Runtime", model, size)
            rows.append({"network": name, "weights": bits, "calib8": ours, "onnxruntime": theirs})
            print(f"| {name} | {bits} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
