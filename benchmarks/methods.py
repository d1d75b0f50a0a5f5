"""INT8 accuracy by range method and network, and by the number of calibration samples.

    python benchmarks/methods.py DATA [--models resnet20,…] [--methods mse,…] [--images 5,10,25,50]
                                 [--most 100] [--judged N] [--threads 2] [--json FILE] [--page FILE]

DATA holds the models and images that ``models.json`` names. The methods of a network share one pass over at
most ``--most`` calibration samples; those that count in bins of their own read them a second time, ``auto``
starts anew. All are judged on the evaluation samples, which nothing else has seen, in ONNX Runtime;
``--judged`` takes fewer of them. ``--images`` repeats some methods with other numbers of calibration samples,
for the networks that the page shows so. ``--page`` writes the tables as a page; with ``--from FILE`` in place
of DATA it is written from earlier ``--json`` files, joined, and nothing is measured. ``engine.py --from``
takes these files too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import calib8
from accuracy import load_preprocess
from accuracy_tables import FLOAT, SWEEP, SWEPT, document_page, method_rows
from calib8.autorange.choose import AutoReport
from calib8.autorange.plain import LOWER_PERCENT
from calib8.calibration.collect_layouts import count_again
from calib8.calibration.decide import AUTO, Wish, decide
from calib8.calibration.moving import EMA
from calib8.calibration.ranges import METHODS
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS
from calib8.judge import evaluate
from calib8.progress import silent
from calib8.qparams import UINT8
from calib8.table import CalibrationTable
from engine import counts, joined, names, write
from results import machine

BATCH = 25
LOWER = f"percentile {LOWER_PERCENT}"
ALL = (*METHODS, LOWER, *TWO_PASS_METHODS, EMA, AUTO)


@dataclass(frozen=True)
class Setting:
    """What is the same for all measurements of a run.

    Attributes:
        judged: evaluation samples, None for all.
        threads: for everything.
    """

    judged: int | None
    threads: int


@dataclass(frozen=True)
class Network:
    """An entry of ``models.json``.

    Attributes:
        name: its key.
        model, data, evaluation: the FP32 file, and what it is calibrated and judged with.
        preprocess: how images become inputs.
        float_parts: (first, last + 1) of stretches of its prepared graph to try in float.
    """

    name: str
    model: Path
    data: Path
    evaluation: Path
    preprocess: calib8.Preprocess
    float_parts: tuple[tuple[int, int], ...]


@contextmanager
def opened(name: str, entry: Mapping[str, Any], root: Path) -> Iterator[tuple[Network, Path]]:
    """The network and a folder for its INT8 models."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data, evaluation = root / entry["calibration"], root / entry["evaluation"]
        if not entry.get("labelled", True):
            data, evaluation = without_labels(data, folder / "a"), without_labels(evaluation, folder / "b")
        preprocess = load_preprocess(entry["preprocess"])
        stretches = tuple((first, last) for first, last in entry.get("float_parts", ()))
        yield Network(name, root / entry["file"], data, evaluation, preprocess, stretches), folder


def tables(
    network: Network, samples: int, methods: Sequence[str], threads: int
) -> tuple[dict[str, CalibrationTable], AutoReport | None]:
    """Method → table, that of ``auto`` last, and what ``auto`` saw."""
    calibrate = partial(
        calib8.calibrate, network.model, network.data, preprocess=network.preprocess, samples=samples,
        threads=threads,
    )  # fmt: skip
    first = calibrate(method=EMA)
    found = {method: one_table(first, method, threads) for method in methods if method != AUTO}
    if AUTO not in methods:
        return found, None
    best = calibrate(method=AUTO)
    return found | {AUTO: best.table}, best.auto


def one_table(first: calib8.Calibration, method: str, threads: int) -> CalibrationTable:
    """The table of a method after the first pass, which was that of ``ema``."""
    if method == EMA:
        return first.table
    counts = None
    if method in TWO_PASS_METHODS:
        assert first.dataset is not None
        counts = count_again(
            method, first.prepared.model, first.statistics, first.dataset, batch=None, threads=threads,
            progress=silent,
        )  # fmt: skip
    wish = Wish("percentile", LOWER_PERCENT) if method == LOWER else Wish(method)
    return decide(first.statistics, None, UINT8, wish, {}, counts=counts, threads=threads)


