"""In which order units become float: what takes away most of the noise per work goes first.

noise(part)    10^(−SQNR/10) of the outputs where the codes of that part alone are left; all parts are looked
               at in one sweep (``calib8.dissection``)
gone(S)        what of the noise is gone with the units S in float: that of their weights, and that of every
               tensor of which all units around it are in S; a tensor between float and int8 keeps its codes
step           the units that come next together: one unit, or all around a tensor that are still int8
order          of steps by gain of gone / Σ (work + 0.001 · work of all), descending: a unit of next to no
               work is not free, its neighbours need codes of what it yields
most           that may be float at once: all but the unit that multiplies and makes least noise alone
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import onnx_ir as ir

from calib8.dissection.dissect import Dissection
from calib8.dissection.float_constants import layer_constants
from calib8.dissection.sweep_graph import Part
from calib8.errors import Calib8Error
from calib8.passes.place import Placement
from calib8.progress import SampleCounter
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.units import Unit

LOOKED_AT: Final = 8
"""Runs: what orders units is a difference of many dB; a detector finds nothing at all in some."""

LEAST_WORK: Final = 0.001
"""Share of all work that every unit in float counts for."""


@dataclass(frozen=True)
class Order:
    """In which order units become float.

    Attributes:
        steps: each as one unit, the first one in front; after all of them one unit that multiplies is int8.
        most: all units but the quietest one that multiplies, which is not always the last of the steps;
            empty where there is none.
        note: why the steps are ordered by work alone, if so.
    """

    steps: tuple[Unit, ...]
    most: tuple[Unit, ...]
    note: str = ""


def ordered_steps(candidate: Candidate, units: Sequence[Unit], data: RepairData) -> Order:
    """The steps in which units become float.

    Args:
        candidate: what the int8 model is made from.
        units: all that may become float.
        data: the first of its runs tell the noise.
    """
    try:
        noise = part_noise(candidate, units, data)
        note = ""
    except Calib8Error as error:
        noise, note = Noise(dict.fromkeys(units, 1.0), {}), f"nodes ordered by their work: {error.problem}"
    return Order(floatable(steps(units, noise), units), all_but_quietest(units, noise), note)


@dataclass(frozen=True)
class Noise:
    """Noise at the outputs by where it comes from.

    Attributes:
        weights: unit → of its weights.
        tensors: units around a tensor → of its codes; those of tensors with the same units added up.
    """

    weights: Mapping[Unit, float]
    tensors: Mapping[frozenset[Unit], float]

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum([*self.weights.values(), *self.tensors.values()])

    def gain(self, chosen: frozenset[Unit], more: frozenset[Unit]) -> float:
        """What is gone with ``more`` in float beside ``chosen``; the order of the units does not matter."""
        both = chosen | more
        touched = {around for unit in more for around in self.around.get(unit, ())}
        inside = [self.tensors[around] for around in touched if around <= both]
        return math.fsum([*(self.weights.get(unit, 0.0) for unit in more), *inside])

    @cached_property
    def around(self) -> dict[Unit, list[frozenset[Unit]]]:
        """Unit → the keys of ``tensors`` that hold it."""
        found: dict[Unit, list[frozenset[Unit]]] = {}
        for around in self.tensors:
            for unit in around:
                found.setdefault(unit, []).append(around)
        return found


def steps(units: Sequence[Unit], noise: Noise) -> tuple[Unit, ...]:
    """All units in steps, see the top of the file; each step merged into one unit."""
    least = max(LEAST_WORK * sum(unit.work for unit in units), 1.0)
    rank = {unit: index for index, unit in enumerate(units)}
    chosen, found = frozenset[Unit](), list[Unit]()

    def worth(group: frozenset[Unit]) -> tuple[float, list[int]]:
        price = math.fsum(unit.work + least for unit in group)
        return -noise.gain(chosen, group) / price, sorted(rank[unit] for unit in group)

    groups = {*(frozenset({unit}) for unit in units), *noise.tensors} - {frozenset()}
    left = {group: worth(group) for group in groups}
    while left:
        best = min(left, key=left.__getitem__)
        chosen |= best
        found.append(merged(sorted(best, key=rank.__getitem__)))
        near = best.union(*(around for unit in best for around in noise.around.get(unit, ())))
        changed = [group for group in left if not group.isdisjoint(near)]  # what others gain stays the same
        for group in changed:
            del left[group]
        left |= {rest: worth(rest) for rest in {group - chosen for group in changed} if rest}
    return tuple(found)


def merged(units: Sequence[Unit]) -> Unit:
    """Several units as one."""
    nodes = tuple(node for unit in units for node in unit.nodes)
    return Unit(nodes, sum(unit.macs for unit in units), sum(unit.work for unit in units))


def floatable(ordered: Sequence[Unit], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The first steps, as many as leave a unit that multiplies: a model without one is a float model."""
    left = sum(1 for unit in units if unit.macs)
    multiplying = {unit.nodes[0] for unit in units if unit.macs}
    found = []
    for step in ordered:
        left -= sum(node in multiplying for node in step.nodes)
        if left < 1:
            break
        found.append(step)
    return tuple(found)


