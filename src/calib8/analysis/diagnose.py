"""Where an int8 model loses its accuracy, why, and what helps: measured, not guessed.

1. compare     every tensor, its layer alone and the model up to it            (``calib8.analysis.compare``)
2. damage      the codes of one layer alone, at the outputs                    (``calib8.analysis.damage``)
               and at each branch of them                               (``calib8.analysis.branch_losses``)
3. reasons     what the worst layers have in common with known failures        (``calib8.analysis.causes``)
4. inputs      whether the data are what the network was trained and calibrated with
5. gains       the model with a layer in float, and with the worst ones together

What is wrong with the inputs explains all else and comes first; then layers with a cause, then layers without
one, of each those first that do the most damage alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.basis import ranges_given
from calib8.analysis.branch_losses import BranchLoss, branch_losses
from calib8.analysis.causes import Facts, Maxima, norm_name, tensors_to_look_at
from calib8.analysis.colour_order import red_and_blue_exchanged
from calib8.analysis.compare import Comparison, DiagnosingWords, compare, opened_for, stored_preprocess
from calib8.analysis.counterparts import Counterparts, find_counterparts
from calib8.analysis.damage import Damage, damages, number_of_parts, reference_constants
from calib8.analysis.dead_channels import dead_channels
from calib8.analysis.dropped_activations import with_dropped_activations
from calib8.analysis.findings import (
    Finding,
    FloatAdvice,
    LayerLoss,
    find_advice,
    find_causes,
    mac_shares,
    named,
)
from calib8.analysis.float_reference import FloatReference, float_reference
from calib8.analysis.layer_constants import constant_faults
from calib8.analysis.model_pair import Model, ModelPair, open_pair
from calib8.analysis.node_names import find_node_names
from calib8.analysis.picture_units import other_units
from calib8.analysis.reason import Reason
from calib8.analysis.sureness import Witness
from calib8.analysis.wrong_statistics import sees_the_input, wrong_statistics
from calib8.autorange.check import Check, float_outputs
from calib8.autorange.samples import choose_samples
from calib8.data.differing import preprocess_difference
from calib8.data.framing import Framing
from calib8.data.preprocess import Preprocess
from calib8.data.read_once import for_several_openings
from calib8.data.reading import Reading
from calib8.data.samples import Dataset, DataSource
from calib8.dissection.dissect import Dissection
from calib8.errors import ModelError
from calib8.model.runtime import Arrays
from calib8.parameters import with_both
from calib8.progress import Progress, SampleCounter, silent
from calib8.repair.batch_norm_statistics import BatchNormDrift, batch_norm_drift
from calib8.requests import requested, takes_words_of
from calib8.tasks.branches import Meaning
from calib8.tasks.judged import judged_runs
from calib8.tasks.judges.interface import TaskFigures
from calib8.tasks.purpose import Purpose, purpose_of
from calib8.tasks.seen import analysable, is_float

if TYPE_CHECKING:
    from typing_extensions import Unpack


LOOKED_AT: Final = 8
"""Samples that damage is measured on."""

JUDGED: Final = 32
"""Samples that the judge of the task looks at."""

FOREIGN_DB: Final = 5.0
"""Weights so far from those of the float model, in the median layer, are those of another one."""


@dataclass(frozen=True)
class Diagnosis:
    """What ``diagnose`` found.

    Attributes:
        comparison: the int8 model beside the float one, all samples.
        layers: worst damage first.
        findings: the causes, the most important first.
        advice: which nodes to keep in float, None where no few of them help by ``TELLING_DB``.
        sqnr_db: of the outputs, on the samples that damage is measured on; of several branches the worst
            decides.
        looked_at: how many samples these are.
        fallback: why every layer had to run in a session of its own, empty where they did not.
        preprocess: how the images were prepared, None where arrays went in as they were.
        figures: ``sqnr_db`` with its parts.
        branches: of the outputs, each with the layers that ruin it; empty where there is a single one.
        task: what the judge of the task says of INT8; None where nothing is known to decode the outputs.
        dissection: to judge other int8 forms on the same samples.
        framing: how sound became frames, None where the data are none.
    """

    comparison: Comparison
    layers: tuple[LayerLoss, ...]
    findings: tuple[Finding, ...]
    advice: FloatAdvice | None
    sqnr_db: float
    looked_at: int
    fallback: str
    preprocess: Preprocess | None
    figures: Check
    branches: tuple[BranchLoss, ...]
    task: TaskFigures | None
    dissection: Dissection
    framing: Framing | None = None


@dataclass(frozen=True)
class _Opened:
    """Models and data of one diagnosis: ``runs`` to score with, ``seen`` all of those that were read."""

    pair: ModelPair
    dataset: Dataset
    runs: tuple[Arrays, ...]
    seen: tuple[Arrays, ...]
    reference: FloatReference
    found: Counterparts


@takes_words_of(Reading, Purpose, without=("labels", "shapes"))
def diagnose(
    fp32: Model,
    int8: Model,
    data: DataSource | Reading,
    *,
    progress: Progress = silent,
    **words: Unpack[DiagnosingWords],
) -> Diagnosis:
    """Finds the layers that cost the accuracy of an int8 model, and says what helps.

    Args:
        fp32: path or ModelProto of the float model.
        int8: the QDQ model made from it, or an int8 ``.tmfile`` of Tengine, of which a QDQ
            model of its scales and codes is looked at.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too; see ``compare``.
            ``samples`` and ``batch`` are those of the comparison.
        progress: see ``calibrate``.
        words: fields of ``Reading``, and of ``Purpose``: what the outputs mean, by which layers are judged.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    reading = for_several_openings(requested(Reading, words, data, field="data"))
    purpose, threads = purpose_of(words), reading.threads
    comparison = compare(fp32, int8, reading, task=purpose, progress=progress)
    opened = _open(fp32, int8, reading)
    _check_weights(comparison, opened.pair)
    runs, reference, taps = opened.runs[:LOOKED_AT], opened.reference, opened.found.taps
    constants = reference_constants(opened.pair.int8, taps, reference)
    whole = with_dropped_activations(opened.pair.int8, taps, reference.tensors)
    meaning = purpose.meaning(analysable(opened.pair.fp32))
    dissection = Dissection(whole, constants, reference.forms[-1], runs, threads, meaning)
    counter = SampleCounter("measuring layer by layer", number_of_parts(dissection, taps), progress)
    found = damages(dissection, taps, counter)
    losses = _losses(opened.pair.int8, comparison, opened.found, found, runs[0])
    maxima = _channel_maxima(reference, opened.found, runs, threads)
    facts = _facts(opened, maxima)
    figures = dissection.whole()
    sqnr_db = figures.sqnr_db
    names = find_node_names(whole, opened.pair.outputs, reference)
    causes = find_causes(losses, dissection, facts, names, figures)
    findings = _explaining((*_inputs(opened, meaning, threads), *causes))
    layers = tuple(named(loss, names) for loss in losses)
    return Diagnosis(
        comparison, layers, findings, find_advice(losses, dissection, names, sqnr_db), sqnr_db, len(runs),
        dissection.fallback, opened.dataset.preprocess, figures, branch_losses(figures, meaning, layers),
        _judged(opened, whole, meaning, threads), dissection, opened.dataset.framing,
    )  # fmt: skip


