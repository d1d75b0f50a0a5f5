"""What the worst layers of an int8 model are accused of, and which nodes to keep in float.

    gain of some nodes in float = SQNR of the outputs with them in float − SQNR of the outputs, in dB

A finding is told where that gains enough: what a layer loses matters as far as the outputs lose it. Where
others lose as much, a layer in float gains little: what its codes or its normalization show by themselves is
told without a gain.
Nodes are told by the names that ``keep_float`` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir

from calib8.analysis.causes import Facts, constant_channel_reason, outlier_reason, why
from calib8.analysis.compare import TensorComparison
from calib8.analysis.damage import Damage
from calib8.analysis.node_names import NodeNames
from calib8.analysis.reason import Reason
from calib8.autorange.check import LARGEST_DB, Check
from calib8.dissection.dissect import Dissection
from calib8.dissection.partly_coded import code_readers
from calib8.model.infer_shapes import with_input_shapes
from calib8.model.runtime import Arrays
from calib8.model.work import macs
from calib8.quantization.qdq import label

FINDINGS: Final = 8
"""Layers that are explained."""

TOGETHER: Final = (1, 2, 3, 5, 8)
"""Numbers of nodes that are tried in float together."""

ENOUGH_DB: Final = 3.0
"""A gain that is worth to be told: half of the noise is gone."""

TELLING_DB: Final = 1.0
"""What gains less in float is no finding."""

INNOCENT_DB: Final = 10.0
"""A layer that alone leaves the outputs so much better than all codes do is no cause: 1/10 of the noise."""

OF_CHANNELS: Final = frozenset({"scale", "batch normalization"})
"""Causes of which one tensor shows the one, and the next one the other."""

CERTAIN: Final = ("input", "bias")
"""Causes that are told whatever is gained: the codes themselves show them."""

MOST_MACS: Final = 0.25
"""Share of the multiply-accumulates that an advice may keep in float."""


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


def mac_shares(model: ir.Model, feeds: Arrays) -> dict[str, float | None]:
    """Node → its share of the multiply-accumulates in a run of these inputs, None where it has no sizes."""
    shapes = {name: array.shape for name, array in feeds.items()}
    counted = {label(node): macs(node) for node in with_input_shapes(model, shapes).graph}
    total = sum(count or 0 for count in counted.values())
    return {name: None if count is None or not total else count / total for name, count in counted.items()}


def find_causes(
    losses: Sequence[LayerLoss], dissection: Dissection, facts: Facts, names: NodeNames, figures: Check
) -> tuple[Finding, ...]:
    """The worst layers with their reasons; each node once.

    Args:
        losses: worst first, nodes by their labels in the int8 graph.
        dissection: the int8 graph.
        facts: what is known of the float model.
        names: what nodes are to be called.
        figures: of the outputs of the int8 graph.

    Returns:
        Inputs first, then what has a cause, then what has none; of each in the order of the losses, those
        that only the worst branch accuses last.
    """
    gains: dict[tuple[str, ...], float] = {(): 0.0}
    found: dict[tuple[str, ...], Finding] = {}
    whole = figures.sqnr_db
    accused = [_accused(loss, why(loss.row, loss.damage, facts), dissection, names)
               for loss in _suspects(losses, figures)]  # fmt: skip
    for one in accused:
        loss, reason, fewest = one.loss, one.reason, ENOUGH_DB if one.reason.cause == "codes" else TELLING_DB
        innocent = loss.damage.both > whole + INNOCENT_DB  # what is in float with it gains, not the layer
        for floats in dict.fromkeys((one.floats, _with_accomplices(one, accused, whole + INNOCENT_DB))):
            if floats not in gains:
                gains[floats] = dissection.with_floats(floats) - whole
            if (gains[floats] >= fewest and not innocent) or reason.cause in CERTAIN:
                known = found.get(floats)
                if known is None or (known.reason.cause == "codes" and reason.cause != "codes"):
                    node = reason.layer or (one.blamed[0] if one.blamed else loss.row.node)
                    found[floats] = Finding(node, loss.row.tensor, reason, floats, gains[floats])
                break
    order = {"input": 0, "codes": 2}
    shown = _shown_by_itself(losses, facts, whole, gains)
    places = {loss.row.tensor: place for place, loss in reversed(tuple(enumerate(losses)))}
    listed = sorted(
        (*found.values(), *shown),
        key=lambda one: (order.get(one.reason.cause, 1), places[one.tensor]),
    )
    told = [one for place, one in enumerate(listed) if not _is_told(one, listed, place)]
    return tuple(replace(one, node=names.shown(one.node), floats=names.asked(one.floats)) for one in told)


def _shown_by_itself(
    losses: Sequence[LayerLoss], facts: Facts, whole: float, gains: Mapping[tuple[str, ...], float]
) -> Iterator[Finding]:
    """What is wrong whatever is gained, where the layer does a tenth of the noise.

    That is an outlier weight, if the weights do a tenth of what the layer does, and a channel that was
    constant in training.

    Args:
        losses, facts: see ``find_causes``.
        whole: SQNR of the outputs in dB.
        gains: what is known to be gained with some nodes in float; nothing else is tried.
    """
    for loss in losses:
        damage, node = loss.damage, loss.row.node
        if node is None or damage.both > whole + INNOCENT_DB:
            continue
        reasons = [constant_channel_reason(loss.row, facts)]
        if damage.weights is not None and damage.weights <= damage.both + INNOCENT_DB:
            reasons.append(outlier_reason(loss.row, facts))
        gain = gains.get((node,), 0.0)
        floats = (node,) if gain >= TELLING_DB else ()
        for reason in reasons:
            if reason is not None:
                yield Finding(reason.layer or node, loss.row.tensor, reason, floats, gain if floats else 0.0)


@dataclass(frozen=True)
class _Accused:
    """A suspect, why, the nodes to blame, and those to keep in float so that it loses nothing any more."""

    loss: LayerLoss
    reason: Reason
    blamed: tuple[str, ...]
    floats: tuple[str, ...]


def _accused(loss: LayerLoss, reason: Reason, dissection: Dissection, names: NodeNames) -> _Accused:
    blamed = tuple(names.makers[tensor] for tensor in reason.tensors if tensor in names.makers)
    return _Accused(loss, reason, blamed, _floats_for(dissection.model, loss, blamed, names))


def _with_accomplices(one: _Accused, accused: Sequence[_Accused], innocent: float) -> tuple[str, ...]:
    """The nodes of a suspect, with those of its neighbours that do such damage for the same cause.

    A channel that is too large is so in front of an activation and behind it: either of the two tensors in
    float alone gains nothing. Neighbours have nodes in common.

    Args:
        one: the suspect.
        accused: all suspects.
        innocent: those that alone leave the outputs better than that, in dB, are left out.
    """
    floats = list(one.floats)
    for other in accused if one.reason.cause != "codes" else ():
        causes = {one.reason.cause, other.reason.cause}
        alike = len(causes) == 1 or causes <= OF_CHANNELS
        if alike and other.loss.damage.both <= innocent and set(floats) & set(other.floats):
            floats += [node for node in other.floats if node not in floats]
    return tuple(floats)


def _suspects(losses: Sequence[LayerLoss], figures: Check) -> list[LayerLoss]:
    """The worst for the outputs, then the worst for the worst branch."""
    worst = min(figures.branches, key=lambda branch: branch.sqnr_db, default=None)
    found = list(losses[:FINDINGS])
    if worst is None:
        return found
    others = [loss for loss in losses[FINDINGS:] if worst.name in loss.damage.branches]
    others.sort(key=lambda loss: loss.damage.branches[worst.name])
    last = max((loss.damage.branches.get(worst.name, LARGEST_DB) for loss in found), default=LARGEST_DB)
    return found + [loss for loss in others[: FINDINGS // 2] if loss.damage.branches[worst.name] < last]


def _is_told(finding: Finding, listed: Sequence[Finding], place: int) -> bool:
    """Whether an earlier finding says the same, or one with a cause explains all of its nodes."""
    if any(other.reason.text == finding.reason.text for other in listed[:place]):
        return True
    causes = (other for other in listed if other.reason.cause != "codes")
    return finding.reason.cause == "codes" and any(
        set(finding.floats) <= set(other.floats) for other in causes
    )


def _floats_for(int8: ir.Model, loss: LayerLoss, blamed: Sequence[str], names: NodeNames) -> tuple[str, ...]:
    """Labels of the nodes to keep in float so that a layer no longer loses what it loses most of.

    Where its weights do the damage that is the layer. A tensor has codes as long as what yields it or one
    of those that read it is in int8, so that all of these belong together.
    """
    damage, own = loss.damage, () if loss.row.node is None else (loss.row.node,)
    if blamed:
        last = next(node for node in int8.graph if label(node) == blamed[-1])
        return tuple(dict.fromkeys((*blamed, *code_readers(int8, last.outputs[0].name or ""))))
    if damage.codes is None or (damage.weights is not None and damage.weights <= damage.codes):
        return own
    tensor = names.values.get(loss.row.tensor, loss.row.tensor)
    return tuple(dict.fromkeys((*own, *code_readers(int8, tensor))))


def find_advice(
    losses: Sequence[LayerLoss], dissection: Dissection, names: NodeNames, whole: float
) -> FloatAdvice | None:
    """The smallest number of the worst nodes that gains ``ENOUGH_DB`` together, or the most that help.

    Args:
        losses, dissection, names: see ``find_causes``.
        whole: SQNR of the outputs in dB.
    """
    model = dissection.model
    nodes = list(dict.fromkeys(name for one in losses for name in _floats_for(model, one, (), names)))
    nodes = [node for node in nodes if node in names.names]
    shares = mac_shares(model, dissection.runs[0])
    best: FloatAdvice | None = None
    for number in TOGETHER:
        taken = tuple(nodes[:number])
        known = [shares.get(name) for name in taken]
        total = None if None in known else sum(share or 0.0 for share in known)
        if total is not None and total > MOST_MACS:
            break
        gain = dissection.with_floats(taken) - whole
        if gain >= TELLING_DB:
            best = FloatAdvice(names.asked(taken), gain, total)
        if gain >= ENOUGH_DB or number >= len(nodes):
            break
    return best


def named(loss: LayerLoss, names: NodeNames) -> LayerLoss:
    """The same with its nodes as they are to be called."""
    row = loss.row
    nodes = tuple(names.names.get(node, node) for node in row.nodes)
    return replace(loss, row=replace(row, node=names.shown(row.node), nodes=nodes))
