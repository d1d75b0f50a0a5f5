"""Times as tables for people and as JSON for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from calib8.cli.render import plain_table
from calib8.cli.terminal import Terminal
from calib8.number_texts import NOTHING

if TYPE_CHECKING:
    from calib8.analysis.benchmark import Timing
    from calib8.analysis.breakdown import Breakdown
    from calib8.analysis.speed import Benchmark


def timing_table(found: Benchmark) -> Table:
    """One row per subject."""
    table = plain_table("model", "runtime")
    for header in (
        "threads",
        "batch",
        "median ms",
        "min ms",
        "p95 ms",
        "vs float",
        "vs others",
        "GMAC/s",
        "of peak",
    ):
        table.add_column(header, justify="right")
    for t in found.timings:
        table.add_row(
            t.subject.model,
            t.subject.runtime,
            str(t.subject.threads),
            str(t.subject.batch),
            f"{t.median_ms:.3f}",
            f"{t.min_ms:.3f}",
            f"{t.p95_ms:.3f}",
            *(NOTHING if one is None else f"{one:.2f}" for one in (found.of_float(t), found.ratio(t))),
            *_rate(t.gmacs, found.peaks[t.subject.threads]),
        )
    return table


def timing_document(t: Timing) -> dict[str, Any]:
    """One entry of ``results``."""
    return {
        "model": t.subject.model,
        "runtime": t.subject.runtime,
        "threads": t.subject.threads,
        "batch": t.subject.batch,
        "median_ms": t.median_ms,
        "min_ms": t.min_ms,
        "p95_ms": t.p95_ms,
        "gmacs": t.gmacs,
    }


def say_breakdown(terminal: Terminal, found: Breakdown) -> None:
    """What every part of a plan takes."""
    from calib8.engine.peak import machine_peak_gmacs
    from calib8.engine.run import available_isas

    peak = machine_peak_gmacs(found.threads)
    of_machine = f"peak with {available_isas()[0]}: {peak:.0f} GMAC/s"
    ms = f"{1e3 * found.seconds:.3f} ms"
    terminal.say(f"{found.model}, threads {found.threads}, {found.isa} ({of_machine}): {ms}")
    table = plain_table("instructions", "kind")
    for header in ("steps", "µs", "%", "GMAC/s", "of peak"):
        table.add_column(header, justify="right")
    for part in found.parts:
        times = f"{1e6 * part.seconds:.1f}", f"{100 * part.seconds / found.seconds:.1f}"
        table.add_row(part.name, part.kind, str(part.steps), *times, *_rate(part.gmacs, peak))
    terminal.show(table)


def breakdown_document(found: Breakdown) -> dict[str, Any]:
    """One entry of ``profiles``."""
    return {
        "model": found.model,
        "isa": found.isa,
        "threads": found.threads,
        "ms": 1e3 * found.seconds,
        "parts": [
            {
                "name": part.name,
                "kind": part.kind,
                "steps": part.steps,
                "us": 1e6 * part.seconds,
                "gmacs": part.gmacs,
            }
            for part in found.parts
        ],
    }


def _rate(gmacs: float | None, peak: float) -> tuple[str, str]:
    """Multiply-accumulates per second in 10⁹, and their share of the peak."""
    return (f"{gmacs:.1f}", f"{100 * gmacs / peak:.1f} %") if gmacs else (NOTHING, NOTHING)
