"""Floats: the few layers that lose too much in 8 bits stay float, for targets that have no 16-bit codes.

    units, steps   see ``calib8.repair.unit_order``: what takes away most of the noise per work goes first
    taken          steps in this order that take away 0.1 % of the noise or more, as many as fit: 15 % of the
                   multiply-accumulates more than there were

Nothing is done where every branch of the outputs is good enough (``calib8.repair.enough``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calib8.errors import Calib8Error
from calib8.model.work import node_macs
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.enough import FOR_FLOATS, poor_branches
from calib8.repair.unit_order import Noise, floatable, part_noise, steps
from calib8.repair.units import Unit, units_of

LEAST_SHARE: Final = 0.001
"""Of the noise, below which no step is worth floats: what multiplies nothing costs time too."""

BUDGET: Final = 0.15
"""The layers chosen at once: so much of the multiply-accumulates."""


def keep_worst_float(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Leaves the layers of most noise per work in float, as many as the budget allows.

    Args:
        candidate: what to repair; nodes that are float stay so.
        data: some of its runs tell the noise, see ``Poor``.

    Returns:
        The candidate with its floats, and what was done; the report names the nodes. Nothing is done where
        the target wants integers alone or has 16-bit codes, or the outputs are good enough.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    if not candidate.scheme.mixes_floats or not data.runs:
        return candidate, RepairReport(())
    poor = poor_branches(candidate, data, FOR_FLOATS)
    if not poor.needs:
        return candidate, RepairReport(())
    units = units_of(candidate.model, candidate.coded.placement, poor.runs[0])
    try:
        noise = part_noise(candidate, units, replace(data, runs=poor.runs))
    except Calib8Error as error:  # not what the float model computes once its codes are gone
        return candidate, RepairReport((), (f"no floats: {error.problem}",))
    whole = max(sum(node_macs(candidate.model, poor.runs[0]).values()), 1)
    chosen = _chosen(units, noise, BUDGET * whole)
    if not chosen:
        return candidate, RepairReport(())
    within = {node for step in chosen for node in step.nodes}
    names = [node.name for node in candidate.model.graph if node.name in within]
    work = f"multiply-accumulates in float: {100.0 * sum(step.macs for step in chosen) / whole:.1f} %"
    return replace(candidate, floats=candidate.floats | frozenset(names)), RepairReport(tuple(names), (work,))


def _chosen(units: Sequence[Unit], noise: Noise, most: float) -> list[Unit]:
    """The first steps that are worth it, those left out that no longer fit."""
    home = {unit.nodes[0]: unit for unit in units}
    spent, found, taken = 0, list[Unit](), frozenset[Unit]()
    for step in floatable(steps(units, noise), units):
        more = frozenset(home[node] for node in step.nodes if node in home)
        if spent + step.macs <= most and noise.gain(taken, more) >= LEAST_SHARE * noise.total:
            spent += step.macs
            found.append(step)
            taken |= more
    return found
