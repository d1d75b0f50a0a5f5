"""Int8 tmfiles of calib8 and of Tengine's own tool, judged in Tengine's runtime on the same images.

    python benchmarks/tengine.py DATA TENGINE [--networks mobilenet_v2,…] [--algorithms 0,1,2]
        [--effort balanced] [--samples 100] [--judged 400] [--views 1] [--proven N] [--keep FOLDER]
        [--json FILE]

DATA holds the models and images that ``models.json`` names, TENGINE is the folder in which Tengine was built
(``tengine_runtime.py``). Both tools calibrate on the same pixels: each image as calib8 resizes and crops it.
A row per network and model: top-1 of FP32 and of INT8, how often they agree, SQNR of the outputs.

Tengine's int8 kernels for x86 are plain loops. With ``--proven`` they run the first N images alone, calib8's
engine runs all of them, and the last column counts the codes of those N outputs that differ. With ``--views``
each image is judged that often: as it is, mirrored, and both again shifted by up to 8 pixels, so that chance
decides less where there are few images.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from accuracy import load_preprocess
from calib8 import InferenceSession
from calib8.analysis.model_bytes import model_bytes_on_disk
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.delivery.exporting import export
from calib8.errors import Calib8Error
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.pipeline import quantize
from calib8.tmfile.read import read_tmfile
from tengine_runtime import outputs, quantized

HERE: Final = Path(__file__).parent
TITLES: Final = {0: "min-max", 1: "KL", 2: "ACIQ", 3: "DFQ", 4: "EQ"}
SHIFTS: Final = ((0, 0), (8, 8), (-8, -8), (8, -8), (-8, 8))
"""Pixels down and to the right of two views each."""

NETWORKS: Final = "mobilenet_v2,squeezenet_v1.1,resnet20"


@dataclass(frozen=True)
class Row:
    """One int8 model.

    Attributes:
        network: of ``models.json``.
        made: by ``calib8``, or by Tengine's tool with an algorithm.
        top1_fp32, top1: share of right answers, None without labels; of equal codes the first one counts.
        shared: the same for INT8, where of equal codes each counts in part.
        ties: images whose largest code is that of several classes.
        agreement: share of images of the same class as FP32.
        sqnr_db: of all outputs against those of FP32.
        bytes: of the file.
        judged: images, each view counted.
        proven: of them, those that Tengine's runtime ran.
        differing: codes of their outputs that calib8's engine gives otherwise; None where it refuses the
            model, as one with scales of 0: then these images alone are judged.
    """

    network: str
    made: str
    top1_fp32: float | None
    top1: float | None
    shared: float | None
    ties: int
    agreement: float
    sqnr_db: float
    bytes: int
    judged: int
    proven: int
    differing: int | None


@dataclass(frozen=True)
class Judging:
    """What models are judged on: inputs, answers of FP32, labels; and how many of them Tengine runs."""

    inputs: np.ndarray[Any, Any]
    floats: np.ndarray[Any, Any]
    labels: list[int | None]
    proven: int


def rows(name: str, recipe: dict[str, Any], options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Every model of a network, judged."""
    source, preprocess = options.data / recipe["file"], load_preprocess(recipe["preprocess"])
    specs = graph_inputs(load_model(source))
    wanted = options.data / recipe["evaluation"]
    samples = list(open_dataset(wanted, specs, preprocess, samples=options.judged))
    shape = next(iter(samples[0].inputs.values())).shape
    fp32 = folder / f"{name}.tmfile"
    export(source, fp32, "tmfile", shapes={specs[0].name: shape})
    inputs = views(np.stack([next(iter(sample.inputs.values())) for sample in samples]), options.views)
    proven = len(inputs) if options.proven is None else min(options.proven, len(inputs))
    floats = run_apart(options.tengine, fp32, inputs, "float32")
    judging = Judging(inputs, floats, [sample.label for sample in samples] * options.views, proven)
    data = options.data / recipe["calibration"]
    made = quantize(source, data, target="tengine", preprocess=preprocess, effort=options.effort,
                    samples=options.samples)  # fmt: skip
    own = folder / f"{name}.calib8.tmfile"
    made.save(own, shapes={specs[0].name: shape})
    yield judged(name, "calib8", own, judging, options.tengine)
    images, flags = pictures(data, specs, preprocess, options.samples, folder / f"{name}.images")
    for algorithm in options.algorithms:
        place = folder / f"{name}.{algorithm}"
        found = quantized(options.tengine, fp32, images, place, [*flags, "-a", algorithm])
        yield judged(name, TITLES[algorithm], found, judging, options.tengine)


