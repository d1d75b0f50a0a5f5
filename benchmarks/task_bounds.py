"""What bounds the tasks of docs/detectors.md: the codes of weights, or those of activations.

    python benchmarks/task_bounds.py FOLDER [--only NAMES] [--target calib8] [--repair round]

FOLDER is that of ``task_networks.py``. Each network is quantized with one repair, nothing stays in float, and
judged as ``tasks.py`` does it: once as it is, and once with the codes of activations taken out, so that its
INT8 weights alone are left. Both are judged in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import onnx

import calib8
from calib8.analysis.evaluate import Evaluation
from calib8.judge import evaluate
from calib8.tasks.named import parse_branches
from repair import SAMPLES
from task_answers import network_of, preprocess_of
from tasks import record, told


def weights_alone(model: onnx.ModelProto) -> onnx.ModelProto:
    """A QDQ model without its pairs of QuantizeLinear and DequantizeLinear on activations."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    nodes = found.graph.node
    before = {node.output[0]: node.input[0] for node in nodes if node.op_type == "QuantizeLinear"}
    pairs = [node for node in nodes if node.op_type == "DequantizeLinear" and node.input[0] in before]
    source = {node.output[0]: before[node.input[0]] for node in pairs}
    for node in found.graph.node:
        for place, name in enumerate(node.input):
            while name in source:
                name = source[name]
            node.input[place] = name
    for node in pairs:
        if node.output[0] in {output.name for output in found.graph.output}:
            node.op_type, node.input[:] = "Identity", [source[node.output[0]]]
        else:
            found.graph.node.remove(node)
    read = {name for node in found.graph.node for name in node.input}
    for node in [node for node in found.graph.node if node.op_type == "QuantizeLinear"]:
        if node.output[0] not in read:
            found.graph.node.remove(node)
    return found


def judged(folder: Path, name: str, target: str, repair: str) -> list[Evaluation]:
    """INT8 as it is, and its weights alone."""
    network = network_of(folder, name)
    preprocess = preprocess_of(network)
    model = folder / name / "model.onnx"
    settings = {"task": network["task"], "branches": parse_branches(network["branches"])}
    int8 = calib8.quantize(
        model, network["calibration"], preprocess=preprocess, samples=SAMPLES, threads=1, target=target,
        repair=(repair,), **settings,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        whole, alone = (Path(temporary) / file for file in ("whole.onnx", "alone.onnx"))
        int8.save(whole)
        onnx.save(weights_alone(onnx.load(whole)), alone)
        return evaluate(
            [model, whole, alone], network["evaluation"], preprocess=preprocess, samples=network["judged"],
            threads=1, runtime="onnxruntime", **settings,
        )[1:]  # fmt: skip


def main() -> None:
    """Prints two lines per network."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="scrfd,tinyface,blazeface,crnn,selfie")
    parser.add_argument("--target", default="onnxruntime")
    parser.add_argument("--repair", default="round")
    args = parser.parse_args()
    for name in args.only.split(","):
        for row, found in zip(
            ("whole", "weights"), judged(args.folder, name, args.target, args.repair), strict=True
        ):
            print(name, told(record(row, {"seconds": 0.0}, found)), flush=True)


if __name__ == "__main__":
    main()