def measure(
    network: Network, folder: Path, samples: int, methods: Sequence[str], setting: Setting
) -> list[dict[str, Any]]:
    """A record of FP32 and of each method."""
    found, auto = tables(network, samples, methods, setting.threads)
    files = {FLOAT: network.model}
    for method, table in found.items():
        files[method] = int8_model(network, table, folder / f"{len(files)}.onnx")
    results = evaluate(
        list(files.values()), network.evaluation, preprocess=network.preprocess, samples=setting.judged,
        batch=BATCH, threads=setting.threads,
    )  # fmt: skip
    return [
        {"network": network.name, "samples": samples, "method": method, "judged": result.images,
         "top1": result.top1, "agreement": result.agreement, "sqnr_db": result.sqnr_db,
         **(auto_figures(auto) if auto and method == AUTO else {})}
        for method, result in zip(files, results, strict=True)
    ]  # fmt: skip


def int8_model(network: Network, table: CalibrationTable, file: Path, keep_float: Sequence[str] = ()) -> Path:
    made = calib8.quantize(
        network.model, network.data, table=table, preprocess=network.preprocess, keep_float=keep_float
    )
    made.save(file)
    return file


def partly_float(network: Network, folder: Path, samples: int, setting: Setting) -> list[dict[str, Any]]:
    """A record for each stretch of the graph that is tried in float, with the ranges of ``mse``."""
    if not network.float_parts:
        return []
    found = calib8.calibrate(
        network.model, network.data, preprocess=network.preprocess, samples=samples, method="mse",
        threads=setting.threads,
    )  # fmt: skip
    nodes = [node.name or "" for node in found.prepared.model.graph]
    files = [
        int8_model(network, found.table, folder / f"part{first}-{last}.onnx", nodes[first:last])
        for first, last in network.float_parts
    ]
    results = evaluate(
        [network.model, *files], network.evaluation, preprocess=network.preprocess, samples=setting.judged,
        batch=BATCH, threads=setting.threads,
    )  # fmt: skip
    return [
        {"network": network.name, "first": first, "last": last, "nodes": len(nodes), "judged": result.images,
         "sqnr_db": result.sqnr_db}
        for (first, last), result in zip(network.float_parts, results[1:], strict=True)
    ]  # fmt: skip


def auto_figures(report: AutoReport) -> dict[str, Any]:
    return {
        "chosen": report.chosen,
        "wins": dict(report.wins),
        "checks": {check.name: check.sqnr_db for check in report.checks},
    }


def without_labels(images: Path, folder: Path) -> Path:
    """The same images in a folder without a list of labels, which are those of another task."""
    folder.mkdir()
    for image in images.glob("*.jpg"):
        (folder / image.name).symlink_to(image.resolve())
    return folder


def measured(chosen: argparse.Namespace) -> dict[str, Any]:
    """The document; it is written as it grows."""
    entries = json.loads((Path(__file__).parent / "models.json").read_text())
    networks = chosen.models or list(entries)
    for given, known in ((networks, list(entries)), (chosen.methods, ALL)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise SystemExit(f"unknown {unknown[0]}: there are {', '.join(known)}")
    found: dict[str, list[dict[str, Any]]] = {"methods": [], "images": [], "parts": []}
    document = {"machine": machine([1]), "results": [], "accuracy": found}
    setting = Setting(chosen.judged, chosen.threads)
    for name in networks:
        with opened(name, entries[name], chosen.data) as (network, folder):
            found["methods"] += measure(network, folder, chosen.most, chosen.methods, setting)
            found["parts"] += partly_float(network, folder, chosen.most, setting)
            print(
                "\n".join(method_rows([row for row in found["methods"] if row["network"] == name])),
                flush=True,
            )
            write(document, chosen.json)
            for count in chosen.images if name in SWEPT else ():
                found["images"] += measure(network, folder, count, SWEEP, setting)
                write(document, chosen.json)
    return document


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--from", dest="sources", type=Path, action="append", help="an earlier --json")
    parser.add_argument(
        "--models", type=names, default=[], help="networks, with commas between them (default: all)"
    )
    parser.add_argument("--methods", type=names, default=list(ALL), help="with commas (default: all)")
    parser.add_argument("--most", type=int, default=100, help="calibration samples")
    parser.add_argument("--judged", type=int, help="evaluation samples (default: all)")
    parser.add_argument("--images", type=counts, default=[], help="other numbers of calibration samples")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    chosen = parser.parse_args(texts)
    if (chosen.data is None) == (chosen.sources is None):
        parser.error("give either DATA or --from FILE")
    return chosen


def main() -> None:
    chosen = arguments()
    document = joined(chosen.sources) if chosen.sources else measured(chosen)
    text = document_page(document["accuracy"])
    if chosen.page:
        chosen.page.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
