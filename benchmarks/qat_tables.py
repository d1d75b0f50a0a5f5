"""Results of ``qat_accuracy.py`` and ``qat_peers.py`` as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import Any

FLOAT = "FP32"
OURS = "calib8"


def accuracy_rows(records: Sequence[dict[str, Any]]) -> list[str]:
    """A line per row and recipe: top-1 as mean ± standard deviation over seeds, INT8 and simulation."""
    found = [
        "| | trained | seeds | top-1 | beside FP32 | of the simulation | INT8 as simulated | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    plain = next((record["top1"] for record in records if record["row"] == FLOAT), None)
    for name, how in dict.fromkeys((record["row"], trained(record)) for record in records):
        group = [record for record in records if (record["row"], trained(record)) == (name, how)]
        top1 = figures(group, "top1")
        cells = [
            name,
            how,
            str(len(group)) if group[0]["seed"] is not None else "",
            spread(top1),
            "" if plain is None or name == FLOAT else f"{mean(top1) - plain:+.2f}",
            spread(figures(group, "simulated")),
            least(figures(group, "as_simulated")),
            rounded(figures(group, "seconds")),
        ]
        found.append(f"| {' | '.join(cells)} |")
    return found


def trained(record: dict[str, Any]) -> str:
    """With how many images, how often and how fast."""
    if "recipe" not in record:
        return ""
    recipe = record["recipe"]
    return f"{recipe['epochs']} × {record['images']:,}, rate {recipe['rate']:g}"


def peer_rows(times: Sequence[dict[str, Any]], accuracy: Sequence[dict[str, Any]]) -> list[str]:
    """Two tables: time of a step beside float training, and accuracy after the same steps."""
    found = [
        "| network | layout | training | step, ms | fastest | seconds per 50,000 images | ratio to float |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in times:
        cells = [
            entry["network"], entry["layout"], entry["training"], f"{entry['median_ms']:.0f}",
            f"{entry['min_ms']:.0f}", f"{entry['epoch_s']:.0f}", f"{entry['ratio']:.2f}",
        ]  # fmt: skip
        found.append(f"| {' | '.join(cells)} |")
    if not accuracy:
        return found
    found += ["", "| training | seeds | top-1 |", "|---|---|---|"]
    for name in dict.fromkeys(record["training"] for record in accuracy):
        group = [record for record in accuracy if record["training"] == name]
        seeds = len({record["seed"] for record in group} - {None})
        found.append(f"| {name} | {seeds or ''} | {spread(figures(group, 'top1'))} |")
    return found


def figures(records: Iterable[dict[str, Any]], key: str) -> list[float]:
    return [record[key] for record in records if record.get(key) is not None]


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation, of one value the value."""
    if not values:
        return ""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def least(values: Sequence[float]) -> str:
    return shown(values, min, "≥ {:.2f} %")


def rounded(values: Sequence[float]) -> str:
    return shown(values, mean, "{:.0f}")


def shown(values: Sequence[float], of: Callable[[Sequence[float]], float], form: str) -> str:
    return form.format(of(values)) if values else ""
