"""INT8 accuracy: every range method of calib8, and onnxruntime's own quantizer, on the same images.

    python benchmarks/accuracy.py DATA [--models resnet20,…] [--peers minmax,percentile] [--json FILE]

DATA holds the models and images that ``models.json`` names. Everything is judged in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from calib8.analysis.evaluate import Evaluation
from calib8.calibration.choose import choose_table
from calib8.calibration.ranges import METHODS
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.judge import evaluate
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import calibrate, quantize
from calib8.scheme import ACTIVATION_TYPES

PEER_METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}


def load_preprocess(recipe: str | dict) -> Preprocess:
    if isinstance(recipe, str):
        return preset(recipe)
    lists = {key: tuple(value) for key, value in recipe.items() if isinstance(value, list)}
    return Preprocess(**{**recipe, **lists})


class Reader(CalibrationDataReader):
    """The calibration images as onnxruntime wants them, read lazily."""

    def __init__(self, model: Path, data: Path, preprocess: Preprocess) -> None:
        dataset = open_dataset(data, graph_inputs(load_model(model)), preprocess)
        self.samples: Iterator[dict[str, np.ndarray]] = (dict(sample.inputs) for sample in dataset)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.samples, None)


def quantize_with_onnxruntime(
    model: Path, data: Path, preprocess: Preprocess, method: str, output: Path
) -> None:
    """Its recommended way: pre-processed, per channel, uint8 activations, int8 weights."""
    prepared = output.with_suffix(".prepared.onnx")
    quant_pre_process(str(model), str(prepared))
    quantize_static(
        str(prepared),
        str(output),
        Reader(model, data, preprocess),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=PEER_METHODS[method],
    )


def measure(name: str, entry: dict, root: Path, folder: Path, peers: list[str]) -> list[dict]:
    model, calibration_data = root / entry["file"], root / entry["calibration"]
    preprocess = load_preprocess(entry["preprocess"])
    found = calibrate(model, calibration_data, preprocess=preprocess, method="minmax", threads=2)
    files, seconds = {"float32": model}, {"float32": 0.0}
    for method in METHODS:
        start = time.perf_counter()
        table = choose_table(found.statistics, ACTIVATION_TYPES["uint8"], method)
        seconds[f"calib8 {method}"] = time.perf_counter() - start
        files[f"calib8 {method}"] = folder / f"{name}.calib8-{method}.onnx"
        quantize(model, calibration_data, table=table, preprocess=preprocess).save(files[f"calib8 {method}"])
    for method in peers:
        start = time.perf_counter()
        files[f"onnxruntime {method}"] = folder / f"{name}.onnxruntime-{method}.onnx"
        quantize_with_onnxruntime(model, calibration_data, preprocess, method, files[f"onnxruntime {method}"])
        seconds[f"onnxruntime {method}"] = time.perf_counter() - start
    results = evaluate(list(files.values()), root / entry["evaluation"], preprocess=preprocess)
    return [
        {"network": name, "quantizer": label, "search_seconds": seconds[label], **asdict(result)}
        for label, result in zip(files, results, strict=True)
    ]


def row(record: dict) -> str:
    result = Evaluation(**{key: record[key] for key in Evaluation.__dataclass_fields__})
    cells = [result.top1, result.top5, result.agreement]
    shares = [f"{100 * cell:7.2f}" if cell is not None else "      –" for cell in cells]
    sqnr = f"{result.sqnr_db:6.2f}" if result.sqnr_db is not None else "     –"
    return f"| {record['network']:18} | {record['quantizer']:22} | {' | '.join(shares)} | {sqnr} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--peers", default="minmax,percentile")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    entries = json.loads((Path(__file__).parent / "models.json").read_text())
    chosen = options.models.split(",") if options.models else list(entries)
    records = []
    print("| network            | quantizer              |   top-1 |   top-5 |   agree | SQNR dB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            peers = [peer for peer in options.peers.split(",") if peer]
            rows = measure(name, entries[name], options.data, Path(folder), peers)
            print("\n".join(row(record) for record in rows), flush=True)
            records += rows
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
