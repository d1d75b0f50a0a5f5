"""What calib8 computes beside what other runtimes compute, on networks of timm and torchvision.

    python benchmarks/same_bits.py [--networks resnet18,torchvision:vgg11,…] [--exporters torchscript]
        [--part 1/4] [--size 96] [--json FILE] [--from FILE …] [--page docs/conformance.md]

Every network is exported, quantized for ONNX Runtime, the engine and TFLite, and run on the same images:

    QDQ file      native engine beside ONNX Runtime (optimized, unoptimized) and beside the NumPy reference
    calib8        the same for the target calib8, whose files ONNX Runtime computes in float in part
    TFLite file   native engine reading the file beside LiteRT's reference kernels
    trace         whether ``calib8.training.prepare`` traces the module and simulates its codes

What the file of --json or one of --from has already is not measured again. ``--part 2/4`` is every fourth
network from the second on, for a file of its own: several processes share the work, and the last one makes
the page of all their files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch

from calib8 import InferenceSession, Quantization, quantize
from calib8.analysis.tflite_sessions import open_in_litert, open_in_own
from calib8.errors import Calib8Error
from calib8.model.runtime import open_session
from calib8.ops.groups import WEIGHTED_OPS
from calib8.program.listing import summary
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.training import prepare
from same_bits_networks import EXPORTERS, NETWORKS, export, network, smooth_images
from same_bits_tables import installed, page, rows

CALIBRATION = 4
JUDGED = 2
Codes = dict[str, npt.NDArray[Any]]
Run = Callable[[Mapping[str, npt.NDArray[Any]]], Sequence[npt.NDArray[Any]]]


def measured(name: str, exporter: str, size: int, folder: Path) -> dict[str, Any]:
    """The record of one network; what an error stopped has ``failed`` in place of figures."""
    found: dict[str, Any] = {"network": name, "exporter": exporter, "size": size}
    started = time.perf_counter()
    model = folder / "float.onnx"
    try:
        export(name, exporter, size, model)
    except Exception as error:  # PyTorch raises anything
        return {**found, "failed": f"export: {_line(error)}"}
    images = [{"image": image[None]} for image in smooth_images(CALIBRATION + JUDGED, size, 3)]
    calibration, judged = images[:CALIBRATION], images[CALIBRATION:]
    judges = {"onnxruntime": onnx_figures, "calib8": onnx_figures, "tflite": tflite_figures}
    for target, judge in judges.items():
        try:
            made = quantize(str(model), calibration, target=target, effort="fast")
            found[target] = judge(made, folder, judged)
        except Calib8Error as error:
            found[target] = {"failed": _line(error)}
    found["trace"] = traced(name, size)
    return {**found, "seconds": round(time.perf_counter() - started, 1)}


def traced(name: str, size: int) -> dict[str, Any]:
    """Whether a module can be trained with its rounding simulated, and why not."""
    image = torch.from_numpy(smooth_images(1, size, 2))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepare(network(name, size), image, "calib8")
    except Calib8Error as error:
        return {"failed": _line(error)}
    return {}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def onnx_figures(made: Quantization, folder: Path, images: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How far the QDQ file's results lie apart."""
    path = str(folder / "int8.onnx")
    made.save(path)
    engine, codes = InferenceSession(path), dict[str, npt.NDArray[Any]]()
    optimized, plain = open_session(path, threads=1), open_session(path, threads=1, configure=unoptimized)
    runs: dict[str, Run] = {
        "engine": lambda feeds: engine.run(None, feeds),
        "optimized": optimized.run,
        "unoptimized": plain.run,
    }
    results = {name: [run(image) for image in images] for name, run in runs.items()}
    reference = run_program(engine.program, images[0], partial(keep_codes, engine.program, codes))
    counts = summary(engine.program)
    layers = [one.quantized for one in made.placement.decisions if one.op_type in WEIGHTED_OPS]
    macs = counts.integer_macs, counts.float_macs or 0
    return {
        "coded_share": macs[0] / max(sum(macs), 1),
        "layers": len(layers),
        "quantized": sum(layers),
        "floats": counts.instructions.get("Float", 0),
        "float_nodes": list(counts.float_nodes),
        "engine_numpy": apart([reference], results["engine"][:1]),
        "engine_optimized": apart(results["optimized"], results["engine"]),
        "engine_unoptimized": apart(results["unoptimized"], results["engine"]),
        "first_apart": first_apart(path, codes, images[0]),
    }


def keep_codes(program: Program, kept: Codes, number: int, array: npt.NDArray[Any]) -> None:
    """Notes the codes of a slot under its tensor's name, the first slot's of that name."""
    if program.slots[number].is_codes:
        kept.setdefault(program.slots[number].name, array.copy())


