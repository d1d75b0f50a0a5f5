"""INT8 accuracy by range method and network, and by the number of calibration images.

    python benchmarks/methods.py DATA [--models resnet20,…] [--images 5,10,25,50,100] [--json FILE]

DATA holds the models and images that ``models.json`` names. All tables of a network are made from the same
statistics of at most ``--most`` calibration samples and judged on the evaluation samples, which nothing else
has seen, in ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accuracy import load_preprocess
from calib8.autorange.choose import choose_automatically
from calib8.autorange.plain import plain_tables
from calib8.calibration.decide import AUTO
from calib8.judge import evaluate
from calib8.pipeline import calibrate, quantize
from calib8.qparams import UINT8
from calib8.scheme import TARGETS

MOST = 100
BATCH = 25
SWEEP = (AUTO, "mse", "entropy")


def measure(
    name: str, entry: dict[str, Any], root: Path, samples: int, methods: Sequence[str], threads: int
) -> Iterator[dict]:
    """A record per method of one network; no methods: all of them."""
    with tempfile.TemporaryDirectory() as folder:
        yield from measured(name, entry, root, samples, methods, threads, Path(folder))


def measured(
    name: str,
    entry: dict[str, Any],
    root: Path,
    samples: int,
    methods: Sequence[str],
    threads: int,
    folder: Path,
) -> Iterator[dict]:
    model, data, evaluation = root / entry["file"], root / entry["calibration"], root / entry["evaluation"]
    if not entry.get("labelled", True):
        data, evaluation = without_labels(data, folder / "a"), without_labels(evaluation, folder / "b")
    preprocess = load_preprocess(entry["preprocess"])
    found = calibrate(model, data, preprocess=preprocess, samples=samples, method="minmax", threads=threads)
    assert found.dataset is not None
    start = time.perf_counter()
    tables = plain_tables(found.statistics, UINT8, threads=threads)
    scheme = TARGETS["onnxruntime"]
    tables[AUTO], report = choose_automatically(
        found.prepared.model, tables, found.dataset, scheme, threads=threads
    )
    seconds = time.perf_counter() - start
    if methods:
        tables = {method: tables[method] for method in methods}
    files = {"float32": model}
    for method, table in tables.items():
        files[method] = folder / f"{method}.onnx"
        quantize(model, data, table=table, preprocess=preprocess).save(files[method])
    results = evaluate(
        list(files.values()),
        evaluation,
        preprocess=preprocess,
        samples=entry.get("samples"),
        batch=BATCH,
        threads=threads,
    )
    for method, result in zip(files, results, strict=True):
        yield {
            "network": name, "samples": samples, "method": method, "top1": result.top1,
            "agreement": result.agreement, "sqnr_db": result.sqnr_db,
            "chosen": report.chosen if method == AUTO else None,
            "wins": dict(report.wins) if method == AUTO else None,
            "checks": {check.name: check.sqnr_db for check in report.checks} if method == AUTO else None,
            "seconds": seconds if method == AUTO else None,
        }  # fmt: skip


def without_labels(images: Path, folder: Path) -> Path:
    """The same images in a folder without a list of labels, which are those of another task."""
    folder.mkdir()
    for image in images.glob("*.jpg"):
        (folder / image.name).symlink_to(image.resolve())
    return folder


def cell(record: dict) -> str:
    """Top-1 and agreement in %, SQNR in dB; ``–`` for what cannot be told."""
    shares = ["–" if record[key] is None else f"{100 * record[key]:.2f}" for key in ("top1", "agreement")]
    decibels = "–" if record["sqnr_db"] is None else f"{record['sqnr_db']:.2f}"
    return " / ".join([*shares, decibels])


def method_rows(records: Sequence[dict]) -> list[str]:
    """A table: a line per network, a column per method."""
    methods = list(dict.fromkeys(record["method"] for record in records))
    rows = [f"| network | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for network in dict.fromkeys(record["network"] for record in records):
        cells = {r["method"]: cell(r) for r in records if r["network"] == network}
        rows.append(f"| {network} | {' | '.join(cells.get(method, '–') for method in methods)} |")
    return rows


def choice_rows(records: Sequence[dict]) -> list[str]:
    """A table: what ``auto`` chose for each network."""
    rows = ["| network | the table that won | tensors by method | seconds |", "|---|---|---|---|"]
    for record in records:
        if record["chosen"] is not None:
            wins = ", ".join(f"{method} {count}" for method, count in record["wins"].items())
            rows.append(f"| {record['network']} | {record['chosen']} | {wins} | {record['seconds']:.1f} |")
    return rows


def sweep_rows(records: Sequence[dict]) -> list[str]:
    """A table: a line per network and method, a column per number of calibration samples."""
    counts = sorted({record["samples"] for record in records})
    rows = [f"| network | method | {' | '.join(map(str, counts))} |", "|---" * (len(counts) + 2) + "|"]
    for network, method in dict.fromkeys((r["network"], r["method"]) for r in records):
        if method in SWEEP:
            found = {r["samples"]: r for r in records if (r["network"], r["method"]) == (network, method)}
            cells = [cell(found[count]) if count in found else "–" for count in counts]
            rows.append(f"| {network} | {method} | {' | '.join(cells)} |")
    return rows


def document(records: Sequence[dict], sweep: Sequence[dict]) -> str:
    """All tables."""
    parts = ["\n".join(method_rows(records)), "\n".join(choice_rows(records))]
    if sweep:
        parts.append("\n".join(sweep_rows(sweep)))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    entries = json.loads((Path(__file__).parent / "models.json").read_text())
    records: list[dict] = []
    sweep: list[dict] = []
    for name in options.models.split(",") if options.models else entries:
        records += measure(name, entries[name], options.data, options.most, (), options.threads)
        print("\n".join([*method_rows(records[-1:]), *choice_rows(records[-1:])]), flush=True)
        for count in map(int, filter(None, options.images.split(","))):
            sweep += measure(name, entries[name], options.data, count, SWEEP, options.threads)
        if options.json:
            options.json.write_text(json.dumps({"methods": records, "images": sweep}, indent=1))
    print(document(records, sweep))


if __name__ == "__main__":
    main()
