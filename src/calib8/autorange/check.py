"""A whole table judged: the model is quantized with it and run beside the float model on held-back samples.

    d(i, b)    10 log10( Σ r² / Σ (r − y)² )            run i, branch b of the outputs: r in FP32, y in INT8
    typical    mean over i of d, soft minimum over b     the geometric mean of the ratios
    total      10 log10( Σ_i Σ r² / Σ_i Σ (r − y)² ), soft minimum over b
    sqnr_db    (typical + total) / 2
    evaluated  10 log10( Σ_b Σ_i Σ r² / Σ_b Σ_i Σ (r − y)² )    what ``calib8 evaluate`` calls SQNR

One odd image decides the total, none decides the typical figure: a good table has both. Branches are what
means one thing (``calib8.tasks``); of several the worst decides (``calib8.tasks.figures``), and r² counts
only what differs from run to run, as boxes are for the most part the places of their anchors. With one branch
all is as if there were no branches. A table that is behind another one after some of the runs is not judged
with the others (``Race``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.runtime import Arrays, run_each
from calib8.quantization.quantize import quantize_graph
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable
from calib8.tasks.branches import Meaning
from calib8.tasks.figures import (
    LARGEST_DB as LARGEST_DB,
)
from calib8.tasks.figures import (
    BranchFigures,
    Energies,
    branch_figures,
    decibels,
    energies_of,
    soft_minimum,
    typical_db,
)

LOOKS: Final = {16: 2.0, 32: 1.0}
"""Runs → dB: a table further behind the best one on so many runs is not judged on more."""

Outputs = list[npt.NDArray[Any]]

FEWEST_TO_CENTRE: Final = 4
"""With fewer runs of one shape all of the signal counts: what they have in common is not known."""


@dataclass(frozen=True)
class Check:
    """What a table does to the whole model.

    Attributes:
        name: of the table: a method, or how tensors chose one by one.
        sqnr_db: see the top of the file, −120 … 120; −inf where an output was not finite.
        typical_db, total_db: its two halves.
        runs: on how many runs; fewer than those of others where it was behind.
        evaluated_db: what ``calib8 evaluate`` tells of these runs.
        branches: of each branch that has a signal; empty with a single one, or where they are not known.
    """

    name: str
    sqnr_db: float
    typical_db: float
    total_db: float
    runs: int
    evaluated_db: float
    branches: tuple[BranchFigures, ...] = ()

    def branch(self, name: str) -> BranchFigures | None:
        """The figures of a branch."""
        return next((branch for branch in self.branches if branch.name == name), None)


class Race:
    """The best figures so far on the same runs."""

    def __init__(self) -> None:
        """Begins without any."""
        self._best: dict[int, float] = {}

    def lost(self, check: Check, allowance: float = 0.0) -> bool:
        """Whether it makes no sense to judge a table on more runs; it may be ``allowance`` dB worse."""
        if check.runs not in LOOKS:
            return False
        best = max(self._best.get(check.runs, -math.inf), check.sqnr_db)
        self._best[check.runs] = best
        return check.sqnr_db < best - LOOKS[check.runs] - allowance


def float_outputs(prepared: ir.Model, runs: Sequence[Arrays], threads: int) -> list[Outputs]:
    """What the float model yields for every run, float outputs only.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    return [_floats(outputs) for outputs in run_each(prepared, runs, threads=threads)]


@dataclass(frozen=True)
class Expected:
    """What the float model yields, and what of it counts.

    Attributes:
        outputs: float outputs of every run.
        meaning: their branches; None: each output is one.
        signals: float64 [runs, pieces], what counts as signal where there are several branches; None: all.
    """

    outputs: Sequence[Outputs]
    meaning: Meaning | None = None
    signals: Energies | None = None

    @classmethod
    def of(cls, outputs: Sequence[Outputs], meaning: Meaning | None) -> Expected:
        """With the signals of the branches."""
        return cls(outputs, meaning, varying_signals(outputs, meaning))

    def energies(self, index: int, outputs: Outputs) -> list[tuple[float, float]]:
        """Signal and noise of the pieces of one run."""
        pieces = (self.outputs[index], outputs)
        return energies_of(*(pieces if self.meaning is None else map(self.meaning.cut, pieces)))


def varying_signals(outputs: Sequence[Outputs], meaning: Meaning | None) -> Energies | None:
    """float64 [runs, pieces]: Σ (r − mean of r over the runs)²; None where all of the signal is to count.

    That is so with a single branch, with few runs, and where shapes differ from run to run.
    """
    if meaning is None or not meaning.several or len(outputs) < FEWEST_TO_CENTRE:
        return None
    shapes = [array.shape for array in outputs[0]]
    if any([array.shape for array in run] != shapes for run in outputs):
        return None
    means = [np.zeros(shape) for shape in shapes]
    for run in outputs:
        for mean, array in zip(means, run, strict=True):
            mean += array
    found = np.empty((len(outputs), len(meaning.pieces)))
    for index, run in enumerate(outputs):
        centred = [array - mean / len(outputs) for array, mean in zip(run, means, strict=True)]
        found[index] = [float(np.sum(np.square(part))) for part in meaning.cut(centred)]
    return found * (len(outputs) / (len(outputs) - 1))