def _judged(opened: _Opened, int8: ir.Model, meaning: Meaning, threads: int) -> TaskFigures | None:
    """The figures of the task on samples of the data."""
    reference, runs = opened.reference.forms[-1], opened.seen[:JUDGED]
    names = [value.name or "" for value in opened.pair.fp32.graph.outputs if is_float(value)]
    expected, found = (float_outputs(model, runs, threads) for model in (reference, int8))
    return judged_runs(meaning, names, expected, found, runs)


def _facts(opened: _Opened, maxima: Maxima) -> Facts:
    int8, reference = opened.pair.int8, opened.reference
    faults = constant_faults(int8, opened.found.taps, reference)
    return Facts(reference, maxima, dead_channels(int8), ranges_given(int8), faults)


def _open(fp32: Model, int8: Model, reading: Reading) -> _Opened:
    pair = open_pair(fp32, int8, reading.fix, takes_tengine=True)
    dataset = opened_for(pair, reading)
    samples_chosen = choose_samples(dataset, reading.threads)
    runs = samples_chosen.scored
    seen = runs if samples_chosen.shared else (*runs, *samples_chosen.held_back)
    reference = float_reference(pair.fp32, runs[0], pair.changes())
    found = find_counterparts(pair.int8, reference.tensors, pair.outputs, pair.changes().others)
    return _Opened(pair, dataset, runs, seen, reference, found)


def _check_weights(comparison: Comparison, pair: ModelPair) -> None:
    """Refuses an int8 model whose weights are those of another network of the same shape."""
    known = [row.weight_sqnr_db for row in comparison.tensors if row.weight_sqnr_db is not None]
    if known and float(np.median(known)) < FOREIGN_DB:
        raise ModelError(
            pair.int8_name,
            f"its weights are not those of {pair.fp32_name} (SQNR {float(np.median(known)):.1f} dB in the "
            "median layer)",
            "Give the float model that it was made from",
        )


