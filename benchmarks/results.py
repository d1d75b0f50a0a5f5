"""Results of ``engine.py`` as tables: figures come from its document, never from a hand."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from accuracy_tables import results_section
from calib8.engine.peak import machine_peak_gmacs
from calib8.engine.run import available_isas
from calib8.processors import usable_cores
from calibration_tables import sections as calibration_sections
from cold_start import cold_start_rows
from parts import part_rows
from repair_tables import repair_section
from rounding import rounding_rows
from topologies import TOPOLOGIES

OURS = "calib8"
TITLES = {"calib8": "calib8", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

PAGE = """# Results

Time of one run of the integer engine compared with the fastest other runtimes for CPUs, measured by
`benchmarks/engine.py`: every runtime runs the same quantized file (uint8 activations, int8 weights per
channel, QDQ) on the same random images, in turns, with the same number of threads; inputs are made once. A
run is one call from Python with inputs and outputs bound beforehand, and each runtime has a process of its
own. The networks have the published topologies and random weights, which does not affect their speed.

Milliseconds are those of the fastest run, with the median in brackets. "Ratio" is the time of the fastest
other runtime divided by calib8's, for the fastest runs and for the medians: above 1 calib8 is faster. "Of
peak" is the share of the multiply-accumulates that the cores of this machine can do at most, measured by a
loop that does nothing else. Products with what lies outside the image count, though calib8 leaves most of
them out: a network whose dilated kernels reach far beyond it (DeepLab) may have more than 100 %.

Networks of `benchmarks/topologies.py` are made as they are needed; `benchmarks/torch_networks.py` makes the
others of torchvision and timm, by their names there.

## Machine

Networks, rounding profiles, cold start and layers were measured on this machine with these versions. What was
not measured again keeps its figures: sections on calibration and accuracy, and batch 8, may be older.

{machine}

{sections}
## Measuring again

`python benchmarks/engine.py FOLDER --also rounding,cold_start,parts --page docs/results.md`, where FOLDER
keeps the networks, measures those of `topologies.py`; the table of all networks needs the others by name
(`--networks resnet50,…,alexnet,…`, where `torch_networks.py FOLDER` made them), in one run or joined from
several `--json` files with `--from`. Other sections: `other_processors.py` (files of other processors),
`calibration.py` and `calibration_peers.py` (calibration), `accuracy.py` and `repair.py` (accuracy). Sections
that are not measured then stay as they are. On a machine that does other work the medians mean little, and
many rounds are needed for the fastest runs.
"""

AHEAD = 1.03
"""Ratio from which on calib8 counts as ahead: less is what two measurements differ by."""

NOT_AHEAD = f"""Rows of this table in which the fastest other runtime takes less than {AHEAD} times calib8's \
time, by the medians."""

ROUNDING = """Milliseconds of the fastest run, with the median in brackets, and the cost of a profile \
relative to `onnx`."""

COLD_START = """\
A process that imports a runtime, loads ResNet-50 with default options (as many threads as there are cores)
and runs it once: shortest wall-clock time, with the median in brackets; shortest processor time; median of
its peak memory. `import numpy` is part of all of them."""

PARTS = """\
Every part of the plan with one thread, each in its fastest run. The work that Python does around a run is
not included, and not all parts are fastest in the same run."""


def machine(threads: Sequence[int]) -> dict[str, Any]:
    """What was measured on, with what."""
    packages = ("calib8", "onnxruntime", "openvino", "numpy")
    return {
        "processor": processor(),
        "cores": usable_cores(),
        "instruction sets": [isa for isa in available_isas() if isa != "reference"],
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": {name: found for name in packages if (found := package_version(name))},
        "peak_gmacs": {str(count): machine_peak_gmacs(count) for count in threads},
    }


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def processor(information: Path = Path("/proc/cpuinfo")) -> str:
    """The processor as the system gives it: its name, and family and model, as many have one name."""
    if not information.is_file():
        return platform.processor() or platform.machine()
    lines = (line.partition(":") for line in information.read_text().splitlines())
    found = {key.strip(): value.strip() for key, _, value in reversed(list(lines))}
    if "model name" not in found:
        return platform.processor() or platform.machine()
    kind = [f"{key.removeprefix('cpu ')} {found[key]}" for key in ("cpu family", "model") if key in found]
    return f"{found['model name']} ({', '.join(kind)})" if kind else found["model name"]


def page(document: dict[str, Any], before: str = "") -> str:
    """The page docs/results.md; sections of the page ``before`` that the document lacks are kept."""
    made = PAGE.format(
        machine="\n".join(machine_rows(document["machine"])),
        sections="\n".join(sections(document)),
    )
    head, new = sections_of(made)
    _, old = sections_of(before)
    titles = list(new)
    for previous, title in zip(["Machine", *old], old, strict=False):
        if title not in new:
            titles.insert(titles.index(previous) + 1, title)
    return head + "".join({**old, **new}[title] for title in titles)


