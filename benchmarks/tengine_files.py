"""Tmfiles of calib8 and of Tengine's own tools in Tengine's runtime: outputs that differ in any bit.

    python benchmarks/tengine_files.py DATA TENGINE [--networks resnet20,…] [--algorithms 0,1,2] [--images 8]

A row per network and float file, by Tengine's ``convert_tool`` or by ``export``. FP32: outputs of the file
beside those of the file that calib8 makes of what it reads, and beside ``export``'s. INT8: the tool's file of
it beside that of ``tengine-quant`` with the same table. Outputs are of random inputs; ``–`` means that the
runtime does not run the model.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from accuracy import load_preprocess
from calib8.data.opening import open_dataset
from calib8.delivery.exporting import export
from calib8.delivery.tmfile import tmfile_by_table
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.write import write_tmfile
from tengine import HERE, NETWORKS, TITLES, pictures, run_apart
from tengine_fields import METHODS, differing
from tengine_runtime import converted, quantized

INPUTS: Final = 3

Array = npt.NDArray[Any]


def rows(name: str, recipe: dict[str, Any], options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Lines of a network."""
    source, preprocess = options.data / recipe["file"], load_preprocess(recipe["preprocess"])
    specs = graph_inputs(load_model(source))
    data = options.data / recipe["calibration"]
    samples = open_dataset(data, specs, preprocess, samples=INPUTS)
    images = np.stack([next(iter(sample.inputs.values())) for sample in samples])
    exported = folder / f"{name}.tmfile"
    export(source, exported, "tmfile", shapes={specs[0].name: images[0].shape})
    theirs = converted(options.tengine, source, folder / f"{name}.converted.tmfile")
    calibration, flags = pictures(data, specs, preprocess, options.images, folder / f"{name}.images")
    session = open_session(load_model(source))
    exact = np.stack([session.run({specs[0].name: one})[0].reshape(-1) for one in images])
    there = run_apart(options.tengine, exported, images, "float32")
    for made, path in (("convert_tool", theirs), ("calib8", exported)):
        if path is None:
            yield f"| {name} | {made}: crashes |" + " |" * (4 + len(options.algorithms))
            continue
        graph = read_tmfile(path)
        again = folder / f"{path.stem}.again.tmfile"
        write_tmfile(graph, again)
        fields = len(differing(read_tmfile(again), graph))
        found = _run(options.tengine, path, images, "float32")
        cells = [
            name, made, str(fields), _apart(found, _run(options.tengine, again, images, "float32")),
            _apart(found, there), "–" if found is None else f"{np.abs(found - exact).max():.1e}",
        ]  # fmt: skip
        codes = np.random.default_rng(0).integers(-127, 128, images.shape).astype(np.int8)
        for algorithm in options.algorithms:
            place = folder / f"{path.stem}.{algorithm}"
            tools = quantized(options.tengine, path, calibration, place, [*flags, "-a", algorithm])
            cells.append(_int8(options.tengine, path, tools, place / f"{METHODS[algorithm][1]}.scale", codes))
        yield f"| {' | '.join(cells)} |"


def _int8(build: Path, path: Path, tools: Path, table: Path, codes: Array) -> str:
    """The tool's file beside ours of the same table."""
    if any(float(line.split()[1]) == 0 for line in table.read_text().splitlines()):
        return "the table has the scale 0"
    own = table.parent / "own.tmfile"
    write_tmfile(tmfile_by_table(path, table).coded.graph, own)
    return _apart(_run(build, tools, codes, "int8"), _run(build, own, codes, "int8"))


def _run(build: Path, path: Path, inputs: Array, dtype: str) -> Array | None:
    """Outputs in Tengine; None where it does not run the model."""
    try:
        return run_apart(build, path, inputs, dtype)
    except (Exception, SystemExit):  # the runtime ends its process, or this one's part of it
        return None


def _apart(one: Array | None, other: Array | None) -> str:
    """How many elements differ in any bit, of how many."""
    if one is None or other is None:
        return "–"
    kind = {1: np.uint8, 4: np.uint32}[one.dtype.itemsize]
    return f"{int((one.view(kind) != other.view(kind)).sum())} of {one.size:,}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of models and images")
    parser.add_argument("tengine", type=Path, help="folder in which Tengine was built")
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--algorithms", default="0,1,2")
    parser.add_argument("--images", type=int, default=8, help="calibration images")
    options = parser.parse_args()
    options.data, options.tengine = options.data.resolve(), options.tengine.resolve()
    options.algorithms = [int(number) for number in options.algorithms.split(",")]
    recipes = json.loads((HERE / "models.json").read_text())
    int8 = [f"INT8 {TITLES[algorithm]}" for algorithm in options.algorithms]
    heads = ["network", "float file by", "fields after writing", "outputs after writing", "beside export's",
             "from ONNX Runtime", *int8]  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks.split(","):
            for line in rows(name, recipes[name], options, Path(folder)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
