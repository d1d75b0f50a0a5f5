"""A whole table judged: the model is quantized with it and run beside the float model on held-back samples.

    d(i, o)    10 log10( Σ r² / Σ (r − y)² )            run i, float output o: r in FP32, y in INT8
    typical    mean over i and o of d                    the geometric mean of the ratios
    total      mean over o of 10 log10( Σ_i Σ r² / Σ_i Σ (r − y)² )
    sqnr_db    (typical + total) / 2
    evaluated  10 log10( Σ_o Σ_i Σ r² / Σ_o Σ_i Σ (r − y)² )    what ``calib8 evaluate`` calls SQNR

One odd image decides the total, none decides the typical figure: a good table has both. Of outputs of
different size the largest decides ``evaluated``, none the total; with one output they are the same. A table
that is behind another one after some of the runs is not judged with the others (``Race``).
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

LARGEST_DB: Final = 120.0
"""As good as equal."""

LOOKS: Final = {16: 2.0, 32: 1.0}
"""Runs → dB: a table further behind the best one on so many runs is not judged on more."""

Outputs = list[npt.NDArray[Any]]
Energies = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Check:
    """What a table does to the whole model.

    Attributes:
        name: of the table: a method, or how tensors chose one by one.
        sqnr_db: see the top of the file, −120 … 120; −inf where an output was not finite.
        typical_db, total_db: its two halves.
        runs: on how many runs; fewer than those of others where it was behind.
        evaluated_db: what ``calib8 evaluate`` tells of these runs.
    """

    name: str
    sqnr_db: float
    typical_db: float
    total_db: float
    runs: int
    evaluated_db: float


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


def check_table(
    name: str,
    table: CalibrationTable,
    prepared: ir.Model,
    scheme: QuantScheme,
    keep_float: frozenset[str],
    runs: Sequence[Arrays],
    expected: Sequence[Outputs],
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
        expected: what ``float_outputs`` gave for them.
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
    expected: Sequence[Outputs],
    threads: int,
    on_run: Callable[[int], None] = lambda runs: None,
    lost: Callable[[Check], bool] = lambda check: False,
    configure: Callable[[Any], None] = lambda options: None,
) -> Check:
    """Compares a quantized model; the arguments are those of ``check_table`` and ``run_each``.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    energies = []
    with closing(run_each(model, runs, threads=threads, configure=configure)) as found:
        for outputs, reference in zip(found, expected, strict=True):
            energies.append(_energies(reference, _floats(outputs)))
            on_run(1)
            if len(energies) in LOOKS and lost(so_far := judged(name, np.array(energies))):
                on_run(len(runs) - len(energies))
                return so_far
    return judged(name, np.array(energies))


def judged(name: str, energies: Energies) -> Check:
    """The figures from energies [runs, outputs, signal and noise].

    An output without any signal tells nothing; one that is not finite is as bad as can be.
    """
    sums = np.sort(energies, axis=0).sum(axis=0)  # ascending: nothing depends on the order of the runs
    told = sums[:, 0] > 0.0
    if not np.all(np.isfinite(sums)):
        return Check(name, -math.inf, -math.inf, -math.inf, len(energies), -math.inf)
    if not np.any(told):
        return Check(name, 0.0, 0.0, 0.0, len(energies), 0.0)
    total = float(np.mean(_decibels(sums[told])))
    single = energies[:, told].reshape(-1, 2)
    typical = float(np.mean(np.sort(_decibels(single[single[:, 0] > 0.0]))))
    evaluated = float(_decibels(sums.sum(axis=0, keepdims=True))[0])
    return Check(name, (typical + total) / 2.0, typical, total, len(energies), evaluated)


def _decibels(energies: Energies) -> Energies:
    """10 log10(signal / noise) of rows [n, 2] with a signal, −120 … 120."""
    limit = 10.0 ** (LARGEST_DB / 10.0)
    ratio = energies[:, 0] / np.maximum(energies[:, 1], energies[:, 0] / limit)
    return np.asarray(10.0 * np.log10(np.maximum(ratio, 1.0 / limit)))


def _energies(reference: Outputs, outputs: Outputs) -> list[tuple[float, float]]:
    """Signal and noise of every output; one of another shape, which only values can decide, is all noise."""
    found = []
    for left, right in zip(reference, outputs, strict=True):
        wide = left.astype(np.float64).reshape(-1)
        signal = float(np.sum(wide * wide))
        if left.shape != right.shape:
            found.append((signal, signal))
            continue
        with np.errstate(invalid="ignore"):
            difference = wide - right.reshape(-1)
        found.append((signal, float(np.sum(difference * difference))))
    return found


def _floats(outputs: Outputs) -> Outputs:
    return [array for array in outputs if array.dtype.kind == "f"]