def sections_of(text: str) -> tuple[str, dict[str, str]]:
    """What comes before the sections of a page, and each section by its title."""
    head, *found = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return head, {one.splitlines()[0].removeprefix("## "): one for one in found}


def sections(document: dict[str, Any]) -> Iterator[str]:
    """Each with its title, a blank line at the end."""
    batches = sorted({entry["batch"] for entry in document["results"]})
    for batch in batches:
        rows = comparison_rows(document, batch)
        yield section(f"Networks, batch {batch}", "", rows)
        yield "\n".join(["### Not ahead", "", NOT_AHEAD, "", *behind(rows), ""])
    if "rounding" in document:
        yield section("Rounding profiles", ROUNDING, rounding_rows(document["rounding"]))
    if "cold_start" in document:
        yield section("Cold start", COLD_START, cold_start_rows(document["cold_start"]))
    yield from calibration_sections(document.get("calibration", {}))
    if "accuracy" in document:
        yield results_section(document["accuracy"])
    if "repair" in document:
        yield repair_section(document["repair"])
    for entry in document.get("parts", ()):
        peak = document["machine"]["peak_gmacs"]["1"]
        yield section(f"Where the time goes: {entry['model']}", PARTS, part_rows(entry, peak))


def behind(rows: Sequence[str]) -> list[str]:
    """Of a table of networks the rows in which calib8 is not ahead, with its heading."""
    column = cells_of(rows[0]).index("ratio, median")
    ratios = [cells_of(row)[column] for row in rows[2:]]
    found = [
        row for row, ratio in zip(rows[2:], ratios, strict=True) if ratio != "–" and float(ratio) < AHEAD
    ]
    return [*rows[:2], *found] if found else ["None."]


def cells_of(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def section(title: str, text: str, rows: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *([text, ""] if text else []), *rows, ""])


def machine_rows(found: dict[str, Any]) -> list[str]:
    peaks = ", ".join(f"{value:.0f} with {count}" for count, value in found["peak_gmacs"].items())
    return [
        "| | |",
        "|---|---|",
        f"| processor | {found['processor']}, {found['cores']} cores |",
        f"| instruction sets | {', '.join(found['instruction sets']) or 'none with kernels'} |",
        f"| peak, GMAC/s by threads | {peaks} |",
        f"| system | {found['system']} |",
        f"| versions | {', '.join(f'{name} {text}' for name, text in found['versions'].items())} |",
    ]


def comparison_rows(document: dict[str, Any], batch: int | None = None) -> list[str]:
    """A table: a line per network, batch and number of threads; of one batch, or of all."""
    results = [entry for entry in document["results"] if batch in (None, entry["batch"])]
    runtimes = list(dict.fromkeys(entry["runtime"] for entry in results))
    titles = " | ".join(TITLES[runtime] for runtime in runtimes)
    rows = [
        f"| network | GMAC | threads | {titles} | ratio, fastest | ratio, median | of peak |",
        "|---" * (len(runtimes) + 6) + "|",
    ]
    keys = dict.fromkeys((entry["model"], entry["batch"], entry["threads"]) for entry in results)
    for key in keys:
        group = {
            entry["runtime"]: entry
            for entry in results
            if (entry["model"], entry["batch"], entry["threads"]) == key
        }
        name, samples, threads = key
        times = [time_text(group.get(runtime)) for runtime in runtimes]
        cells = [
            name,
            products_text(name, samples, group),
            str(threads),
            *times,
            ratio_text(group, "min_ms"),
            ratio_text(group, "median_ms"),
            peak_text(group, document["machine"]["peak_gmacs"].get(str(threads))),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def products_text(name: str, samples: int, group: dict[str, dict[str, Any]]) -> str:
    """10⁹ products of a batch: as published, or for other networks as they are counted for our engine."""
    if name in TOPOLOGIES:
        return f"{TOPOLOGIES[name].gmacs * samples:.2f}"
    ours = group.get(OURS)
    return f"{ours['gmacs'] * ours['min_ms'] * 1e-3:.2f}" if ours and ours["gmacs"] else "–"


def time_text(entry: dict[str, Any] | None) -> str:
    return "–" if entry is None else f"{entry['min_ms']:.2f} ({entry['median_ms']:.2f})"


def ratio_text(group: dict[str, dict[str, Any]], figure: str) -> str:
    others = [entry[figure] for runtime, entry in group.items() if runtime != OURS]
    return f"{min(others) / group[OURS][figure]:.2f}" if OURS in group and others else "–"


def peak_text(group: dict[str, dict[str, Any]], peak: float | None) -> str:
    gmacs = group[OURS]["gmacs"] if OURS in group else None
    return f"{100 * gmacs / peak:.0f} %" if gmacs and peak else "–"
