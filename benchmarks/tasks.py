"""INT8 beside FP32 by task, calib8's efforts and targets beside other tools: what users of the network see.

    python benchmarks/tasks.py MODEL CALIBRATION JUDGED --task detect [--size 320,320] [--color bgr]
                               [--mean 0] [--scale 0.00392156863] [--rows calib8-balanced,nncf,…]
                               [--branch NAME=KIND] [--nncf PYTHON] [--modelopt PYTHON] [--judged N]
                               [--models FOLDER] [--json FILE] [--samples N] [--alone]

CALIBRATION and JUDGED are images or arrays as ``calib8 evaluate`` takes them. Every tool gets the same at
most 100 samples, or ``--samples``, and its defaults; every model is judged on the same samples, which no tool
has seen, by the same judge, with FP32 as the truth. Other tools get the model with its free sizes fixed, and
with operator set 13 where it has an older one. ``tail`` leaves all behind the last layers with weights in
float. ``--nncf`` and ``--modelopt`` are Pythons of environments with these tools. What fails has a row too.
``--models`` keeps the models, in an empty folder. The rows of calib8 tell which repairs were kept, and the
verdict on the samples held back. ``--alone`` says that nothing else runs on the machine: the page then has
the times too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

import calib8
from calib8.analysis.evaluate import Evaluation
from calib8.analysis.inspect import inspect_model
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.errors import Calib8Error
from calib8.judge import evaluate
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.tasks.named import parse_branches
from repair import PEERS_OPSET, SAMPLES, by_peer


@dataclass(frozen=True)
class Way:
    """How a row comes about.

    Attributes:
        runtime: where its model is judged.
        peer: TOOL of ``calibration_peers.py``; empty: calib8.
        target, effort: of calib8.
    """

    runtime: str = "onnxruntime"
    peer: str = ""
    target: str = "onnxruntime"
    effort: str = ""


WAYS = {
    "calib8-fast": Way(effort="fast"),
    "calib8-balanced": Way(effort="balanced"),
    "calib8-engine-fast": Way("calib8", target="calib8", effort="fast"),
    "calib8-engine-balanced": Way("calib8", target="calib8", effort="balanced"),
    "onnxruntime": Way(peer="onnxruntime-minmax"),
    "onnxruntime-tail": Way(peer="onnxruntime-minmax-tail"),
    "nncf": Way(peer="nncf"),
    "modelopt": Way(peer="modelopt-max"),
}


def for_peers(model: Path, sample: npt.NDArray[np.float32], folder: Path) -> Path:
    """The model with the sizes of a sample in and out, in an operator set that peers take."""
    proto = onnx.load(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    results = session.run(None, {proto.graph.input[0].name: sample})
    for value, array in zip([proto.graph.input[0], *proto.graph.output], [sample, *results], strict=True):
        value.type.tensor_type.ClearField("shape")
        for size in array.shape:
            value.type.tensor_type.shape.dim.add().dim_value = size
    del proto.graph.value_info[:]
    own = next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    if own < PEERS_OPSET:
        others = [entry for entry in proto.opset_import if entry.domain not in ("", "ai.onnx")]
        for entry in others:
            proto.opset_import.remove(entry)
        proto = onnx.version_converter.convert_version(proto, PEERS_OPSET)
    onnx.save(onnx.shape_inference.infer_shapes(proto), folder / "peers.onnx")
    return folder / "peers.onnx"


def made(
    way: Way, name: str, args: argparse.Namespace, preprocess: Preprocess, folder: Path
) -> dict[str, Any]:
    """Makes ``folder/NAME.onnx``; seconds, and of calib8 what it did."""
    output = folder / f"{name}.onnx"
    if way.peer:
        python = {"nncf": args.nncf, "modelopt": args.modelopt}.get(
            way.peer.partition("-")[0], sys.executable
        )
        if python is None:
            raise FileNotFoundError
        work = folder / way.peer
        found = {"seconds": 0.0}
        if not (work / "int8.onnx").exists():
            found = by_peer(
                way.peer, folder / "peers.onnx", folder / "inputs.npy", work, python, args.samples
            )
        output.symlink_to(work / "int8.onnx")
        return {"seconds": float(found["seconds"])}
    start = time.perf_counter()
    result = calib8.quantize(
        args.model, args.calibration, preprocess=preprocess, samples=args.samples, threads=2, task=args.task,
        branches=parse_branches(args.branch), target=way.target, effort=way.effort,
    )  # fmt: skip
    result.save(output)
    steps = () if result.repaired is None else result.repaired.steps
    said = [f"{step.name}: {step.before_db:.1f} → {step.after_db:.1f}" for step in steps if step.kept]
    work = [note for step in steps if step.kept for note in step.notes]
    verdict = "" if result.verdict is None else result.verdict.text
    return {"seconds": time.perf_counter() - start, "kept": said, "notes": work, "verdict": verdict}


def float_share(model: Path, runtime: str, size: tuple[int, ...] | None) -> float | None:
    """Share of the multiply-accumulates that run in float, 0 … 1; None where a size is not known.

    Args:
        model: an INT8 model.
        runtime: ``calib8`` for what its engine makes of the model, else what the file says.
        size: rows and columns of a picture, where the file leaves them open.
    """
    sized = onnx.load(model)
    for axis, side in zip(
        sized.graph.input[0].type.tensor_type.shape.dim, (1, None, *(size or ())), strict=False
    ):
        if side is not None and not axis.dim_value:
            axis.dim_value = side
    path = model.with_name(f"{model.stem}.sized.onnx")
    onnx.save(sized, path)
    found = inspect_model(path)
    if not found.macs:
        return None
    floats = [layer.engine if runtime == "calib8" else layer.reason for layer in found.layers]
    counts = [layer.macs or 0 for layer in found.layers]
    return sum(count for count, why in zip(counts, floats, strict=True) if why) / sum(counts)


def record(name: str, how: dict[str, Any], found: Evaluation) -> dict[str, Any]:
    """What a row tells."""
    branches = {one.name: one.sqnr_db for one in found.branches}
    figures = {} if found.task is None else dict(found.task.against_float)
    ms = 1000.0 * found.seconds / max(found.images, 1)
    return {"row": name, **how, "ms": ms, "sqnr_db": branches, **figures}


def measured(args: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows."""
    size = None if args.size is None else tuple(int(side) for side in args.size.split(","))
    preprocess = Preprocess(
        color=args.color, mean=tuple(args.mean), scale=tuple(args.scale),
        **({} if size is None else {"size": size}),
    )  # fmt: skip
    found = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        specs = graph_inputs(load_model(args.model))
        dataset = open_dataset(args.calibration, specs, preprocess, samples=args.samples)
        inputs = np.concatenate([sample.inputs[specs[0].name] for sample in dataset])
        np.save(folder / "inputs.npy", inputs)
        for_peers(args.model, inputs[:1], folder)
        for name in args.rows.split(","):
            way = WAYS[name]
            try:
                how = made(way, name, args, preprocess, folder)
                how["float_share"] = float_share(folder / f"{name}.onnx", way.runtime, size)
                _, result = evaluate(
                    [args.model, folder / f"{name}.onnx"], args.judged_data, preprocess=preprocess,
                    samples=args.judged, threads=1, task=args.task, branches=parse_branches(args.branch),
                    runtime=way.runtime,
                )  # fmt: skip
            except FileNotFoundError:
                continue
            except (subprocess.CalledProcessError, Calib8Error) as error:
                said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
                found.append({"row": name, "failure": (said.strip().splitlines() or ["no message"])[-1]})
            else:
                found.append(record(name, how, result) | ({"alone": True} if args.alone else {}))
            print(told(found[-1]), flush=True)
            if args.json is not None:
                args.json.write_text(json.dumps(found, indent=1))
    return found


