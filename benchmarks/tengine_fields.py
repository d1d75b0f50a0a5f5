"""Int8 tmfiles of calib8 beside those of Tengine's own tool, field by field, for networks and random images.

    python benchmarks/tengine_fields.py DATA TENGINE [--networks resnet20,…] [--algorithms 0,1,2] [--images 8]

Each network becomes a float tmfile by ``export``; the tool and ``tengine-quant`` quantize it on the same
images. A row per algorithm: scales of the two tables that differ, and by how much at most; scales and codes
that differ where both take the tool's table; and outputs in Tengine's runtime that differ then.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from accuracy import load_preprocess
from calib8.data.opening import open_dataset
from calib8.data.reading import Reading
from calib8.delivery.exporting import export
from calib8.delivery.tmfile import Wanted, quantized_tmfile, tmfile_by_table
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.progress import silent
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tengine import HERE, NETWORKS, TITLES, pictures, run_apart
from tengine_runtime import quantized

METHODS: Final = {
    0: ("minmax", "table_minmax"),
    1: ("entropy-tengine", "table_kl"),
    2: ("aciq-tengine", "table_aciq"),
}


def differing(one: Graph, other: Graph) -> list[str]:
    """Names of the tensors whose types, scales or elements differ, but for what the tool leaves undefined."""
    found = []
    for left, right in zip(one.tensors, other.tensors, strict=True):
        if (left.name, left.dtype, left.role) != (right.name, right.dtype, right.role) or not _same(
            left, right
        ):
            found.append(left.name)
    return found


def _same(left: Tensor, right: Tensor) -> bool:
    if left.data is not None and not np.array_equal(left.data, right.data):
        return False
    if left.quantization is None or right.quantization is None:
        return left.quantization is right.quantization
    return np.array_equal(left.quantization.scales, right.quantization.scales)


def rows(name: str, recipe: dict[str, Any], options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """A line per algorithm."""
    source, preprocess = options.data / recipe["file"], load_preprocess(recipe["preprocess"])
    specs = graph_inputs(load_model(source))
    data = options.data / recipe["calibration"]
    sample = next(iter(next(iter(open_dataset(data, specs, preprocess, samples=1))).inputs.values()))
    fp32 = folder / f"{name}.tmfile"
    export(source, fp32, "tmfile", shapes={specs[0].name: sample.shape})
    images, flags = pictures(data, specs, preprocess, options.images, folder / f"{name}.images")
    for algorithm in options.algorithms:
        method, table = METHODS[algorithm]
        place = folder / f"{name}.{algorithm}"
        theirs = read_tmfile(quantized(options.tengine, fp32, images, place, [*flags, "-a", algorithm]))
        seen = quantized_tmfile(
            fp32, Reading(str(data), preprocess, samples=options.images), Wanted(method), silent
        )
        text = (place / f"{table}.scale").read_text()
        tools = {line.split()[0]: float(line.split()[1]) for line in text.splitlines()}
        off = {
            tensor: abs(float(seen.scales[tensor]) / scale - 1) for tensor, scale in tools.items() if scale
        }
        lost = [tensor for tensor, scale in tools.items() if not scale]
        apart = [tensor for tensor, by in off.items() if by > 0]
        worst = max(off.values())
        cells = [name, TITLES[algorithm], str(len(tools)), str(len(apart)), f"{worst:.1e}", str(len(lost))]
        if not lost:
            own = tmfile_by_table(fp32, place / f"{table}.scale").coded.graph
            write_tmfile(own, place / "own.tmfile")
            codes = np.random.default_rng(0).integers(-127, 128, (4, *sample.shape)).astype(np.int8)
            pair = [
                run_apart(options.tengine, path, codes, "int8")
                for path in (place / "own.tmfile", place / "int8.tmfile")
            ]
            cells += [", ".join(differing(own, theirs)) or "0", str(int((pair[0] != pair[1]).sum()))]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of models and images")
    parser.add_argument("tengine", type=Path, help="folder in which Tengine was built")
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--algorithms", default="0,1,2")
    parser.add_argument("--images", type=int, default=8)
    options = parser.parse_args()
    options.data, options.tengine = options.data.resolve(), options.tengine.resolve()
    options.algorithms = [int(number) for number in options.algorithms.split(",")]
    recipes = json.loads((HERE / "models.json").read_text())
    heads = "network", "algorithm", "scales", "differ", "by at most", "lost", "tensors that differ", "outputs"
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks.split(","):
            for line in rows(name, recipes[name], options, Path(folder)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