def views(images: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The images, then all of them mirrored, then both shifted, corner by corner; float [N, …, H, W]."""
    found, reach = [], max(map(max, SHIFTS))
    edges = [(0, 0)] * (images.ndim - 2) + [(reach, reach)] * 2
    wide = np.pad(images, edges, mode="edge")
    for number in range(count):
        down, right = (reach + step for step in SHIFTS[number // 2])
        view = wide[..., down : down + images.shape[-2], right : right + images.shape[-1]]
        found.append(view[..., ::-1] if number % 2 else view)
    return np.concatenate(found)


def pictures(
    data: Path, specs: Sequence[Any], preprocess: Preprocess, samples: int, folder: Path
) -> tuple[Path, list[object]]:
    """The calibration images as the tool reads them, resized and cropped, and its options for them."""
    folder.mkdir(parents=True)
    plain = replace(preprocess, mean=(0.0,), scale=(1.0,), color="rgb")
    for number, sample in enumerate(open_dataset(data, specs, plain, samples=samples)):
        pixels = next(iter(sample.inputs.values()))[0].transpose(1, 2, 0)
        Image.fromarray(np.rint(pixels).astype(np.uint8)).save(folder / f"{number:05}.png")
    size = f"3,{pixels.shape[0]},{pixels.shape[1]}"
    mean, scale = (",".join(map(repr, (*values, *values, *values)[:3])) for values in _both(preprocess))
    return folder, ["-g", size, "-w", mean, "-s", scale, "-b", int(preprocess.color == "rgb"), "-t", 1]


def _both(preprocess: Preprocess) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return preprocess.mean, preprocess.scale


def judged(name: str, made: str, model: Path, judging: Judging, build: Path) -> Row:
    """Runs an int8 model on all images."""
    graph = read_tmfile(model)
    scales = []
    for place in (graph.input_tensors()[0], graph.output_tensors()[0]):
        quantization = graph.tensors[place].quantization
        assert quantization is not None
        scales.append(float(quantization.scales[0]))
    fed = np.clip(np.rint(judging.inputs / np.float32(scales[0])), -127, 127).astype(np.int8)
    there = run_apart(build, model, fed[: judging.proven], "int8")
    here = _in_engine(model, fed)
    differing = None if here is None else int((here[: judging.proven] != there).sum())
    codes = there if here is None else np.concatenate([there, here[judging.proven :]])
    found, floats = codes.astype(np.float64) * scales[1], judging.floats[: len(codes)]
    same = found.argmax(1) == floats.argmax(1)
    tops = found == found.max(1, keepdims=True)
    noise = ((found - floats) ** 2).sum()
    return Row(
        name, made, _top1(floats, judging.labels), _top1(found, judging.labels),
        _shared(tops, judging.labels), int((tops.sum(1) > 1).sum()), float(same.mean()),
        float(10 * np.log10((floats**2).sum() / noise)), model_bytes_on_disk(model), len(found),
        judging.proven, differing,
    )  # fmt: skip


def _in_engine(model: Path, fed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Codes of the first output, flat; None for a model that calib8 refuses."""
    try:
        session = InferenceSession(model, threads=1)
    except Calib8Error:
        return None
    port = session.inputs[0].name
    return np.stack([session.run(None, {port: one})[0].reshape(-1) for one in fed])


def _top1(scores: np.ndarray[Any, Any], labels: Sequence[int | None]) -> float | None:
    known = [(place, label) for place, label in enumerate(labels[: len(scores)]) if label is not None]
    if not known:
        return None
    return float(np.mean([scores[place].argmax() == label for place, label in known]))


def _shared(tops: np.ndarray[Any, Any], labels: Sequence[int | None]) -> float | None:
    """Share of right answers, an answer of k equal codes counted by 1/k."""
    known = [(place, label) for place, label in enumerate(labels[: len(tops)]) if label is not None]
    return float(np.mean([tops[at, label] / tops[at].sum() for at, label in known])) if known else None


def run_apart(build: Path, model: Path, inputs: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """First output of every input, flat, from a process of its own."""
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(_run, build, model, inputs, dtype).result()


def _run(build: Path, model: Path, inputs: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    return np.stack([found[0].reshape(-1) for found in outputs(build, model, inputs, dtype)])


def table(found: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        "| network | INT8 by | FP32 top-1 | INT8 top-1 | ties shared | ties | agreement | SQNR dB | images | "
        "proven | differing |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = [
            row.network, row.made, _percent(row.top1_fp32), _percent(row.top1), _percent(row.shared),
            str(row.ties), _percent(row.agreement),
            f"{row.sqnr_db:.2f}", str(row.judged), str(row.proven),
            "–" if row.differing is None else str(row.differing),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of models and images")
    parser.add_argument("tengine", type=Path, help="folder in which Tengine was built")
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--algorithms", default="0,1,2", help="of the tool")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--samples", type=int, default=100, help="calibration images")
    parser.add_argument("--judged", type=int, default=400, help="images judged")
    parser.add_argument(
        "--views", type=int, default=1, choices=range(1, 2 * len(SHIFTS) + 1), help="of each image"
    )
    parser.add_argument("--proven", type=int, help="of them, images that Tengine's runtime runs; all")
    parser.add_argument("--keep", type=Path, help="folder for the models; a new one that is deleted")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.data, options.tengine = options.data.resolve(), options.tengine.resolve()
    options.algorithms = [int(number) for number in options.algorithms.split(",") if number]
    recipes = json.loads((HERE / "models.json").read_text())
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.keep is None else options.keep.resolve()
        for name in options.networks.split(","):
            for row in rows(name, recipes[name], options, folder):
                found.append(row)
                print(table([row]).splitlines()[-1], flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    print(table(found))


if __name__ == "__main__":
    main()
