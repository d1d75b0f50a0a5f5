"""In which order units become float: what most of the noise per work comes from goes first.

noise(part)    10^(−SQNR/10) of the outputs where the codes of that part alone are left
benefit(unit)  Σ noise(weights of its nodes) + Σ noise(tensors that it reads) / readers
order          benefit / (work + 0.001 · work of all), descending: a unit of next to no work is not free, its
               neighbours need codes of what it yields
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import onnx_ir as ir

from calib8.analysis.damage import Dissection, Part
from calib8.analysis.float_reference import FloatConstants
from calib8.errors import Calib8Error
from calib8.model.graph import constant, input_at
from calib8.model.runtime import Arrays
from calib8.progress import Progress, SampleCounter
from calib8.quantization.qdq import label
from calib8.repair.candidate import Candidate
from calib8.scheme import WEIGHTED_OPS
from calib8.tuning.costs import Unit

LOOKED_AT: Final = 4
"""Runs: what orders units is a difference of many dB."""

LEAST_WORK: Final = 0.001
"""Share of all work that every unit in float counts for."""


def ordered_units(
    candidate: Candidate, units: Sequence[Unit], runs: Sequence[Arrays], threads: int, progress: Progress
) -> tuple[tuple[Unit, ...], str]:
    """The units, those to become float first in front; and why they are ordered by work alone, if so.

    Args:
        candidate: what the int8 model is made from.
        units: all that may become float.
        runs: inputs to look at.
        threads: for ONNX Runtime.
        progress: see ``Progress``.
    """
    try:
        benefit = _benefits(candidate, units, runs[:LOOKED_AT], threads, progress)
        note = ""
    except Calib8Error as error:
        benefit, note = dict.fromkeys(units, 1.0), f"units ordered by their work alone: {error.problem}"
    rank = {unit: index for index, unit in enumerate(units)}
    least = max(LEAST_WORK * sum(unit.work for unit in units), 1.0)
    found = sorted(units, key=lambda unit: (-benefit[unit] / (unit.work + least), rank[unit]))
    return tuple(found), note


def floatable(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Those in front of the last unit that multiplies: a model without any such in int8 is a float model."""
    last = max((index for index, unit in enumerate(units) if unit.macs), default=0)
    return tuple(units[:last])


def _benefits(
    candidate: Candidate, units: Sequence[Unit], runs: Sequence[Arrays], threads: int, progress: Progress
) -> dict[Unit, float]:
    quantized = candidate.quantized()
    constants = _float_constants(candidate.model)
    dissection = Dissection(quantized.model, constants, candidate.model, runs, threads)
    layers = [name for name in dissection.layers if name in constants]
    counter = SampleCounter("taking layers apart", len(layers) + len(dissection.tensors), progress)
    weights, codes = dict[str, float](), dict[str, float]()
    for name in layers:
        weights[name] = _noise(dissection.quality(Part((name,), ())))
        counter(1)
    for name in dissection.tensors:
        codes[name] = _noise(dissection.quality(Part((), (name,))))
        counter(1)
    return _summed(candidate.model, quantized.placement.quantized_nodes(), units, weights, codes)


def _summed(
    model: ir.Model,
    quantized: frozenset[str],
    units: Sequence[Unit],
    weights: Mapping[str, float],
    codes: Mapping[str, float],
) -> dict[Unit, float]:
    reads = {
        label(node): [value.name or "" for value in node.inputs if value is not None]
        for node in model.graph
        if node.name in quantized
    }
    readers = Counter(name for names in reads.values() for name in set(names))
    return {
        unit: sum(
            weights.get(node, 0.0)
            + sum(codes.get(name, 0.0) / readers[name] for name in set(reads.get(node, ())))
            for node in unit.nodes
        )
        for unit in units
    }


def _noise(sqnr_db: float) -> float:
    return float(10.0 ** (-sqnr_db / 10.0)) if math.isfinite(sqnr_db) else 1e12


def _float_constants(model: ir.Model) -> dict[str, FloatConstants]:
    """What the layers of the float graph compute with."""
    found = {}
    for node in model.graph:
        if node.op_type not in WEIGHTED_OPS:
            continue
        weight, bias = constant(node.inputs[1]), constant(input_at(node, 2))
        if weight is not None:
            found[label(node)] = FloatConstants(weight, bias)
    return found