def all_but_quietest(units: Sequence[Unit], noise: Noise) -> tuple[Unit, ...]:
    """All units that can be float at once, see ``quietest``; none where none multiplies."""
    stays = quietest(units, noise)
    return () if stays is None else tuple(unit for unit in units if unit is not stays)


def quietest(units: Sequence[Unit], noise: Noise) -> Unit | None:
    """The unit that multiplies and makes least noise where it alone is int8; of several the one of most work.

    None: none multiplies.
    """
    every = frozenset(units)
    alone = {unit: noise.gain(every - {unit}, frozenset({unit})) for unit in units if unit.macs}
    return min(alone, key=lambda unit: (alone[unit], -unit.work), default=None)


def part_noise(candidate: Candidate, units: Sequence[Unit], data: RepairData) -> Noise:
    """The noise of every unit's weights and of every tensor's codes.

    Args:
        candidate, units, data: as for ``ordered_steps``.

    Raises:
        Calib8Error: the int8 graph cannot be taken apart.
    """
    quantized, runs = candidate.coded, data.runs[:LOOKED_AT]
    constants = layer_constants(candidate.model)
    dissection = Dissection(
        quantized.model, constants, candidate.model, runs, data.threads, data.meaning, data.known
    )
    layers = [name for name in dissection.layers if name in constants]
    parts = [Part((name,), ()) for name in layers] + [Part((), (name,)) for name in dissection.tensors]
    counter = SampleCounter("measuring layer by layer", len(parts), data.progress)
    noise = [_noise(found) for found in dissection.qualities(parts, counter)]
    weights = dict(zip(layers, noise, strict=False))
    around = _units_around(candidate.model, quantized.placement, units)
    tensors: dict[frozenset[Unit], float] = {}
    for name, found in zip(dissection.tensors, noise[len(layers) :], strict=True):
        if group := around.get(name):
            tensors[group] = tensors.get(group, 0.0) + found
    return Noise({unit: sum(weights.get(node, 0.0) for node in unit.nodes) for unit in units}, tensors)


def _units_around(model: ir.Model, placement: Placement, units: Sequence[Unit]) -> dict[str, frozenset[Unit]]:
    """Tensor with codes → the units that keep them there while one of them is int8."""
    home = {node: unit for unit in units for node in unit.nodes}
    found: dict[str, set[Unit]] = {name: set() for name in placement.readers}
    for node in model.graph:
        unit = home.get(node.name or "")
        if unit is None:
            continue
        for value in node.inputs:
            if value is not None and value.name in found:
                found[value.name].add(unit)
        for value in node.outputs:
            if value.name in found and placement.readers[value.name] is None:
                found[value.name].add(unit)
    return {name: frozenset(group) for name, group in found.items()}


def _noise(sqnr_db: float) -> float:
    return float(10.0 ** (-sqnr_db / 10.0)) if math.isfinite(sqnr_db) else 1e12
