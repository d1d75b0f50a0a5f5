"""Results of ``engine.py`` as tables: figures come from its document, never from a hand."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from calib8.engine.peak import machine_peak_gmacs
from calib8.engine.run import available_isas
from calib8.processors import usable_cores
from topologies import TOPOLOGIES

OURS = "calib8"
TITLES = {"calib8": "calib8", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

PAGE = """# Results

Time of one run of the integer engine beside the fastest other runtimes for CPUs. Written by
`benchmarks/engine.py`, which says how: every runtime runs the same quantized file (uint8 activations, int8
weights per channel, QDQ) on the same random images, in turns, with the same number of threads; inputs are
made once, outputs are fetched. The networks have the published topologies and random weights, which changes
nothing about their speed.

Milliseconds are those of the fastest run, the median in brackets. "Ratio" is the time of the fastest other
runtime divided by calib8's, of the fastest runs and of the medians: above 1 calib8 is faster. "Of peak" is
the share of the multiply-accumulates that the cores of this machine do at most, measured by a loop that does
nothing else.

## Machine

{machine}

## Networks, batch {batch}

{rows}

To repeat it: `python benchmarks/engine.py FOLDER --page docs/results.md`, where FOLDER keeps the networks.
On a machine that does other work the medians mean little and the fastest runs need many rounds.
"""


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


def processor() -> str:
    """Name of the processor as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def page(document: dict[str, Any]) -> str:
    """The page docs/results.md."""
    batches = sorted({entry["batch"] for entry in document["results"]})
    return PAGE.format(
        machine="\n".join(machine_rows(document["machine"])),
        batch=", ".join(map(str, batches)),
        rows="\n".join(comparison_rows(document)),
    )


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


def comparison_rows(document: dict[str, Any]) -> list[str]:
    """A table: a line per network, batch and number of threads."""
    results = document["results"]
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
        name, batch, threads = key
        times = [time_text(group.get(runtime)) for runtime in runtimes]
        cells = [
            name,
            f"{TOPOLOGIES[name].gmacs * batch:.2f}",
            str(threads),
            *times,
            ratio_text(group, "min_ms"),
            ratio_text(group, "median_ms"),
            peak_text(group, document["machine"]["peak_gmacs"].get(str(threads))),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def time_text(entry: dict[str, Any] | None) -> str:
    return "–" if entry is None else f"{entry['min_ms']:.2f} ({entry['median_ms']:.2f})"


def ratio_text(group: dict[str, dict[str, Any]], figure: str) -> str:
    others = [entry[figure] for runtime, entry in group.items() if runtime != OURS]
    return f"{min(others) / group[OURS][figure]:.2f}" if OURS in group and others else "–"


def peak_text(group: dict[str, dict[str, Any]], peak: float | None) -> str:
    gmacs = group[OURS]["gmacs"] if OURS in group else None
    return f"{100 * gmacs / peak:.0f} %" if gmacs and peak else "–"
