"""Networks quantized by calib8, as TFLite files in LiteRT, beside the same models in ONNX Runtime.

    python benchmarks/tflite_models.py DATA [--models resnet20,…] [--targets tflite,onnxruntime]
        [--effort fast] [--samples 64] [--judged 400] [--json FILE]

DATA holds the models and images that ``models.json`` names. A row per network and target: sizes, top-1 of
the QDQ model and of the TFLite file in LiteRT's reference kernels and in its default ones (XNNPACK), how
often they agree with the QDQ model, and what the export had to add.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from ai_edge_litert import interpreter as litert

from accuracy import load_preprocess
from calib8 import InferenceSession
from calib8.analysis.benchmark import Pace
from calib8.analysis.bound_calls import BoundCall
from calib8.analysis.workloads import open_workload
from calib8.data.opening import open_dataset
from calib8.data.samples import Sample
from calib8.exporting.tflite.export import to_tflite
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import quantize
from calib8.program.lower.lower import lower
from calib8.tflite.write import serialize

HERE = Path(__file__).parent
PACE = Pace(rest=0.05, seconds=1.0, fewest=5, most=200)
RUNTIMES = {
    "qdq": "onnxruntime",
    "reference": "litert-reference",
    "default": "litert",
    "calib8": "calib8",
}
"""Runner → name among the bound calls."""
RESOLVERS = {
    "reference": litert.OpResolverType.BUILTIN_REF,
    "default": litert.OpResolverType.AUTO,
}


@dataclass(frozen=True)
class Row:
    """One network quantized for one target.

    Attributes:
        onnx_bytes, tflite_bytes: sizes of the files.
        judged: images.
        top1: share of right answers by runner, None without labels.
        agreement: share of images of the same class as the QDQ model by runner; for other networks None.
        sqnr_db: of the outputs against the QDQ model's by runner.
        milliseconds: of the median run by runner, one thread, of made-up inputs that are bound beforehand.
        differing: outputs of all images that calib8's engine, reading the file, gives otherwise than
            LiteRT's reference kernels.
        requantizations, tables, notes: what the export added and said.
    """

    network: str
    target: str
    onnx_bytes: int
    tflite_bytes: int
    judged: int
    top1: dict[str, float | None]
    agreement: dict[str, float | None]
    sqnr_db: dict[str, float]
    milliseconds: dict[str, float]
    differing: int
    requantizations: int
    tables: int
    notes: tuple[str, ...]


class InOnnxRuntime:
    """The QDQ model, one thread."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        return self.session.run(None, {self.session.get_inputs()[0].name: image})


class InLiteRt:
    """The TFLite model in one set of kernels, one thread; axes in the order of the ONNX model."""

    def __init__(self, model: bytes, kernels: str) -> None:
        self.runner = litert.Interpreter(
            model_content=model, experimental_op_resolver_type=RESOLVERS[kernels], num_threads=1
        )
        self.runner.allocate_tensors()

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        [entry] = self.runner.get_input_details()
        fed = image if image.ndim != 4 else np.ascontiguousarray(np.moveaxis(image, 1, 3))
        self.runner.set_tensor(entry["index"], fed)
        self.runner.invoke()
        found = [self.runner.get_tensor(detail["index"]) for detail in self.runner.get_output_details()]
        return [array if array.ndim != 4 else np.moveaxis(array, 3, 1) for array in found]


class InCalib8:
    """The TFLite model in calib8's engine, one thread; axes in the order of the ONNX model."""

    def __init__(self, model: bytes) -> None:
        self.session = InferenceSession(model, threads=1)

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        fed = image if image.ndim != 4 else np.ascontiguousarray(np.moveaxis(image, 1, 3))
        found = self.session.run(None, {self.session.get_inputs()[0].name: fed})
        return [array if array.ndim != 4 else np.moveaxis(array, 3, 1) for array in found]


