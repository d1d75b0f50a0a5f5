"""How well candidate ranges of a tensor serve the layers that read it.

e(k, i)    error energy / signal energy at a reader's output, candidate k, run i
typical    Σ readers  mean_i  ln e(k, i)              the geometric mean: one odd image does not decide
total      Σ readers  ln( Σ_i error / Σ_i signal )    what the loudest images suffer counts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.autorange.probe import Probe, probe_model
from calib8.errors import DataError
from calib8.model.runtime import Arrays, open_session
from calib8.qparams import QParams, QuantSpec

SMALLEST_ERROR: Final = 1e-9
"""Relative energy (−90 dB) below which there is no error to speak of."""

QUIET: Final = 1e-6
"""A run whose signal is this share of the mean counts as having that share."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Scores of the candidates of one tensor, natural logarithms of energy ratios; less is better.

    Attributes:
        typical: by the geometric mean over runs, float64 [candidates]; inf where an output was not finite.
        total: by sums over runs, the same.
        readers: number of outputs looked at.
    """

    typical: Floats
    total: Floats
    readers: int


def score_candidates(
    prepared: ir.Model,
    candidates: Mapping[str, Sequence[QParams]],
    spec: QuantSpec,
    runs: Sequence[Arrays],
    threads: int,
    on_run: Callable[[int], None] = lambda runs: None,
) -> dict[str, Scores]:
    """Scores of all candidates of all tensors that have more than one.

    Args:
        prepared: the float graph.
        candidates: tensor → how it may be coded, the same code only once.
        spec: type of the codes.
        runs: inputs of the model.
        threads: for ONNX Runtime.
        on_run: called with 1 after each run.

    Raises:
        ModelError, DataError: the scoring graph cannot be built or run.
    """
    open_ones = {name: qparams for name, qparams in candidates.items() if len(qparams) > 1}
    if not open_ones:
        return {}
    probe = probe_model(prepared, open_ones, spec)
    session = open_session(probe.model, threads=threads, name="scoring graph", configure=_for_scoring)
    errors, signals = [], []
    for feeds in runs:
        error, signal = session.run(feeds)
        if signal.shape != (len(probe.readings),) or error.shape != (probe.readings[-1].last,):
            raise DataError("scoring graph", "a layer mixes its batch", "Use --method mse")
        errors.append(error.astype(np.float64))
        signals.append(signal.astype(np.float64))
        on_run(1)
    return _scores(probe, np.array(errors), np.array(signals))


def _for_scoring(options: Any) -> None:
    """Q and DQ are what is measured: ONNX Runtime must not move them or fuse them away.

    And memory is used again at once, where a plan for all of it would lay the copies of many tensors side by
    side.
    """
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.enable_mem_pattern = False


def _scores(probe: Probe, errors: Floats, signals: Floats) -> dict[str, Scores]:
    """Scores from the energies of all runs, [runs, candidates of all readings] and [runs, readings]."""
    found: dict[str, Scores] = {}
    for index, reading in enumerate(probe.readings):
        part = errors[:, reading.first : reading.last]
        typical, total = reading_scores(part, signals[:, index])
        before = found.get(reading.tensor)
        if before is None:
            found[reading.tensor] = Scores(typical, total, 1)
        else:
            found[reading.tensor] = Scores(before.typical + typical, before.total + total, before.readers + 1)
    return found


def reading_scores(errors: Floats, signals: Floats) -> tuple[Floats, Floats]:
    """Typical and total score of one reader from error energies [runs, candidates] and signals [runs].

    A reader whose output is zero in all runs tells nothing: its scores are 0.
    """
    mean = float(np.mean(np.sort(signals)))  # ascending: no sum depends on the order of the runs
    if not 0.0 < mean < np.inf:
        return np.zeros(errors.shape[1]), np.zeros(errors.shape[1])
    broken = ~np.all(np.isfinite(errors), axis=0)
    finite = np.where(np.isfinite(errors), errors, 0.0)
    relative = finite / np.maximum(signals, QUIET * mean)[:, None]
    logarithms = np.log(np.maximum(relative, SMALLEST_ERROR))
    typical = np.mean(np.sort(logarithms, axis=0), axis=0)
    total = np.log(np.maximum(np.mean(np.sort(finite, axis=0), axis=0) / mean, SMALLEST_ERROR))
    return np.where(broken, np.inf, typical), np.where(broken, np.inf, total)
