"""What each repair gains by itself: SQNR with and without it, by network, one scale per channel or tensor.

    python benchmarks/each_repair.py DATA [--models resnet8,…] [--repairs cle,…] [--judged 200] --json FILE
    python benchmarks/each_repair.py --from FILE

DATA holds the models and images that ``models.json`` names. Every repair is applied together with ``bias``
and compared with ``bias`` alone; the ways to correct biases are compared with no repair. All use 64
calibration samples, half of them to repair, and are judged on the evaluation samples, by the worst branch
where outputs have several. ``spots`` is judged in the engine, all else in ONNX Runtime. Rows that FILE has
already are not measured again. ``--from`` prints the table of ``docs/repair.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import calib8
from calib8.judge import evaluate
from calib8.repair.repairs import REPAIRS
from calibration_tables import table
from engine import names
from methods import BATCH, Network, opened

SAMPLES: Final = 64
NONE: Final = "none"
BIASES: Final = tuple(name for name in REPAIRS if name.startswith("bias"))
SLOW: Final = ("adaround",)
"""Minutes per network: only where they are named by ``--repairs``."""

LEAST_DB: Final = 0.1
"""Less is chance."""


def wishes(repairs: Sequence[str]) -> Iterator[tuple[str, str, str, list[str]]]:
    """(repair, target, weights, what is applied), those that others are compared with first."""
    for weights in ("per-channel", "per-tensor"):
        for target in ("onnxruntime", "calib8"):
            for basis in (NONE, "bias"):
                yield basis, target, weights, [basis]
        for name in repairs:
            target = "calib8" if name == "spots" else "onnxruntime"
            if name != "bias":
                yield name, target, weights, [name] if name in BIASES else [name, "bias"]


def measure(
    network: Network, wish: tuple[str, str, str, list[str]], judged: int, file: Path
) -> dict[str, Any]:
    """A record: what was changed, and dB on the samples that judge; None where nothing was changed."""
    name, target, weights, applied = wish
    record = {"network": network.name, "repair": name, "target": target, "weights": weights, "db": None}
    try:
        made = calib8.quantize(
            network.model, network.data, preprocess=network.preprocess, samples=SAMPLES, threads=2,
            target=target, weights=weights, repair=applied,
        )  # fmt: skip
    except calib8.Calib8Error as error:
        return record | {"failed": str(error)}
    steps = made.repaired.steps if made.repaired else ()
    if name != NONE and not any(step.layers for step in steps if name in step.names):
        return record
    made.save(file)
    runtime = "calib8" if target == "calib8" else "onnxruntime"
    _, result = evaluate(
        [network.model, file], network.evaluation, preprocess=network.preprocess, samples=judged,
        batch=BATCH, threads=2, runtime=runtime,
    )  # fmt: skip
    worst = result.worst_branch
    return record | {"db": worst.sqnr_db if worst else result.sqnr_db}


def gains(records: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float, str]]]:
    """Repair → (gain, dB without it, network and weights), the largest gain first."""
    known = {tuple(r[key] for key in ("network", "target", "weights", "repair")): r["db"] for r in records}
    found: dict[str, list[tuple[float, float, str]]] = {}
    for record in records:
        name, place = record["repair"], (record["network"], record["target"], record["weights"])
        before = known.get((*place, NONE if name in BIASES else "bias"))
        basis = name in (NONE, "bias") and record["target"] == "calib8"  # what spots are compared with
        if name != NONE and not basis and None not in (record["db"], before):
            where = record["network"] + (", one scale" if record["weights"] == "per-tensor" else "")
            found.setdefault(name, []).append((record["db"] - before, before, where))
    return {name: sorted(rows, reverse=True) for name, rows in found.items()}


def lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table."""
    rows = []
    for name, found in sorted(gains(records).items(), key=lambda item: list(REPAIRS).index(item[0])):
        helped = [row for row in found if row[0] > LEAST_DB]
        best = "; ".join(f"{where} {before:.1f} → {before + gain:.1f}" for gain, before, where in found[:2])
        gain, before, where = found[-1]
        rows.append(
            [
                f"`{name}`",
                f"{len(helped)} of {len(found)}",
                best,
                f"{where} {before:.1f} → {before + gain:.1f}",
            ]
        )
    return table(["repair", "helps", "most", "least"], rows)


def main() -> None:
    """Measures, or prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    entries = json.loads((Path(__file__).parent / "models.json").read_text())
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--models", type=names, default=list(entries))
    parser.add_argument("--repairs", type=names, default=[name for name in REPAIRS if name not in SLOW])
    parser.add_argument("--judged", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", dest="source", type=Path)
    arguments = parser.parse_args()
    if not arguments.source and not (arguments.data and arguments.json):
        parser.error("give DATA and --json FILE, or --from FILE")
    if arguments.source:
        print("\n".join(lines(json.loads(arguments.source.read_text()))))
        return
    records = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
    known = {(r["network"], r["repair"], r["target"], r["weights"]) for r in records}
    for name in arguments.models:
        with opened(name, entries[name], arguments.data) as (network, folder):
            for wish in wishes(arguments.repairs):
                if (name, *wish[:3]) in known:
                    continue
                records.append(measure(network, wish, arguments.judged, folder / "int8.onnx"))
                print(records[-1], file=sys.stderr, flush=True)
                arguments.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
