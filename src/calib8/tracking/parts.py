"""The parts of a result: candidates of ``tune``, models of ``evaluate``, timings, what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calib8.analysis.benchmark import Timing
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.speed import Benchmark
from calib8.number_texts import count
from calib8.outcomes import Quantization
from calib8.parameters import Text
from calib8.remedies import Treatment
from calib8.run_report.of_judged import evaluated
from calib8.tracking.record import Part, by_name
from calib8.tuning.trial import Trial
from calib8.tuning.tune import Tuning


def parts_of(result: Any) -> tuple[str, tuple[Part, ...]]:
    """What the parts of a result are, and the parts; none where it has none."""
    if isinstance(result, Tuning):
        return "candidates", tuple(_candidate(one, one is result.best) for one in result.trials)
    if isinstance(result, Benchmark):
        fastest = min(result.timings, key=lambda one: one.median_ms)
        return "timings", tuple(_timing(result, one, one is fastest) for one in result.timings)
    if isinstance(result, Treatment):
        return "remedies", tuple(
            Part(str(Text(one.text)), figures={"sqnr_db": one.sqnr_db, "gain_db": one.gain_db})
            for one in result.remedies
        )
    if isinstance(result, Quantization):
        steps = () if result.repaired is None else result.repaired.steps
        return "repairs", tuple(
            Part(
                one.name, {"kept": str(one.kept)},
                {"sqnr_db_before": one.before_db, "sqnr_db_after": one.after_db},
            )
            for one in steps
        )  # fmt: skip
    several = [result] if isinstance(result, Evaluation) else result
    if isinstance(several, list | tuple):
        return "models", tuple(map(_model, several))
    return "parts", ()


def _candidate(trial: Trial, chosen: bool) -> Part:
    made, told = trial.settings, trial.figures
    figures: dict[str, float | None] = {
        "value": told.value, "bound": told.bound, "float_macs": trial.cost,
        "agreement": None if told.agreement is None else told.agreement / 100.0,
        "top1": None if told.top1 is None else told.top1 / 100.0,
        "sqnr_db": told.sqnr_db,
        **{f"sqnr_db/{name}": number for name, number in told.branches.items()},
        "float_nodes": len(made.floats), "seconds": trial.seconds,
        "spots": len(trial.spots), "wide_macs": trial.wide,
    }  # fmt: skip
    parameters = {
        "effort": made.effort, "concat": made.concat, "floats": ", ".join(made.floats) or "none",
        "spots": ", ".join(trial.spots) or "none", "kept": str(trial.kept),
    }  # fmt: skip
    wide = f", {count(len(trial.spots), 'spot')}" if trial.spots else ""
    name = f"{made.effort}{wide}, {len(made.floats)} float nodes"
    return Part(name, parameters, _known(figures), chosen)


def _timing(found: Benchmark, timing: Timing, chosen: bool) -> Part:
    of = timing.subject
    parameters = {
        "model": Path(of.model).name, "runtime": of.runtime, "threads": str(of.threads),
        "batch": str(of.batch),
    }  # fmt: skip
    figures = {
        "median_ms": timing.median_ms, "min_ms": timing.min_ms, "p95_ms": timing.p95_ms,
        "images_per_second": 1e3 * of.batch / timing.median_ms, "gmacs": timing.gmacs,
        "ratio": found.ratio(timing), "of_peak": found.of_peak(timing),
    }  # fmt: skip
    name = f"{Path(of.model).name} in {of.runtime}, {of.threads} thread{'s' * (of.threads != 1)}"
    return Part(name, parameters, _known(figures), chosen)


def _model(one: Evaluation) -> Part:
    numbers = [pair for figure in evaluated(one) for pair in figure.numbers]
    numbers += [] if one.top5 is None else [("top5", one.top5)]
    numbers += [] if one.seconds is None else [("seconds", one.seconds)]
    if one.own is not None:
        numbers += [(f"own/{name}", value) for name, value in one.own.against_float.items()]
    parameters = {"runtime": one.runtime, "samples": str(one.images)}
    if one.failure is not None:
        parameters["failure"] = one.failure
    return Part(Path(one.model).name, parameters, by_name(numbers))


def _known(figures: Mapping[str, float | None]) -> dict[str, float]:
    return by_name((name, float(number)) for name, number in figures.items() if number is not None)
