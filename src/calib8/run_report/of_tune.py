"""The report of ``tune``: all candidates, and the one that was chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from calib8.model.graph import constant
from calib8.model.layer import layer_of
from calib8.number_texts import percent
from calib8.quantization.qdq import dequantizer, readable_copy
from calib8.run_report.around import Around
from calib8.run_report.layers import Inside, Known, inside
from calib8.run_report.side_by_side import SideBySide
from calib8.run_report.told import Candidates, CandidateShown, Figure, Headline, RunReport, Work
from calib8.run_report.words import output_figures, size_figures, where_compared
from calib8.tuning.trial import Trial
from calib8.tuning.tune import Tuning


def of_tuning(found: Tuning, seen: SideBySide | None, model: ir.Model | None, around: Around) -> RunReport:
    """What to tell of a search.

    Args:
        found: what it found.
        seen: the float model and the chosen one on some samples; None: there are no data.
        model: the chosen one; None: its file is not there any more.
        around: files and times.
    """
    known = Known() if seen is None else Known(comparison=seen.comparison, statistics=seen.statistics)
    told = Inside() if model is None else inside(model, known)
    return RunReport(
        found.path.name,
        "tune",
        _headline(found, seen, around),
        Work((*_facts(found), *told.contents), notes=found.notes),
        layers=told.layers,
        layers_note=""
        if seen is None
        else where_compared(seen.where, seen.note, compared=seen.comparison is not None),
        network=told.network,
        tensors=told.tensors,
        tensors_note="" if seen is None or seen.statistics is None else f"Counted on {seen.where}.",
        samples=() if seen is None else seen.samples,
        samples_note="" if seen is None else f"The worst of {seen.where}.",
        candidates=candidates(found, model),
        timings=around.timings,
        environment=around.environment,
    )


def candidates(found: Tuning, model: ir.Model | None = None) -> Candidates:
    """All trials in the order in which they were made; ``model``: the best one, None where it is gone."""
    counted = None if model is None else weight_counts(model)
    floats = found.best.settings.floats
    smaller = found.promise.kind == "drop"
    latencies = found.latencies or (None,) * len(found.trials)
    points = [
        (trial.cost if ms is None else ms, -trial.figures.value if smaller else trial.figures.value)
        for trial, ms in zip(found.trials, latencies, strict=True)
    ]
    front = pareto_front(points)
    shown = tuple(
        CandidateShown(
            trial.name, 100.0 * trial.cost,
            trial.figures.value, trial.figures.bound, len(trial.settings.floats),
            None if counted is None else weight_bytes(counted, floats, trial.settings.floats), trial.kept,
            trial is found.best, place in front, latencies[place],
        )
        for place, trial in enumerate(found.trials)
    )  # fmt: skip
    return Candidates(found.promise.noun, found.promise.unit, found.promise.value, smaller, shown)


def weight_counts(model: ir.Model) -> dict[str, tuple[int, bool]]:
    """Layer → how many weights it has, and whether they are in float, of a QDQ model."""
    counts = {}
    for node in readable_copy(model).graph:
        layer = layer_of(node)
        value = None if layer is None else layer.weight
        source = dequantizer(value)
        held = constant(value if source is None else source.inputs[0])
        if layer is not None and held is not None:
            counts[layer.name] = (held.size, source is None)
    return counts


def weight_bytes(
    counts: Mapping[str, tuple[int, bool]], floats: Collection[str], others: Collection[str]
) -> int:
    """Bytes of the weights of a model that has other nodes in float.

    Args:
        counts: of the model that is known, see ``weight_counts``.
        floats: nodes in float that were chosen for it.
        others: those that were chosen for the other one.
    """
    return sum(
        4 * count if name in others or (is_float and name not in floats) else count
        for name, (count, is_float) in counts.items()
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Places of the points (cost, quality) that no other one beats.

    Another one does that is cheaper and as good, or better and as cheap. Equal points are all on the front.
    """
    return frozenset(
        place
        for place, (cost, quality) in enumerate(points)
        if not any(
            other_cost <= cost and other_quality >= quality and (other_cost, other_quality) != (cost, quality)
            for other_cost, other_quality in points
        )
    )


def _headline(found: Tuning, seen: SideBySide | None, around: Around) -> Headline:
    best, promise = found.best, found.promise
    judged = f"on {found.judged} samples that did not help to make it"
    figures = [
        Figure(promise.noun, promise.shown(best.figures.value), judged, (("value", best.figures.value),)),
        Figure(
            "at worst", promise.shown(best.figures.bound), "for all samples like these, 95 % certain",
            (("bound", best.figures.bound),),
        ),
        Figure(
            "cost", percent(best.cost), "of the multiply-accumulates are in float",
            (("float_macs", best.cost),),
        ),
        *_wide(best),
    ]  # fmt: skip
    if seen is not None and seen.comparison is not None:
        known = {figure.label for figure in figures}
        figures += [one for one in output_figures(seen.comparison) if one.label not in known]
    figures += size_figures(*around.bytes)
    word = "promise kept" if found.kept else "promise not kept"
    text = f"Promised: {promise.text}; {len(found.trials)} models were tried, judged {judged}"
    if not found.complete:
        text += "; the budget ended the search"
    return Headline("kept" if found.kept else "ruined", word, text, tuple(figures), around.next)


def _wide(best: Trial) -> tuple[Figure, ...]:
    """What 16-bit codes cost; nothing where there are none."""
    if not best.spots:
        return ()
    beside = "of the multiply-accumulates read 16-bit codes, and are done twice"
    return (Figure("cost of spots", percent(best.wide), beside, (("wide_macs", best.wide),)),)


def _facts(found: Tuning) -> tuple[Figure, ...]:
    floats = ", ".join(found.best.settings.floats) or "none beyond those that have to be"
    facts = [
        Figure("model", str(found.path)),
        Figure("folder of the search", str(found.work)),
        Figure("calibrated on", f"{found.calibrated} samples"),
        Figure("effort", found.best.settings.effort),
        Figure("nodes in float", floats),
    ]
    if found.best.spots:
        facts.append(Figure("tensors with 16-bit codes", ", ".join(found.best.spots)))
    if found.float_top1 is not None:
        facts.append(Figure("FP32's top-1", f"{found.float_top1:.2f} %"))
    if found.float_map is not None:
        facts.append(Figure("FP32's mAP@[.5:.95]", percent(found.float_map), "by the labels"))
    return tuple(facts)
