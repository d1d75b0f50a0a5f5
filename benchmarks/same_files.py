"""Checksums of what calib8 writes for real networks: statistics, tables, models, plans. Compares two commits.

    python benchmarks/same_files.py DATA [--models resnet8,…] [--samples 24] [--efforts balanced] > after
    diff before after

DATA holds the models and images that ``models.json`` names. Each line is NETWORK WHAT and the start of the
SHA-256 of the bytes. Run it once with each commit, both on one machine: FP32 sums differ between processors.
Ranges, repairs and targets differ from way to way (``WAYS``), so that most of the package takes part.
``--efforts`` adds searches of repairs, with four times the samples, which take minutes each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import calib8
from calib8.data.opening import open_dataset
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from engine import names
from methods import Network, opened

WAYS: Final[dict[str, dict[str, Any]]] = {
    "onnxruntime, fast": {"target": "onnxruntime", "effort": "fast"},
    "calib8, percentile": {
        "target": "calib8",
        "method": "percentile",
        "percent": 99.9,
        "repair": ["cle", "bias"],
    },
    "openvino, entropy": {"target": "openvino", "method": "entropy", "repair": ["none"]},
    "tensorrt, one scale": {
        "target": "tensorrt",
        "method": "minmax",
        "repair": ["none"],
        "weights": "per-tensor",
    },
    "tflite, mse": {"target": "tflite", "method": "mse", "repair": ["equalize-activations", "bias"]},
}
"""Keywords of ``quantize``."""


def checksum(data: bytes) -> str:
    """The start of the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Those of one sample, for networks that leave sizes open."""
    specs = graph_inputs(load_model(network.model))
    (sample,) = open_dataset(network.data, specs, network.preprocess, samples=1)
    return {name: array.shape for name, array in sample.inputs.items()}


def made(network: Network, samples: int, options: dict[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    """What is made, and its checksum: the table, the QDQ model, its plan in the engine."""
    model, plan = folder / "int8.onnx", folder / "int8.c8"
    try:
        found = calib8.quantize(
            network.model, network.data, preprocess=network.preprocess, samples=samples, threads=2, **options
        )
        yield "table", checksum(found.table.to_json().encode())
        found.save(model)
        yield "model", checksum(model.read_bytes())
        calib8.InferenceSession(model, shapes=shapes(network)).save(plan)
        yield "plan", checksum(plan.read_bytes())
    except calib8.Calib8Error as error:
        said = str(error).replace(str(folder), "").splitlines()[0]
        yield "error", f"{type(error).__name__}: {said}"


def lines(network: Network, samples: int, efforts: list[str], folder: Path) -> Iterator[str]:
    """All of one network."""
    statistics = calib8.collect_statistics(
        network.model, network.data, preprocess=network.preprocess, samples=samples, threads=2
    ).statistics
    yield f"statistics {checksum(statistics.to_bytes())}"
    searched = {f"onnxruntime, {effort}": {"effort": effort} for effort in efforts}
    for name, options in (WAYS | searched).items():
        count = 4 * samples if name in searched else samples
        for what, found in made(network, count, options, folder):
            yield f"{name}: {what} {found}"


def main() -> None:
    """Prints a line per file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    entries = json.loads((Path(__file__).parent / "models.json").read_text())
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", type=names, default=list(entries))
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--efforts", type=names, default=[])
    arguments = parser.parse_args()
    for name in arguments.models:
        with opened(name, entries[name], arguments.data) as (network, folder):
            for line in lines(network, arguments.samples, arguments.efforts, folder):
                print(name, line, flush=True)


if __name__ == "__main__":
    main()
