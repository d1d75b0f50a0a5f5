"""Cost of calibration: wall time and peak memory against plain FP32 inference over the same images.

    python benchmarks/calibration.py DATA [--counts 25,200] [--rounds 3] [--batch 1,4] [--json FILE]

Every measurement is a process of its own, so that peak memory is its own too. Images are decoded before and
read back one by one from a file; session building, decoding and range search are not in the times (the
search is listed apart). Rounds are interleaved; the table gives medians and the ratio of medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from accuracy import load_preprocess
from networks import zoo_topology

THREADS = 2


def decode(root: Path, count: int, recipe: str | dict, file: Path) -> tuple[int, ...]:
    """Writes ``count`` preprocessed images (calibration images, then evaluation images) as float32."""
    from calib8.data.samples import open_dataset
    from calib8.tensors import TensorSpec

    spec = TensorSpec("input", np.dtype(np.float32), (None, 3, 224, 224))
    preprocess = load_preprocess(recipe)
    folders = (root / "imagenet" / "calib", root / "imagenet" / "eval")
    samples = (sample for folder in folders for sample in open_dataset(folder, [spec], preprocess))
    with file.open("wb") as out:
        for sample in islice(samples, count):
            out.write(np.ascontiguousarray(sample.inputs["input"]).tobytes())
    return (3, 224, 224)


def images(file: Path, name: str, count: int, batch: int) -> Iterator[dict[str, np.ndarray]]:
    size = 3 * 224 * 224
    with file.open("rb") as source:
        for start in range(0, count, batch):
            rows = min(batch, count - start)
            values = np.frombuffer(source.read(4 * size * rows), np.float32)
            yield {name: values.reshape(rows, 3, 224, 224)}


def child(kind: str, model_path: str, file: str, count: int, batch: int) -> None:
    """One measurement; prints seconds and peak memory as JSON."""
    from calib8.model.load import load_model
    from calib8.model.runtime import open_session

    model = load_model(model_path)
    name = model.graph.inputs[0].name
    record = {"search_seconds": 0.0}
    if kind == "plain":
        session = open_session(model, threads=THREADS)
        session.run(next(images(Path(file), name, 1, 1)))
        start = time.perf_counter()
        for feeds in images(Path(file), name, count, batch):
            session.run(feeds)
        record["seconds"] = time.perf_counter() - start
    else:
        record |= _calibrate(model, Path(file), name, count, batch)
    record["peak_mb"] = peak_megabytes()
    print(json.dumps(record))


def peak_megabytes() -> float:
    """VmHWM of this process (ru_maxrss would start at the parent's peak)."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _calibrate(model: object, file: Path, name: str, count: int, batch: int) -> dict[str, float]:
    from calib8.calibration.choose import choose_table
    from calib8.calibration.collect import collect
    from calib8.passes.place import calibration_tensors
    from calib8.passes.prepare import prepare
    from calib8.scheme import ACTIVATION_TYPES

    prepared = prepare(model, next(images(file, name, 1, 1)))
    tensors = calibration_tensors(prepared.model)
    marks = []
    found = collect(
        prepared.model,
        tensors,
        images(file, name, count, batch),
        threads=THREADS,
        on_batch=lambda _: marks.append(time.perf_counter()),
    )
    end = time.perf_counter()
    # The first mark ends the first batch: session building and warm-up lie before it.
    seconds = (end - marks[0]) * count / (count - batch)
    start = time.perf_counter()
    choose_table(found, ACTIVATION_TYPES["uint8"], "mse")
    return {"seconds": seconds, "search_seconds": time.perf_counter() - start, "tensors": len(tensors)}


def measure(kind: str, model: Path, file: Path, count: int, batch: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", kind, str(model), str(file), str(count), str(batch)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    if result.returncode:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, model, file, count, batch = sys.argv[2:]
        return child(kind, model, file, int(count), int(batch))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--counts", default="25,200")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", default="1,4")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    counts = [int(text) for text in options.counts.split(",")]
    kinds = [("plain", 1)] + [("calib8", int(text)) for text in options.batch.split(",")]
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = json.loads((Path(__file__).parent / "models.json").read_text())["efficientnet_lite0"]
        file = folder / "images.f32"
        decode(options.data, max(counts), entry["preprocess"], file)
        networks = {
            "efficientnet_lite0": options.data / entry["file"],
            "resnet50": zoo_topology("resnet50", folder),
        }
        for _ in range(options.rounds):
            for network, model in networks.items():
                for count in counts:
                    for kind, batch in kinds:
                        record = measure(kind, model, file, count, batch)
                        records.append(
                            {"network": network, "kind": kind, "batch": batch, "images": count, **record}
                        )
    show(records)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


def show(records: list[dict]) -> None:
    print("| network | images | what | batch | ms/image | ratio | peak MB | search s |")
    print("|---|---|---|---|---|---|---|---|")
    groups: dict[tuple, list[dict]] = {}
    for record in records:
        key = (record["network"], record["images"], record["kind"], record["batch"])
        groups.setdefault(key, []).append(record)
    for (network, count, kind, batch), rows in groups.items():
        seconds = statistics.median(row["seconds"] for row in rows)
        plain = statistics.median(row["seconds"] for row in groups[network, count, "plain", 1])
        peak = statistics.median(row["peak_mb"] for row in rows)
        search = statistics.median(row["search_seconds"] for row in rows)
        print(
            f"| {network} | {count} | {kind} | {batch} | {1000 * seconds / count:.2f} |"
            f" {seconds / plain:.2f} | {peak:.0f} | {search:.2f} |"
        )


if __name__ == "__main__":
    main()
