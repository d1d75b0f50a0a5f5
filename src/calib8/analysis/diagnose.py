"""Where an int8 model loses its accuracy, why, and what helps: measured, not guessed.

1. compare     every tensor, its layer alone and the model up to it            (``calib8.analysis.compare``)
2. damage      the codes of one layer alone, at the outputs                    (``calib8.analysis.damage``)
3. reasons     what the worst layers have in common with known failures        (``calib8.analysis.causes``)
4. gains       the model with a layer in float, and with the worst ones together
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.batch_norms import BatchNormInspection, inspect_batch_norms
from calib8.analysis.causes import Maxima, Reason, ordered, why
from calib8.analysis.compare import Comparison, TensorComparison, compare
from calib8.analysis.counterparts import Counterparts, find_counterparts
from calib8.analysis.counts import macs, with_batch_of_one
from calib8.analysis.damage import Damage, Dissection, damages, reference_constants
from calib8.analysis.float_reference import FloatReference, float_reference
from calib8.analysis.model_pair import Model, ModelPair, open_pair
from calib8.autorange.samples import choose_samples
from calib8.data.preprocess import Preprocess
from calib8.data.samples import DataSource, open_dataset
from calib8.model.metadata import PREFIX
from calib8.model.runtime import Arrays
from calib8.progress import Progress, SampleCounter, silent
from calib8.quantization.qdq import dequantizer, float_origin, label

LOOKED_AT: Final = 8
"""Samples that damage is measured on."""

FINDINGS: Final = 8
"""Layers that are explained."""

TOGETHER: Final = (1, 2, 3, 5, 8)
"""Numbers of nodes that are tried in float together."""

ENOUGH_DB: Final = 3.0
"""A gain that is worth to be told: half of the noise is gone."""


@dataclass(frozen=True)
class LayerLoss:
    """One layer: how it computes, and what that does to the outputs.

    Attributes:
        row: see ``TensorComparison``.
        damage: SQNR of the outputs in dB if this layer alone has codes.
        macs: share of the model's multiply-accumulates, 0 … 1; None where they cannot be counted.
    """

    row: TensorComparison
    damage: Damage
    macs: float | None


@dataclass(frozen=True)
class Finding:
    """A cause of the loss.

    Attributes:
        node: the layer, None for an input of the model or the model as a whole.
        tensor: what it yields, empty for the model as a whole.
        reason: why.
        floats: nodes that have to stay in float so that it no longer loses; empty where that does not help.
        gain_db: what the outputs gain with these in float.
    """

    node: str | None
    tensor: str
    reason: Reason
    floats: tuple[str, ...]
    gain_db: float


@dataclass(frozen=True)
class FloatAdvice:
    """Nodes to keep in float.

    Attributes:
        nodes: their names.
        gain_db: what the outputs gain.
        macs: share of the multiply-accumulates that are not in int8 then, 0 … 1; None where unknown.
    """

    nodes: tuple[str, ...]
    gain_db: float
    macs: float | None


@dataclass(frozen=True)
class Diagnosis:
    """What ``diagnose`` found.

    Attributes:
        comparison: the int8 model beside the float one, all samples.
        layers: worst damage first.
        findings: the causes, the most important first.
        advice: which nodes to keep in float, None where no few of them help.
        sqnr_db: of the outputs, on the samples that damage is measured on.
        looked_at: how many these are.
    """

    comparison: Comparison
    layers: tuple[LayerLoss, ...]
    findings: tuple[Finding, ...]
    advice: FloatAdvice | None
    sqnr_db: float
    looked_at: int


def diagnose(
    fp32: Model,
    int8: Model,
    data: DataSource,
    *,
    preprocess: Preprocess | None = None,
    samples: int | None = None,
    threads: int = 2,
    skip_bad: bool = False,
    progress: Progress = silent,
) -> Diagnosis:
    """Finds the layers that cost the accuracy of an int8 model, and says what helps.

    Args:
        fp32: path or ModelProto of the float model.
        int8: the QDQ model made from it.
        data: images or arrays, see ``calib8.data.samples.open_dataset``.
        preprocess: how images become inputs; None takes what the int8 model has stored.
        samples: at most so many for the comparison.
        threads, skip_bad, progress: see ``calibrate``.

    Raises:
        Calib8Error: what can be wrong with models, data or options, in one line each.
    """
    comparison = compare(
        fp32, int8, data, preprocess=preprocess, samples=samples, threads=threads, skip_bad=skip_bad,
        progress=progress,
    )  # fmt: skip
    pair = open_pair(fp32, int8)
    stored = _stored(pair)
    dataset = open_dataset(data, pair.inputs, preprocess or stored, samples=samples, skip_bad=skip_bad)
    runs = choose_samples(dataset, threads).scored[:LOOKED_AT]
    reference = float_reference(pair.fp32, runs[0], pair.changes())
    found = find_counterparts(pair.int8, reference.tensors, pair.outputs)
    constants = reference_constants(pair.int8, found.taps, reference)
    dissection = Dissection(pair.int8, constants, reference.forms[-1], runs, threads)
    counter = SampleCounter("taking layers apart", len(found.taps), progress)
    losses = _losses(pair.int8, comparison, found, damages(dissection, found.taps, counter))
    maxima = _channel_maxima(reference, found, runs, threads)
    whole = dissection.with_floats(())
    findings = _findings(losses, dissection, maxima, reference, whole)
    mismatch = _preprocessing(preprocess, stored)
    if mismatch is not None:
        findings.insert(0, mismatch)
    advice = _advice(losses, dissection, whole)
    return Diagnosis(comparison, tuple(losses), tuple(findings), advice, whole, len(runs))


def _stored(pair: ModelPair) -> Preprocess | None:
    text = pair.int8.metadata_props.get(PREFIX + "preprocess")
    return None if text is None else Preprocess.from_json(text, pair.int8_name)


def _losses(
    int8: ir.Model, comparison: Comparison, found: Counterparts, damage: Sequence[Damage]
) -> list[LayerLoss]:
    """One per tap, worst first."""
    rows = {(row.tensor, row.dtype): row for row in comparison.tensors}
    shares = _mac_shares(int8)
    losses = []
    for tap, one in zip(found.taps, damage, strict=True):
        row = rows[tap.reference, None if tap.code is None else tap.code.spec.dtype.name]
        losses.append(LayerLoss(row, one, shares.get(row.node or "")))
    return sorted(losses, key=lambda loss: loss.damage.both)


def _mac_shares(model: ir.Model) -> dict[str, float | None]:
    """Node → its share of the multiply-accumulates."""
    counted = {label(node): macs(node) for node in with_batch_of_one(model).graph}
    total = sum(count or 0 for count in counted.values())
    return {name: None if count is None or not total else count / total for name, count in counted.items()}


def _channel_maxima(
    reference: FloatReference, found: Counterparts, runs: Sequence[Arrays], threads: int
) -> Maxima:
    """Tensor → largest magnitude per entry of axis 1, over the runs."""
    names = list(dict.fromkeys(tap.reference for tap in found.taps))
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


def _findings(
    losses: Sequence[LayerLoss],
    dissection: Dissection,
    maxima: Maxima,
    reference: FloatReference,
    whole: float,
) -> list[Finding]:
    """The worst layers with their reasons, those that gain most in float first."""
    norms = _norms(reference)
    found = []
    for loss in islice(losses, FINDINGS):
        reason = why(loss.row, loss.damage, maxima, reference.forms[-1], norms)
        floats = floats_for(dissection.model, loss)
        gain = dissection.with_floats(floats) - whole if floats else 0.0
        found.append(Finding(loss.row.node, loss.row.tensor, reason, floats, gain))
    found.sort(key=lambda finding: -finding.gain_db)
    return [found[index] for index in ordered([finding.reason for finding in found])]


def _norms(reference: FloatReference) -> dict[str, BatchNormInspection]:
    """Suspicious normalizations, by name and by the tensor that they yield."""
    found = {one.name: one for one in inspect_batch_norms(reference.forms[0]) if one.suspicious}
    for node in reference.forms[0].graph:
        if label(node) in found:
            found[node.outputs[0].name or ""] = found[label(node)]
    return found


def floats_for(int8: ir.Model, loss: LayerLoss) -> tuple[str, ...]:
    """Nodes to keep in float so that a layer no longer loses what it loses most of.

    Where its weights do the damage that is the layer; where the codes of its result do, all that read them.
    """
    damage, node = loss.damage, loss.row.node
    own = () if node is None else (node,)
    if damage.codes is None or (damage.weights is not None and damage.weights <= damage.codes):
        return own
    readers = dict.fromkeys(
        label(reader)
        for pair in int8.graph
        if dequantizer(pair.outputs[0]) is not None and float_origin(pair.outputs[0]).name == loss.row.tensor
        for reader in (use.node for use in pair.outputs[0].uses())
    )
    return tuple(readers)


def _advice(losses: Sequence[LayerLoss], dissection: Dissection, whole: float) -> FloatAdvice | None:
    """The smallest number of the worst nodes that is worth it together."""
    nodes = list(dict.fromkeys(name for loss in losses for name in floats_for(dissection.model, loss)))
    shares = _mac_shares(dissection.model)
    for number in TOGETHER:
        taken = tuple(nodes[:number])
        gain = dissection.with_floats(taken) - whole
        if gain >= ENOUGH_DB:
            known = [shares.get(name) for name in taken]
            total = None if None in known else sum(share or 0.0 for share in known)
            return FloatAdvice(taken, gain, total)
        if number >= len(nodes):
            break
    return None


def _preprocessing(given: Preprocess | None, stored: Preprocess | None) -> Finding | None:
    """The first thing to look at: the model was calibrated on other inputs than it gets now."""
    if given is None or stored is None or given == stored:
        return None
    text = (
        "the images are prepared in another way than they were for the calibration: "
        f"{_differences(given, stored)}"
    )
    advice = "Calibrate again with the preprocessing of the training"
    return Finding(None, "", Reason("preprocessing", text, advice), (), 0.0)


def _differences(given: Preprocess, stored: Preprocess) -> str:
    import json

    now, then = json.loads(given.to_json()), json.loads(stored.to_json())
    keys = [key for key in now if now[key] != then.get(key)]
    return ", ".join(f"{key} is {now[key]} and was {then.get(key)}" for key in keys)