def first_apart(path: str, ours: Codes, image: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first codes that unoptimized ONNX Runtime computes otherwise; None where all are equal."""
    model = onnx.load(path)
    made = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    session = open_session(model.SerializeToString(), threads=1, configure=unoptimized)
    for name, theirs in zip(made, session.run(image, list(made)), strict=True):
        differing = codes_apart(ours[made[name]], theirs) if made[name] in ours else 0
        if differing:
            return {"tensor": made[name], "differing": differing, "values": theirs.size}
    return None


def codes_apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> int:
    """How many codes differ; 0 too where a slot of the name holds other sizes, or another order of axes."""
    orders = [theirs, theirs.transpose(0, 2, 3, 1)] if theirs.ndim == 4 else [theirs]
    counts = [int((ours != codes).sum()) for codes in orders if codes.shape == ours.shape]
    return (
        0 if np.array_equal(np.sort(ours, axis=None), np.sort(theirs, axis=None)) else min(counts, default=0)
    )


def unoptimized(options: Any) -> None:
    """For ``open_session``: every node as it stands in the file."""
    import onnxruntime

    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def tflite_figures(made: Quantization, folder: Path, images: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How far the results of the exported TFLite file lie apart."""
    path = folder / "int8.tflite"
    made.save(path)
    feeds = [{"image": image["image"].transpose(0, 2, 3, 1)} for image in images]
    engine = open_in_own(path, "calib8", 1, None, False)
    peer = open_in_litert(path, "litert-reference", 1)
    try:
        theirs = [peer.run(feed) for feed in feeds]
    finally:
        peer.handle.close()
    return {"engine_litert": apart(theirs, [engine.run(feed) for feed in feeds])}


def apart(
    wanted: Sequence[Sequence[npt.NDArray[Any]]], given: Sequence[Sequence[npt.NDArray[Any]]]
) -> dict[str, float]:
    """Values, how many differ, and the largest difference in steps, 1/255 of the range of an output."""
    values, differing, steps = 0, 0, 0.0
    for output in range(len(wanted[0])):
        left = np.stack([result[output] for result in wanted]).astype(np.float64)
        right = np.stack([result[output] for result in given]).astype(np.float64)
        values += left.size
        differing += int(np.count_nonzero(left != right))
        width = float(np.ptp(left)) or 1.0
        steps = max(steps, float(np.abs(left - right).max()) * 255 / width)
    return {"values": values, "differing": differing, "steps": steps}


def part_of(text: str) -> tuple[int, int]:
    """``2/4`` → (2, 4)."""
    number, count = (int(word) for word in text.split("/"))
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"{text} is no part: 1/4 … 4/4 are the parts of four")
    return number, count


def kept_records(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The records of files that are there, each network with each exporter once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in (file for file in files if file.is_file()):
        for one in json.loads(file.read_text(encoding="utf-8")):
            found.setdefault((one["network"], one["exporter"]), one)
    return list(found.values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=lambda text: text.split(","), default=NETWORKS)
    parser.add_argument("--part", type=part_of, default=(1, 1), help="NUMBER/COUNT of the networks")
    parser.add_argument("--exporters", type=lambda text: text.split(","), default=["torchscript"])
    parser.add_argument("--size", type=int, help="rows and columns of images, in place of each network's own")
    parser.add_argument("--json", type=Path, help="where the records are kept")
    parser.add_argument("--from", dest="others", type=Path, nargs="+", default=[], help="earlier records")
    parser.add_argument("--page", type=Path, help="where to write the page of results")
    chosen = parser.parse_args()
    if unknown := set(chosen.exporters) - EXPORTERS.keys():
        parser.error(f"--exporters: {', '.join(unknown)} is none of {', '.join(EXPORTERS)}")
    return chosen


def main() -> None:
    chosen = arguments()
    records = kept_records([chosen.json] if chosen.json else [])
    everything = kept_records([*([chosen.json] if chosen.json else []), *chosen.others])
    known = {(one["network"], one["exporter"]) for one in everything}
    number, count = chosen.part
    for name in list(chosen.networks)[number - 1 :: count]:
        for exporter in chosen.exporters:
            if (name, exporter) in known:
                continue
            size = chosen.size or NETWORKS.get(name, 96)
            with tempfile.TemporaryDirectory() as folder:
                records.append(measured(name, exporter, size, Path(folder)))
            everything.append(records[-1])
            print(rows(records[-1:])[-1], flush=True)
            if chosen.json:
                chosen.json.write_text(json.dumps(records, indent=1) + "\n")
    order = list(NETWORKS)
    everything.sort(key=lambda one: order.index(one["network"]) if one["network"] in order else len(order))
    print("\n".join(rows(everything)))
    if chosen.page:
        chosen.page.write_text(page(everything, installed()))


if __name__ == "__main__":
    main()
