"""Spots: the few activations that lose too much in 8 bits get 16.

    noise(t, b)   10^(−SQNR/10) of branch b of the outputs where the codes of tensor t alone are left
    noise(W, b)   the same where those of all weights are left, which no spot takes away
    share(c)      max over b of  Σ tensors of class c  noise(t, b) / Σ of all and W; a class has one scale
    price(c)      multiply-accumulates of the layers that read the class / those of all layers; none of layers
                  that use each weight once: 16-bit codes of one vector cost next to nothing beside the matrix
    taken         by share / (price + 0.002), descending: shares of 1 % or more, prices of 30 % together,
                  as long as some b has  Σ of those left > noise(W, b) / 4  and  that and W > −40 dB
                  as long as b has less than it needs, shares are those of what is left and W
    and           whatever their share: the last codes before scores, if no layer reads them

A threshold lies between two codes: of one detector a fifteenth of all objects lay between two of 8 bits.

Branches of 30 dB and more do not count, text of 40 dB and more (``calib8.repair.enough``): what is kept needs
no slower layers. One that is worked on gets more than 30 dB, for texts and masks differ visibly there, and
noises do not quite add up. ``ranked_spots`` has the same order without limits, for searches that find out by
themselves how many are needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import onnx_ir as ir

from calib8.autorange.check import LARGEST_DB, Check
from calib8.dissection.dissect import Dissection
from calib8.dissection.float_constants import layer_constants
from calib8.dissection.partly_coded import coded_pairs
from calib8.dissection.sweep_graph import Part
from calib8.errors import Calib8Error
from calib8.model.runtime import Arrays
from calib8.model.work import node_macs, used_once
from calib8.ops.groups import RECURRENT
from calib8.passes.resolve_ranges import shared_with
from calib8.passes.spots import find_spots
from calib8.progress import SampleCounter
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.enough import FOR_SPOTS, GOOD_DB, Poor, figures_of, poor_branches
from calib8.tasks.kinds import LEADING
from calib8.tasks.meaning import meaning_of
from calib8.tasks.reach import reached

LEAST_SHARE: Final = 0.01
"""Of the noise of a branch, below which no tensor is worth a slower layer."""

LEAST_PRICE: Final = 0.002
"""What every spot counts for at least: codes of two bytes are moved even where no layer reads them."""

LEAST_RANKED: Final = 0.001
"""The same where it is a search that decides how many there are, as for layers in float."""

BUDGET: Final = 0.3
"""The prices of those chosen at once: so much of the multiply-accumulates is done twice."""

BESIDE_WEIGHTS: Final = 0.25
"""Of the noise of the weights: what tensors add to it is 1 dB then."""


@dataclass(frozen=True)
class SpotClass:
    """Tensors with one scale.

    Attributes:
        members: their names.
        noise: poor branch → their noise there.
        price: see the top of the file.
    """

    members: frozenset[str]
    noise: Mapping[str, float]
    price: float


@dataclass(frozen=True)
class _Noises:
    """What codes do to the poor branches of the outputs.

    Attributes:
        tensors: branch → tensor → its noise.
        weights: branch → the noise of all weights together.
        needs: branch → dB that it needs.
    """

    tensors: Mapping[str, Mapping[str, float]]
    weights: Mapping[str, float]
    needs: Mapping[str, float]

    @cached_property
    def totals(self) -> dict[str, float]:
        """Branch → the noise of all tensors."""
        return {branch: sum(found.values()) for branch, found in self.tensors.items()}

    def share(self, noise: Mapping[str, float], others: Mapping[str, float]) -> float:
        """The largest share that a noise has of the weights' and other noise in one of the branches."""
        shares = (noise[name] / (other + self.weights[name]) for name, other in others.items())
        return max(shares, default=0.0)

    def unfinished(self, left: Mapping[str, float]) -> dict[str, float]:
        """Branches in which the noise that is left asks for spots → the noise that shares are of."""
        poor = {name for name, least in self.needs.items() if self._above(left[name], name, least)}
        return {
            name: noise if name in poor else self.totals[name]
            for name, noise in left.items()
            if noise > BESIDE_WEIGHTS * self.weights[name]
            and self._above(noise, name, max(GOOD_DB, self.needs[name]))
        }

    def _above(self, noise: float, name: str, figure: float) -> bool:
        """Whether so much and that of the weights leave a branch less than so many dB."""
        return bool(noise + self.weights[name] > 10.0 ** (-figure / 10.0))


