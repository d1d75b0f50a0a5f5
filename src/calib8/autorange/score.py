"""How well candidate ranges of a tensor serve the layers that read it.

e(k, i)    error energy / signal energy at a reader's output, candidate k, run i
typical    Σ readers  mean_i  ln e(k, i)              the geometric mean: one odd image does not decide
total      Σ readers  ln( Σ_i error / Σ_i signal )    what the loudest images suffer counts

What is clearly behind in both after the first runs is not scored on the others (``contenders``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.autorange.probe import Reading, probe_model
from calib8.errors import DataError
from calib8.model.memory import LARGE, release_memory, trim_heap
from calib8.model.runtime import Arrays, Session, keep_quantizers, open_session
from calib8.model.save import constant_bytes
from calib8.parameters import parameter
from calib8.qparams import QParams, QuantSpec
from calib8.scheme import QuantScheme

SMALLEST_ERROR: Final = 1e-9
"""Relative energy (−90 dB) below which there is no error to speak of."""

QUIET: Final = 1e-6
"""A run whose signal is this share of the mean counts as having that share."""

FIRST: Final = 8
"""Runs that all candidates are scored on."""

BEHIND_DB: Final = 1.0
"""Candidates so much worse than the best on these runs, by either score and reader, are out."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Scores of the candidates of one tensor, natural logarithms of energy ratios; less is better.

    Attributes:
        typical: by the geometric mean over runs, float64 [candidates]; inf where an output was not finite or
            the candidate fell behind.
        total: by sums over runs, the same.
        readers: number of outputs looked at.
    """

    typical: Floats
    total: Floats
    readers: int


@dataclass(frozen=True)
class Measured:
    """What the readers of one tensor made of its candidates.

    Attributes:
        errors: error energies per reader, float64 [readers][runs, candidates].
        signals: energies of their outputs, float64 [readers][runs].
    """

    errors: tuple[Floats, ...]
    signals: tuple[Floats, ...]

    def then(self, later: Measured, kept: Sequence[int]) -> Measured:
        """With more runs behind, of the candidates ``kept``."""
        errors = zip(self.errors, later.errors, strict=True)
        signals = zip(self.signals, later.signals, strict=True)
        return Measured(
            tuple(np.concatenate([before[:, kept], after]) for before, after in errors),
            tuple(np.concatenate(pair) for pair in signals),
        )


def score_candidates(
    prepared: ir.Model,
    candidates: Mapping[str, Sequence[QParams]],
    spec: QuantSpec,
    runs: Sequence[Arrays],
    threads: int,
    on_run: Callable[[int], None] = lambda runs: None,
    *,
    target: QuantScheme | None = None,
) -> dict[str, Scores]:
    """Scores of all candidates of all tensors that have more than one.

    Args:
        prepared: the float graph.
        candidates: tensor → how it may be coded, the same code only once. The first one is never out.
        spec: type of the codes.
        runs: inputs of the model.
        threads: for ONNX Runtime.
        on_run: called with 1 after each run.
        target: see ``probe_model``.

    Raises:
        ModelError, DataError: the scoring graph cannot be built or run.
    """
    open_ones = {name: qparams for name, qparams in candidates.items() if len(qparams) > 1}
    first = _measured(prepared, open_ones, spec, runs[:FIRST], threads, on_run, target)
    scores = {name: tensor_scores(found) for name, found in first.items()}
    kept = {name: contenders(found) for name, found in scores.items()}
    left = {name: [open_ones[name][i] for i in kept[name]] for name in scores if len(kept[name]) > 1}
    later = _measured(prepared, left, spec, runs[FIRST:], threads, on_run, target)
    for name, found in later.items():
        scores[name] = _spread(tensor_scores(first[name].then(found, kept[name])), kept[name], scores[name])
    return scores


def contenders(scores: Scores) -> list[int]:
    """The candidates to go on with: the first, and what is near the best by either score."""
    behind = BEHIND_DB * np.log(10.0) / 10.0 * scores.readers
    near = [figures <= np.min(figures) + behind for figures in (scores.typical, scores.total)]
    return [index for index, good in enumerate(near[0] | near[1]) if good or index == 0]


def _spread(found: Scores, kept: Sequence[int], before: Scores) -> Scores:
    """Scores of the candidates ``kept`` at their old places, inf at the others."""
    typical, total = (np.full(before.typical.shape, np.inf) for _ in range(2))
    typical[kept], total[kept] = found.typical, found.total
    return Scores(typical, total, found.readers)


def _measured(
    prepared: ir.Model,
    candidates: Mapping[str, Sequence[QParams]],
    spec: QuantSpec,
    runs: Sequence[Arrays],
    threads: int,
    on_run: Callable[[int], None],
    target: QuantScheme | None,
) -> dict[str, Measured]:
    """Runs the scoring graph of some candidates."""
    if not candidates or not runs:
        on_run(len(runs))
        return {}
    _release(prepared)  # sessions and graphs before
    readings, session = _open(prepared, candidates, spec, threads, target)
    errors, signals = [], []
    for feeds in runs:
        error, signal = session.run(feeds)
        if signal.shape != (len(readings),) or error.shape != (readings[-1].last,):
            raise DataError("scoring graph", "a layer mixes its batch", f"Use {parameter('method', 'mse')}")
        errors.append(error.astype(np.float64))
        signals.append(signal.astype(np.float64))
        on_run(1)
    return _by_tensor(readings, np.array(errors), np.array(signals))


def _open(
    prepared: ir.Model,
    candidates: Mapping[str, Sequence[QParams]],
    spec: QuantSpec,
    threads: int,
    target: QuantScheme | None,
) -> tuple[tuple[Reading, ...], Session]:
    """The scoring graph opened, of which nothing else is kept."""
    probe = probe_model(prepared, candidates, spec, target=target)
    session = open_session(probe.model, threads=threads, name="scoring graph", configure=_for_scoring)
    readings = probe.readings
    del probe
    _release(prepared)
    return readings, session


def _release(model: ir.Model) -> None:
    """Memory that nothing uses any more; graphs only of a large model, as looking for them takes long."""
    if constant_bytes(model) >= LARGE:
        release_memory()
    else:
        trim_heap()


def _for_scoring(options: Any) -> None:
    """Q and DQ are what is measured.

    And memory is used again at once, where a plan for all of it would lay the copies of many tensors side by
    side.
    """
    keep_quantizers(options)
    options.enable_mem_pattern = False


def _by_tensor(readings: Sequence[Reading], errors: Floats, signals: Floats) -> dict[str, Measured]:
    """What belongs to each tensor of energies [runs, candidates of all readings] and [runs, readings]."""
    found: dict[str, Measured] = {}
    for index, reading in enumerate(readings):
        before = found.get(reading.tensor, Measured((), ()))
        found[reading.tensor] = Measured(
            (*before.errors, errors[:, reading.first : reading.last]), (*before.signals, signals[:, index])
        )
    return found


def tensor_scores(found: Measured) -> Scores:
    """Typical and total score of each candidate, those of all readers added up."""
    pairs = [reading_scores(*pair) for pair in zip(found.errors, found.signals, strict=True)]
    typical, total = (np.sum(figures, axis=0) for figures in zip(*pairs, strict=True))
    return Scores(typical, total, len(pairs))


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
