"""Results of ``calibration.py`` as tables: figures come from its document, never from a hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

IMAGES = """Seconds of calibration (observing, gathering and choosing ranges), and in brackets of the whole \
quantization from file to file. "plain" is float inference, one image at a time; the time in brackets \
includes loading. Images were decoded beforehand."""

PROCESSOR = """Seconds of both processors' time together, in the same runs."""

MEMORY = """MB of resident memory at its peak, for the whole process."""

RATIOS = """Milliseconds per image in the fastest of interleaved turns, 2 threads, and the ratio to plain \
inference one image at a time, for the fastest turns and for the medians. "ns per element" is the time that \
gathering adds to inference with the same batch, per value of a recorded tensor. All run in one process, \
whose threads wait for each other, so that processor time includes waiting."""

COMMAND = """The whole commands over the same image files, decoding and search (`calibrate --method mse`) \
included: fastest of three interleaved runs. "Process" is the time from start to end of Python."""

SEARCH = """Milliseconds for one tensor of 3,000 bins, one thread, least of interleaved rounds."""

KERNELS = """ns per value on one thread; the full record counts 4,096 bins on each side of zero, the other \
one keeps counts and extremes only."""


def sections(found: Mapping[str, Any]) -> Iterator[str]:
    """Each with its title, a blank line at the end."""
    if "ratios" in found:
        yield section("Calibration: gathering beside inference", RATIOS, ratio_rows(found["ratios"]))
    if "command" in found:
        yield section("Calibration: the whole command", COMMAND, command_rows(found["command"]))
    if "images" in found:
        records = found["images"]
        titles = {"part_s": ("time", IMAGES), "part_cpu_s": ("processor time", PROCESSOR)}
        for key, (title, text) in titles.items():
            yield section(f"Calibration beside other tools: {title}", text, image_rows(records, key))
        yield section("Calibration beside other tools: memory", MEMORY, image_rows(records, "peak_mb"))
    if "search" in found:
        yield section("Calibration: choosing ranges", SEARCH, search_rows(found["search"]))
    if "kernels" in found:
        yield section("Calibration: counting", KERNELS, kernel_rows(found["kernels"]))


def section(title: str, text: str, rows: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", text, "", *rows, ""])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


def image_rows(records: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """A line per network and tool, a column per number of images."""
    counts = sorted({record["images"] for record in records})
    cells = {(record["network"], record["tool"], record["images"]): record for record in records}
    rows = [
        [network, tool, *(image_cell(cells.get((network, tool, count)), key) for count in counts)]
        for network, tool in dict.fromkeys((record["network"], record["tool"]) for record in records)
    ]
    return table(["network", "tool", *(f"{count} images" for count in counts)], rows)


def image_cell(record: Mapping[str, Any] | None, key: str) -> str:
    if record is None:
        return "–"
    if "failed" in record:
        return str(record["failed"])
    if key == "peak_mb":
        return f"{record[key]:,.0f}"
    part = "–" if record[key] is None else f"{record[key]:.2f}"
    return f"{part} ({record[key.replace('part', 'whole')]:.2f})"


def ratio_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for record in records:
        if "failed" in record:
            rows.append([record["network"], record["failed"], *[""] * 6])
            continue
        plain = {row["batch"]: row for row in record["rows"] if row["way"] == "plain inference"}
        for row in record["rows"]:
            same = plain.get(row["batch"])
            added = (
                "–"
                if row["way"] == "plain inference" or same is None
                else f"{1e6 * (row['ms'] - same['ms']) / record['elements']:.2f}"
            )
            rows.append(
                [
                    record["network"],
                    row["way"],
                    str(row["batch"]),
                    f"{row['ms']:.2f} ({row['median_ms']:.2f})",
                    f"{row['ms'] / plain[1]['ms']:.2f}",
                    f"{row['median_ms'] / plain[1]['median_ms']:.2f}",
                    f"{row['cpu_ms'] / plain[1]['cpu_ms']:.2f}",
                    added,
                ]
            )
    heads = ["network", "what", "batch", "ms (median)", "ratio", "of medians", "of processor time"]
    return table([*heads, "ns per element"], rows)


def command_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    base = {record["network"]: record for record in records if record["command"] == "evaluate"}
    rows = [
        [
            record["network"],
            f"`calib8 {record['command']}`",
            str(record["images"]),
            f"{record['wall_s']:.2f}",
            f"{record['process_s']:.2f}",
            f"{record['cpu_s']:.2f}",
            f"{record['peak_mb']:.0f}",
            f"{record['wall_s'] / base[record['network']]['wall_s']:.2f}",
        ]
        for record in records
    ]
    heads = ["network", "command", "images", "s", "process s", "processor s", "peak MB", "ratio"]
    return table(heads, rows)


def search_rows(found: Mapping[str, Any]) -> list[str]:
    methods = list(found["per_tensor"][0]["ms"])
    rows = [
        [row["tensor"], row["code"], *(f"{row['ms'][method]:.3f}" for method in methods)]
        for row in found["per_tensor"]
    ]
    lines = [*table(["tensor", "code", *methods], rows), ""]
    for row in found["network"]:
        lines.append(
            f"All {len(methods)} methods for {row['tensors']} tensors with {row['threads']} threads:"
            f" {row['wall_s']:.2f} s, {row['processor_s']:.2f} s of processors."
        )
    if "onnxruntime_entropy_ms" in found:
        lines.append(f"ONNX Runtime's entropy: {found['onnxruntime_entropy_ms']:.0f} ms a tensor.")
    return lines


def kernel_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    sets = list(dict.fromkeys(record["isa"] for record in records))
    cells = {(record["values"], record["bins"], record["isa"]): record["ns"] for record in records}
    rows = [
        [
            values,
            "full" if bins else "counts, extremes",
            *(f"{cells[values, bins, isa]:.3f}" for isa in sets),
        ]
        for values, bins in dict.fromkeys((record["values"], record["bins"]) for record in records)
    ]
    return table(["values", "record", *sets], rows)