def measure(name: str, recipe: dict[str, Any], data: Path, target: str, options: Any, folder: Path) -> Row:
    """Quantizes, exports and judges one network."""
    preprocess, source = load_preprocess(recipe["preprocess"]), data / recipe["file"]
    made = quantize(
        source, data / recipe["calibration"], target=target, preprocess=preprocess,
        effort=options.effort, samples=options.samples,
    )  # fmt: skip
    onnx_file, tflite_file = folder / f"{name}.onnx", folder / f"{name}.tflite"
    made.save(onnx_file)
    specs = graph_inputs(load_model(source))
    samples = list(open_dataset(data / recipe["evaluation"], specs, preprocess, samples=options.judged))
    shapes = {key: array.shape for key, array in samples[0].inputs.items()}
    exported = to_tflite(lower(made.model, profile="tflite", shapes=shapes), name=name)
    model = serialize(exported.graph)
    tflite_file.write_bytes(model)
    runners = {
        "qdq": InOnnxRuntime(onnx_file),
        **{kernels: InLiteRt(model, kernels) for kernels in RESOLVERS},
        "calib8": InCalib8(model),
    }
    labelled = recipe.get("labelled", True)
    outputs = {runner: judge(runners[runner], samples) for runner in runners}
    timed = {"qdq": onnx_file, **dict.fromkeys(("reference", "default", "calib8"), tflite_file)}
    return Row(
        name, target, onnx_file.stat().st_size, len(model), len(samples),
        {runner: top1(found, samples) if labelled else None for runner, found in outputs.items()},
        {runner: agreement(found, outputs["qdq"]) if labelled else None for runner, found in outputs.items()},
        {runner: sqnr_db(outputs["qdq"], found) for runner, found in outputs.items() if runner != "qdq"},
        {runner: milliseconds(file, RUNTIMES[runner], shapes) for runner, file in timed.items()},
        sum(map(differing, outputs["reference"], outputs["calib8"])),
        exported.requantizations, exported.tables, exported.notes,
    )  # fmt: skip


def differing(wanted: np.ndarray, found: np.ndarray) -> int:
    return int(np.count_nonzero(wanted != found))


def judge(runner: InOnnxRuntime | InLiteRt | InCalib8, samples: Sequence[Sample]) -> list[np.ndarray]:
    """All outputs of every sample as one row of numbers."""
    found = []
    for sample in samples:
        [image] = sample.inputs.values()
        found.append(np.concatenate([array.reshape(-1) for array in runner.run(image)]))
    return found


def milliseconds(file: Path, runtime: str, shapes: dict[str, tuple[int, ...]]) -> float:
    """Median of the same calls as those of ``calib8 benchmark``, one thread, inputs and outputs bound."""
    workload = open_workload(file, 1, shapes if file.suffix == ".onnx" else None)
    return 1000 * float(np.median(BoundCall(workload, runtime, 1).visit(PACE)))


def top1(found: Sequence[np.ndarray], samples: Sequence[Sample]) -> float:
    right = [int(np.argmax(row)) == sample.label for row, sample in zip(found, samples, strict=True)]
    return float(np.mean(right))


def agreement(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    same = [np.argmax(row) == np.argmax(other) for row, other in zip(found, wanted, strict=True)]
    return float(np.mean(same))


def sqnr_db(wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    signal = sum(float(np.sum(row.astype(np.float64) ** 2)) for row in wanted)
    noise = sum(
        float(np.sum((row - other).astype(np.float64) ** 2)) for row, other in zip(wanted, found, strict=True)
    )
    return float("inf") if noise == 0 else 10 * float(np.log10(signal / noise))


HEAD = (
    "| network | target | ONNX kB | TFLite kB | images | top-1 QDQ | reference | default | agrees reference "
    "| default | SQNR dB reference | default | ms QDQ | reference | default | calib8 | calib8 ≠ reference "
    "| requantized | tables |"
)


def table(rows: Sequence[Row]) -> str:
    lines = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    for row in rows:
        cells = [
            row.network, row.target,
            f"{row.onnx_bytes / 1000:.0f}", f"{row.tflite_bytes / 1000:.0f}", str(row.judged),
            *(share(row.top1[runner]) for runner in ("qdq", "reference", "default")),
            *(share(row.agreement[runner]) for runner in ("reference", "default")),
            *(f"{row.sqnr_db[runner]:.1f}" for runner in ("reference", "default")),
            *(f"{row.milliseconds[runner]:.2f}" for runner in ("qdq", "reference", "default", "calib8")),
            str(row.differing), str(row.requantizations), str(row.tables),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def main() -> None:
    recipes = json.loads((HERE / "models.json").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default=",".join(recipes))
    parser.add_argument("--targets", default="tflite,onnxruntime")
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--judged", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.models.split(","):
        for target in options.targets.split(","):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measure(name, recipes[name], options.data, target, options, Path(folder)))
            print(table(rows[-1:]).splitlines()[-1], *rows[-1].notes, sep="\n    ", flush=True)
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