def _losses(
    int8: ir.Model, comparison: Comparison, found: Counterparts, damage: Sequence[Damage], feeds: Arrays
) -> list[LayerLoss]:
    """One per tap, worst first."""
    rows = {(row.tensor, row.dtype): row for row in comparison.tensors}
    shares = mac_shares(int8, feeds)
    losses = []
    for tap, one in zip(found.taps, damage, strict=True):
        row = rows[tap.reference, None if tap.code is None else tap.code.spec.dtype.name]
        losses.append(LayerLoss(row, one, shares.get(row.node or "")))
    return sorted(losses, key=lambda loss: loss.damage.both)


def _channel_maxima(
    reference: FloatReference, found: Counterparts, runs: Sequence[Arrays], threads: int
) -> Maxima:
    """Tensor → largest magnitude per entry of axis 1, over the runs."""
    names = tensors_to_look_at(reference, (tap.reference for tap in found.taps))
    session = reference.open(names, threads)
    maxima: dict[str, np.ndarray] = {}
    for feeds in runs:
        for name, array in session.run(feeds).items():
            if name in names and array.ndim > 1:
                axes = tuple(axis for axis in range(array.ndim) if axis != 1)
                reach = np.max(np.abs(array), axis=axes, initial=0.0).astype(np.float64)
                before = maxima.get(name)
                maxima[name] = reach if before is None else np.maximum(before, reach)
    return maxima


def _inputs(opened: _Opened, meaning: Meaning, threads: int) -> tuple[Finding, ...]:
    """What is wrong with the data as a whole, and with statistics that do not fit them."""
    found = []
    given, stored = opened.dataset.preprocess, stored_preprocess(opened.pair)
    difference = "" if None in (given, stored) else preprocess_difference(_json(given), _json(stored))
    if difference:
        text = f"the images are prepared in another way than for the calibration ({difference})"
        found.append(Reason("preprocessing", text, "One of the two must be wrong"))
    drifts = batch_norm_drift(opened.pair.fp32, opened.seen, threads)
    witness = Witness(opened.pair.fp32, opened.seen, threads, meaning=meaning)
    images = _images(opened, witness, drifts[0] if drifts else None)
    found += [] if images is None else [images]
    wrong = wrong_statistics(opened.pair.fp32, opened.seen, drifts, threads)
    data = tuple(Finding(None, "", reason, (), 0.0) for reason in found)
    return data + tuple(Finding(one.name, "", _stored_wrongly(one), (), 0.0) for one in wrong)


def _images(opened: _Opened, witness: Witness, first: BatchNormDrift | None) -> Reason | None:
    """How the images should be prepared instead, as far as the float model tells."""
    given, cure = opened.dataset.preprocess, "Compare mean, scale and colour order"
    order = red_and_blue_exchanged(witness, first, given)
    if order is not None:
        return Reason("statistics", order.text, f"Exchange red and blue. {with_both(order.cure)}")
    if first is None or not sees_the_input(opened.pair.fp32, first.name):
        units = other_units(witness, given)
        return None if units is None else Reason("statistics", units.text, f"{cure}. {with_both(units.cure)}")
    if not first.suspicious:
        return None
    text = (
        f"the first BatchNormalization ({norm_name(first.name)}) sees other values than in training: its "
        f"means are {first.shift:.2f} standard deviations off, its standard deviations {first.ratio:.2f} "
        "times as large"
    )
    return Reason("statistics", text, f"{cure} with those of the training")


def _stored_wrongly(drift: BatchNormDrift) -> Reason:
    text = (
        "this BatchNormalization does not fit what reaches it, even with all before it put right: its means "
        f"are {drift.shift:.2f} standard deviations off, the standard deviations of the data "
        f"{drift.ratio:.2f} times the stored ones"
    )
    return Reason("statistics", text, "Compare its mean and variance with those of the training")


def _explaining(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Those that explain the others: wrong data make layers look bad that are not."""
    causes = {finding.reason.cause for finding in findings}
    if causes & {"preprocessing", "input"}:
        return tuple(one for one in findings if one.reason.cause in ("statistics", "preprocessing", "input"))
    if "statistics" in causes:
        return tuple(one for one in findings if one.reason.cause != "codes")
    return findings


def _json(preprocess: Preprocess | None) -> str | None:
    return None if preprocess is None else preprocess.to_json()
