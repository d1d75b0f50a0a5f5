"""Results of ``methods.py`` as tables and as a page: figures come from its document, never from a hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calib8.calibration.decide import AUTO
from calibration_tables import section, table

SWEEP = ("minmax", "mse", "entropy", AUTO)
"""Methods that are compared by the number of calibration samples."""

SWEPT = ("efficientnet_lite0", "mobilenet_v2", "squeezenet_v1.1", "resnet20")
"""Networks for which that is done."""

FLOAT = "float32"
TITLES = {FLOAT: "FP32", AUTO: "**auto**"}

CELLS = """A cell is top-1 % / agreement with FP32 % / SQNR of the outputs in dB; `–` means that the \
network or the images do not have this figure, or that it was not measured."""

PAGE = """# Accuracy by range method

INT8 compared with FP32 in ONNX Runtime (uint8 activations, int8 weights per channel), measured by
`benchmarks/methods.py`. All methods get the same calibration samples of a network, and are judged on others:
ImageNet images (one of 400 is 0.25 points) or CIFAR-10 test images. On 400 images, differences in agreement
below about one point are noise; SQNR separates better.

{sections}
To repeat it: `python benchmarks/methods.py DATA --images {images} --json FILE --page docs/accuracy.md`, where
DATA holds the models and images that `benchmarks/models.json` names. `--judged N` judges with fewer samples,
and the tables say so; `--from FILE` writes the page from earlier files.
"""

NETWORKS = """The face detector (ultraface) and the two networks of PP-OCR run on ImageNet photos, for \
which they were not made: their figures show how close INT8 is to FP32, not how good either is."""

FIGURES = {
    "top1": ("Top-1, %", 100.0, "For networks whose images have labels."),
    "agreement": ("Agreement with FP32, %", 100.0, "How often INT8 and FP32 name the same class."),
    "sqnr_db": ("SQNR, dB", 1.0, "Over all outputs together, INT8 against FP32."),
}
"""Key of a record → title, factor and what it is."""

PARTS = """\
One network loses much with every method. The table shows the SQNR of its INT8 model with the ranges of
`mse` when a part of its graph stays float (`--keep-float`). Only the first layers matter, where one scale
has to serve channels whose largest values differ 50-fold: no choice of ranges helps there. The second half
in float changes nothing. On photos, which contain hardly any text, nearly all of this network's output is 0
in FP32, so that a few wrong pixels count much."""


def document_page(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The page docs/accuracy.md.

    Args:
        found: records of all methods (``methods``), and of some by number of calibration samples
            (``images``), and with parts of a graph in float (``parts``).
    """
    records, sweep = found["methods"], found["images"]
    parts = [section("Networks", NETWORKS, network_rows(records))]
    for key, (title, _, text) in FIGURES.items():
        parts.append(section(title, text, figure_rows(records, key)))
    parts.append(section("What `auto` did", "[How](quantization.md#auto).", choice_rows(records)))
    if found.get("parts"):
        parts.append(section("Partly in float", PARTS, part_rows(found["parts"])))
    if sweep:
        parts.append(section("By number of calibration samples", CELLS, sweep_rows(records, sweep)))
    counts = ",".join(str(count) for count in sample_counts(sweep))
    return PAGE.format(sections="\n".join(parts), images=counts or "COUNTS")


def results_section(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What docs/results.md shows of it."""
    text = f"""INT8 in ONNX Runtime, by the method that chose the ranges; FP32 is the first line. {CELLS} \
[accuracy.md](accuracy.md) has the conditions of the measurement, what `auto` did, and accuracy by the \
number of calibration samples."""
    return section("Accuracy by range method", text, method_rows(found["methods"]))


def cell(record: Mapping[str, Any] | None) -> str:
    """Top-1 and agreement in %, SQNR in dB."""
    return " / ".join(figure(record, key) for key in FIGURES)


def figure(record: Mapping[str, Any] | None, key: str) -> str:
    """``–`` for what cannot be told."""
    if record is None or record[key] is None:
        return "–"
    return f"{FIGURES[key][1] * record[key]:.2f}"


def network_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per network: how many samples it was calibrated on and judged with."""
    plain = {record["network"]: record for record in records if record["method"] == FLOAT}
    latest = {(record["network"], record["method"]): record for record in records}
    for record in latest.values():
        expected = plain[record["network"]]["judged"]
        if record["judged"] != expected:
            name = f"{record['network']}, {record['method']}"
            raise SystemExit(f"{name}: judged with {record['judged']} samples, FP32 with {expected}")
    return table(
        ["network", "calibration samples", "samples judged"],
        [[record["network"], str(record["samples"]), f"{record['judged']:,}"] for record in plain.values()],
    )


def by_method(
    records: Sequence[Mapping[str, Any]], text: Callable[[Mapping[str, Any] | None], str]
) -> list[str]:
    """A line per method, ``auto`` last, a column per network; networks without any such figure are left out.

    Of several records of the same network and method the last one counts.
    """
    cells = {(record["network"], record["method"]): text(record) for record in records}
    nothing = text(None)
    methods = list(dict.fromkeys(record["method"] for record in records))
    known = [
        network
        for network in dict.fromkeys(record["network"] for record in records)
        if any(cell != nothing for (owner, _), cell in cells.items() if owner == network)
    ]
    rows = [
        [TITLES.get(method, method), *(cells.get((network, method), nothing) for network in known)]
        for method in sorted(methods, key=lambda method: method == AUTO)
    ]
    return table(["method", *known], [row for row in rows if set(row[1:]) != {nothing}])


def method_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The main table: all figures in a cell."""
    return by_method(records, cell)


def figure_rows(records: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """A table of one figure."""
    return by_method(records, lambda record: figure(record, key))


def choice_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table: what ``auto`` chose for each network."""
    rows = {}
    for record in records:
        if record.get("chosen") is not None:
            wins = ", ".join(f"{method} {count}" for method, count in record["wins"].items())
            rows[record["network"]] = [record["network"], record["chosen"], wins]
    return table(["network", "the table that won", "tensors by method"], list(rows.values()))


def part_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table: a line per stretch of a graph that stays float."""
    rows = [
        [record["network"], part_name(record), f"{record['judged']:,}", figure(record, "sqnr_db")]
        for record in records
    ]
    return table(["network", "in float", "samples judged", "SQNR, dB"], rows)


def part_name(record: Mapping[str, Any]) -> str:
    first, last = record["first"], record["last"]
    return f"nodes {first + 1} to {last} of {record['nodes']}" if last > first else "nothing"


def sample_counts(records: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({record["samples"] for record in records})


def sweep_rows(records: Sequence[Mapping[str, Any]], sweep: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table: a line per network and method, a column per number of calibration samples.

    Args:
        records: of all methods, with one number of samples.
        sweep: of some methods and networks, with others.
    """
    rows = list(dict.fromkeys((record["network"], record["method"]) for record in sweep))
    judged = {record["network"]: record["judged"] for record in sweep}
    shown = [*(record for record in records if (record["network"], record["method"]) in rows), *sweep]
    counts = sample_counts(shown)
    cells = {(record["network"], record["method"], record["samples"]): record for record in shown}
    return table(
        ["network", "samples judged", "method", *map(str, counts)],
        [
            [
                network,
                f"{judged[network]:,}",
                method,
                *(cell(cells.get((network, method, count))) for count in counts),
            ]
            for network, method in rows
            if method != FLOAT
        ],
    )
