"""Networks with normalizations and attention: int8 in calib8 beside int8 and float in other runtimes.

    python benchmarks/attention.py FOLDER [--networks convnext_atto,…] [--threads 1,2] [--rounds 20]
        [--json FILE]

FOLDER keeps the files: networks of ``same_bits_networks.py`` with random weights, and their int8 models,
``--effort fast``, each for the runtime that runs it: calib8's target has integers everywhere, ONNX Runtime's
and OpenVINO's leave in float what those compute in float. What lies there is not made again. All runtimes of
a network run in turns with the same number of threads; each has a process of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from calib8 import quantize
from calib8.analysis.benchmark import Timing, measure
from calib8.analysis.benchmark_runtimes import open_subject
from calib8.analysis.workloads import open_workload
from calib8.cli.speed import timing_document
from results import machine
from same_bits_networks import export, smooth_images

SIZES: Final[Mapping[str, int]] = {
    "convnext_atto": 224,
    "convnext_tiny": 224,
    "swin_tiny_patch4_window7_224": 224,
    "deit_small_patch16_224": 224,
    "mobilevit_xxs": 256,
    "mobilevit_s": 256,
    "efficientformer_l1": 224,
    "ultralytics:yolo11n": 640,
}
"""Network → rows and columns of its images."""

COLUMNS: Final = (
    ("calib8", "calib8"),
    ("onnxruntime", "onnxruntime"),
    ("openvino", "openvino"),
    ("float", "onnxruntime"),
    ("float", "openvino"),
)
"""Columns of the table: file, as which target it was made or ``float``, and the runtime that runs it."""


def files(name: str, folder: Path) -> dict[str, Path]:
    """The float model of a network and its int8 models by target; made where they are missing."""
    stem = name.replace(":", "_")
    paths = {"float": folder / f"{stem}.onnx"}
    if not paths["float"].is_file():
        export(name, "torchscript", SIZES[name], paths["float"])
    for target in ("calib8", "onnxruntime", "openvino"):
        paths[target] = folder / f"{stem}.{target}.onnx"
        if not paths[target].is_file():
            images = [{"image": image[None]} for image in smooth_images(4, SIZES[name], 3)]
            quantize(str(paths["float"]), images, target=target, effort="fast").save(paths[target])
    return paths


def timed(paths: Mapping[str, Path], threads: int, rounds: int) -> dict[str, Timing]:
    """Timings by column, ``FILE in RUNTIME``."""
    opened = {
        f"{form} in {runtime}": open_subject(open_workload(paths[form]), runtime, threads)
        for form, runtime in COLUMNS
    }
    return dict(zip(opened, measure(list(opened.values()), rounds), strict=True))


def row(name: str, threads: int, found: Mapping[str, Timing]) -> str:
    """A line of the table: milliseconds, fastest run and median, and how many times as fast as others."""
    times = [f"{found[key].min_ms:.2f} ({found[key].median_ms:.2f})" for key in found]
    own, *others = found.values()
    int8 = min(one.median_ms for one in others[:2]) / own.median_ms
    plain = min(one.median_ms for one in others[2:]) / own.median_ms
    short = name.removeprefix("ultralytics:")
    return f"| {short} | {threads} | {' | '.join(times)} | {int8:.2f} | {plain:.2f} |"


def table(lines: Sequence[str]) -> list[str]:
    """With titles."""
    titles = " | ".join(f"{form} in {runtime}" for form, runtime in COLUMNS)
    return [f"| network | threads | {titles} | int8 | float |", "|---" * 9 + "|", *lines]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(SIZES))
    parser.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if unknown := set(chosen.networks) - SIZES.keys():
        parser.error(f"--networks: {', '.join(unknown)} is none of {', '.join(SIZES)}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"machine": machine(chosen.threads), "results": []}
    made = {name: files(name, chosen.folder) for name in chosen.networks}
    lines = []
    for name, paths in made.items():
        for threads in chosen.threads:
            found = timed(paths, threads, chosen.rounds)
            lines.append(row(name, threads, found))
            print(lines[-1], flush=True)
            document["results"] += [
                {**timing_document(timing), "network": name, "file": key.split(" in ")[0]}
                for key, timing in found.items()
            ]
            if chosen.json:
                chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