def choose_spots(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Gives the tensors of most noise per work 16-bit codes, as many as the budget allows.

    Args:
        candidate: what to repair; spots that it has stay.
        data: some of its runs tell the noise, see ``Poor``.

    Returns:
        The candidate with its spots, and what was done; the report names the nodes that
        yield spots. Nothing is done where the target has no 16-bit codes, or its outputs are good enough.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    if candidate.scheme.spots is None or not data.runs:
        return candidate, RepairReport(())
    poor = poor_branches(candidate, data, FOR_SPOTS)
    if not poor.needs:
        return candidate, RepairReport(())
    try:
        taken_apart = _taken_apart(candidate, poor, data)
    except Calib8Error as error:  # not what the float model computes once its codes are gone
        return candidate, RepairReport((), (f"no spots: {error.problem}",))
    noises = _noises(candidate, taken_apart, poor, data)
    chosen = _chosen(_classes(candidate, noises, poor.runs[0]), noises, _before_scores(candidate, data))
    return _applied(candidate, chosen) if chosen else (candidate, RepairReport(()))


def ranked_spots(candidate: Candidate, data: RepairData) -> tuple[SpotClass, ...]:
    """All that may be spots, what takes away most noise per work in front, whatever the outputs need.

    Args:
        candidate: its int8 graph is looked at as it would be without its spots, which are ranked as well.
        data: as for ``choose_spots``.

    Returns:
        Classes with ``LEAST_RANKED`` of the noise or more, spots of the candidate, and the last codes before
        scores; none where the target has no 16-bit codes, or the codes of tensors lose nothing.

    Raises:
        TableError: the table lacks a tensor.
        Calib8Error: ONNX Runtime cannot run the model, or its int8 graph cannot be taken apart.
    """
    if candidate.scheme.spots is None or not data.runs:
        return ()
    bare = replace(candidate, spots=frozenset())
    poor = poor_branches(bare, replace(data, more_db=math.inf), FOR_SPOTS)
    if not poor.needs:
        return ()
    noises = _noises(bare, _taken_apart(bare, poor, data), poor, data)
    ends = _before_scores(bare, data)
    return tuple(
        one
        for one in _in_order(_classes(bare, noises, poor.runs[0]), noises)
        if noises.share(one.noise, noises.totals) >= LEAST_RANKED
        or one.members & candidate.spots
        or _decides(one, ends)
    )


def _taken_apart(candidate: Candidate, poor: Poor, data: RepairData) -> Dissection:
    return Dissection(
        candidate.coded.model, layer_constants(candidate.model), candidate.model, poor.runs, data.threads,
        data.meaning, data.known,
    )  # fmt: skip


def _noises(candidate: Candidate, taken_apart: Dissection, poor: Poor, data: RepairData) -> _Noises:
    parts = [Part(taken_apart.layers, ()), *(Part((), (name,)) for name in taken_apart.tensors)]
    counter = SampleCounter("looking for tensors that need 16 bits", len(parts), data.progress)
    names = _names(candidate)
    weights, *checks = taken_apart.checks(parts, counter)
    by_tensor = {names[name]: check for name, check in zip(taken_apart.tensors, checks, strict=True)}
    return _Noises(_by_branch(by_tensor, poor.needs), _noise(weights, poor.needs), poor.needs)


def _applied(candidate: Candidate, chosen: Sequence[SpotClass]) -> tuple[Candidate, RepairReport]:
    """The candidate with the chosen spots, and the report."""
    names = frozenset().union(*(one.members for one in chosen))
    changed = replace(candidate, spots=candidate.spots | names)
    makers = [node.name or "" for node in candidate.model.graph if any(v.name in names for v in node.outputs)]
    told = f"tensors with 16-bit codes: {len(names)}"
    work = f"multiply-accumulates done twice: {100.0 * sum(one.price for one in chosen):.1f} %"
    return changed, RepairReport(tuple(makers) or tuple(sorted(names)), (told, work))


def _names(candidate: Candidate) -> dict[str, str]:
    """Tensor of the int8 graph before its codes → its name; that of an output stays with what is behind."""
    pairs, known = coded_pairs(candidate.coded.model), candidate.coded.placement.readers
    return {
        origin.name or "": (origin if origin.name in known else value).name or "" for value, origin in pairs
    }


def _before_scores(candidate: Candidate, data: RepairData) -> frozenset[str]:
    """What lies between the last layers and the scores of a detector."""
    meaning = meaning_of(candidate.model) if data.meaning is None else data.meaning
    scores = [branch for branch in meaning.judged if branch.kind in LEADING]
    return reached(candidate.model, scores, within_tail=True) if scores else frozenset()


def _chosen(classes: Sequence[SpotClass], noises: _Noises, ends: frozenset[str]) -> list[SpotClass]:
    """The best ones, as many as are needed and as the budget allows; those of ``ends`` that cost no work."""
    spent, found, left = 0.0, list[SpotClass](), dict(noises.totals)
    for one in _in_order(classes, noises):
        share = noises.share(one.noise, noises.unfinished(left))
        if _decides(one, ends) or (share >= LEAST_SHARE and spent + one.price <= BUDGET):
            spent += one.price
            found.append(one)
            left = {name: noise - one.noise[name] for name, noise in left.items()}
    return found


def _in_order(classes: Sequence[SpotClass], noises: _Noises) -> list[SpotClass]:
    """What takes away most of the noise per work in front."""

    def worth(one: SpotClass) -> float:
        return noises.share(one.noise, noises.totals) / (one.price + LEAST_PRICE)

    return sorted(classes, key=lambda one: (-worth(one), sorted(one.members)))


def _decides(one: SpotClass, ends: frozenset[str]) -> bool:
    """Whether these are the last codes before scores, and cost no work."""
    return one.price == 0.0 and bool(one.members & ends)


def _classes(candidate: Candidate, noises: _Noises, sample: Arrays) -> list[SpotClass]:
    """All classes that may be spots."""
    placement, model = candidate.coded.placement, candidate.model
    named = {name for found in noises.tensors.values() for name in found}
    asked = sorted(named & placement.readers.keys() - candidate.spots)
    found = find_spots(model, placement, candidate.table, candidate.scheme, asked)
    free = [name for name in asked if name not in found.refused]
    members = set(shared_with(model, placement, candidate.table, candidate.scheme, free).values())
    work = work_of_codes(model, sample)
    whole, once = max(sum(work.values()), 1), used_once(model, work)
    dear = {name: macs for name, macs in work.items() if name not in once}
    return [
        SpotClass(names, _sums(names, noises), read_by(model, names, dear) / whole)
        for names in sorted(members, key=sorted)
    ]


def work_of_codes(model: ir.Model, sample: Arrays) -> dict[str, int]:
    """Name of a node → its multiply-accumulates; without recurrent layers, which read real values."""
    cells = {node.name for node in model.graph if node.op_type in RECURRENT}
    return {name: macs for name, macs in node_macs(model, sample).items() if name not in cells}


def _sums(names: frozenset[str], noises: _Noises) -> dict[str, float]:
    """Branch → the noise of the tensors."""
    return {
        branch: sum(found.get(name, 0.0) for name in sorted(names))
        for branch, found in noises.tensors.items()
    }


def _by_branch(checks: Mapping[str, Check], poor: Collection[str]) -> dict[str, dict[str, float]]:
    """Poor branch → tensor → its noise there."""
    by_branch: dict[str, dict[str, float]] = {}
    for name, check in checks.items():
        for branch, noise in _noise(check, poor).items():
            by_branch.setdefault(branch, {})[name] = noise
    return by_branch


def _noise(check: Check, poor: Collection[str]) -> dict[str, float]:
    """Poor branch → noise of a part alone."""
    figures = figures_of(check).items()
    return {name: 10.0 ** (-max(dB, -LARGEST_DB) / 10.0) for name, dB in figures if name in poor}


def read_by(model: ir.Model, names: Collection[str], work: Mapping[str, int]) -> int:
    """Multiply-accumulates of the layers that read one of the tensors.

    Args:
        model: a prepared float graph.
        names: of its tensors.
        work: name of a node → its multiply-accumulates; others count for none.
    """
    return sum(
        work.get(node.name or "", 0)
        for node in model.graph
        if any(value is not None and value.name in names for value in node.inputs)
    )