def told(one: dict[str, Any]) -> str:
    """A row in words."""
    if "failure" in one:
        return f"{one['row']}: fails: {one['failure']}"
    parts = [
        f"{key} {value:.4g}" for key, value in one.items() if isinstance(value, float) and key != "seconds"
    ]
    branches = ", ".join(f"{name} {db:.1f}" for name, db in one["sqnr_db"].items() if db is not None)
    return f"{one['row']}: {'  '.join(parts)}  dB: {branches}  quantized in {one['seconds']:.0f} s"


def main() -> None:
    """Runs from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("calibration", type=Path)
    parser.add_argument("judged_data", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--color", default="rgb")
    parser.add_argument("--mean", type=float, nargs="+", default=[0.0])
    parser.add_argument("--scale", type=float, nargs="+", default=[1 / 255])
    parser.add_argument("--size")
    parser.add_argument("--branch", action="append", default=[])
    parser.add_argument("--rows", default=",".join(WAYS))
    parser.add_argument("--judged", type=int)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--nncf")
    parser.add_argument("--modelopt")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    if unknown := [name for name in args.rows.split(",") if name not in WAYS]:
        parser.error(f"--rows {unknown[0]}: there is no such row. Rows: {', '.join(WAYS)}")
    if args.models is not None and args.models.exists() and any(args.models.iterdir()):
        parser.error(f"--models {args.models} is not empty. Name a new folder")
    measured(args)


if __name__ == "__main__":
    main()