def check_table(
    name: str,
    table: CalibrationTable,
    prepared: ir.Model,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    runs: Sequence[Arrays],
    expected: Expected | Sequence[Outputs],
    threads: int,
    lost: Callable[[Check], bool],
    on_run: Callable[[int], None] = lambda runs: None,
) -> Check:
    """Quantizes with the table and compares, on all runs unless the table falls behind.

    Args:
        name: for the result.
        table: ranges.
        prepared: the float graph.
        scheme: the target.
        keep_float: nodes that stay float.
        runs: inputs.
        expected: what ``float_outputs`` gave for them, and its branches.
        threads: for ONNX Runtime.
        lost: whether to stop, from the figures so far; asked where ``LOOKS`` says.
        on_run: called with 1 after each run, and with the number of those left out.

    Raises:
        Calib8Error: the table lacks a tensor, or ONNX Runtime cannot run the quantized model.
    """
    quantized = quantize_graph(prepared, table, scheme, keep_float)
    return check_model(name, quantized.model, runs, expected, threads, on_run, lost)


def check_model(
    name: str,
    model: ir.Model,
    runs: Sequence[Arrays],
    expected: Expected | Sequence[Outputs],
    threads: int,
    on_run: Callable[[int], None] = lambda runs: None,
    lost: Callable[[Check], bool] = lambda check: False,
    configure: Callable[[Any], None] = lambda options: None,
) -> Check:
    """Compares a quantized model; the arguments are those of ``check_table`` and ``run_each``.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    if not isinstance(expected, Expected):
        expected = Expected(expected)
    energies = list[list[tuple[float, float]]]()
    with closing(run_each(model, runs, threads=threads, configure=configure)) as found:
        for index, outputs in enumerate(found):
            energies.append(expected.energies(index, _floats(outputs)))
            on_run(1)
            if len(energies) in LOOKS and lost(so_far := _judged(name, energies, expected)):
                on_run(len(runs) - len(energies))
                return so_far
    return _judged(name, energies, expected)


def run_energies(model: ir.Model, runs: Sequence[Arrays], expected: Expected, threads: int) -> Energies:
    """Signal and noise of the pieces of every run of a quantized model, float64 [runs, pieces, 2].

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    with closing(run_each(model, runs, threads=threads)) as found:
        return np.array([expected.energies(index, _floats(outputs)) for index, outputs in enumerate(found)])


def _judged(name: str, energies: Sequence[Sequence[tuple[float, float]]], expected: Expected) -> Check:
    signals = None if expected.signals is None else expected.signals[: len(energies)]
    return judged(name, np.array(energies), expected.meaning, signals)


def judged(
    name: str, energies: Energies, meaning: Meaning | None = None, signals: Energies | None = None
) -> Check:
    """The figures.

    A branch without any signal tells nothing; one that is not finite is as bad as can be.

    Args:
        name: for the result.
        energies: signal and noise, float64 [runs, pieces, 2].
        meaning: which pieces are a branch; None: each is one.
        signals: what counts as signal, float64 [runs, pieces]; None: that of ``energies``.
    """
    runs = len(energies)
    if not energies.size:  # no output is float: nothing tells a model from another
        return Check(name, 0.0, 0.0, 0.0, runs, 0.0)
    if not np.all(np.isfinite(np.sort(energies, axis=0).sum(axis=0))):
        return Check(name, -math.inf, -math.inf, -math.inf, runs, -math.inf, _branches(energies, meaning))
    counted = energies if signals is None else np.stack([signals, energies[..., 1]], axis=-1)
    rows = counted if meaning is None else meaning.joined(counted)
    sums = np.sort(rows, axis=0).sum(axis=0)  # ascending: nothing depends on the order of the runs
    told = sums[:, 0] > 0.0
    if not np.any(told):
        return Check(name, 0.0, 0.0, 0.0, runs, 0.0)
    total = soft_minimum(list(decibels(sums[told])))
    if np.sum(told) == 1:
        single = rows[:, told].reshape(-1, 2)
        typical = float(np.mean(np.sort(decibels(single[single[:, 0] > 0.0]))))
    else:
        typical = soft_minimum([typical_db(rows[:, place]) for place in np.flatnonzero(told)])
    whole = np.sort(energies, axis=0).sum(axis=0)
    evaluated = float(decibels(whole.sum(axis=0, keepdims=True))[0])
    branches = _branches(energies, meaning)
    return Check(name, (typical + total) / 2.0, typical, total, runs, evaluated, branches)


def _branches(energies: Energies, meaning: Meaning | None) -> tuple[BranchFigures, ...]:
    if meaning is None or not meaning.several:
        return ()
    return branch_figures([branch.name for branch in meaning.judged], meaning.joined(energies))


def _floats(outputs: Outputs) -> Outputs:
    return [array for array in outputs if array.dtype.kind == "f"]
