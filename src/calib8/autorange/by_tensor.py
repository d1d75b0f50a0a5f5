"""Every tensor chooses its range among several: the one that serves the layers that read it best.

typical   the best candidate by the geometric mean over images
total     the best by the sums over images
both      of those that are no worse in total than the first candidate, the best typical one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.autorange.score import Scores, score_candidates
from calib8.model.runtime import Arrays
from calib8.passes.integer_cells import cells_of
from calib8.qparams import QParams, QuantSpec, activation_qparams
from calib8.scheme import QuantScheme
from calib8.table import TableEntry

BOTH: Final = "by tensor, typical and total"
TYPICAL: Final = "by tensor, typical"
TOTAL: Final = "by tensor, total"


def best_of_both(scores: Scores) -> int:
    """Index of the best typical score among those whose total is no worse than the first one's."""
    return int(np.argmin(np.where(scores.total <= scores.total[0], scores.typical, np.inf)))


def _best_typical(scores: Scores) -> int:
    return int(np.argmin(scores.typical))


def _best_total(scores: Scores) -> int:
    return int(np.argmin(scores.total))


RULES: Final[Mapping[str, Callable[[Scores], int]]] = {
    BOTH: best_of_both,
    TYPICAL: _best_typical,
    TOTAL: _best_total,
}


def choose_by_tensor(
    prepared: ir.Model,
    offered: Mapping[str, Sequence[TableEntry]],
    spec: QuantSpec,
    runs: Sequence[Arrays],
    threads: int,
    on_run: Callable[[int], None],
    *,
    target: QuantScheme | None = None,
) -> dict[str, dict[str, TableEntry]]:
    """Rule → tensor → the entry that the rule takes, with its reason.

    Args:
        prepared: the float graph.
        offered: tensor → its candidates, one at least; the first one stays where nothing is scored.
        spec: type of the codes.
        runs: what is scored on; nothing depends on their order but rounding.
        threads: for ONNX Runtime.
        on_run: called with 1 after each run.
        target: see ``calib8.autorange.probe.probe_model``.

    Raises:
        ModelError, DataError: the scoring graph cannot be built or run.
    """
    choices = {name: distinct(entries, spec) for name, entries in offered.items()}
    cells = cells_of(prepared)  # inside layers: nobody reads their codes
    codes = {name: list(found) for name, found in choices.items() if name not in cells}
    scores = score_candidates(prepared, codes, spec, runs, threads, on_run, target=target)
    found: dict[str, dict[str, TableEntry]] = {}
    for rule, pick in RULES.items():
        found[rule] = {name: entries[0] for name, entries in offered.items()}
        for name, scored in scores.items():
            found[rule][name] = _told(choices[name], codes[name], pick(scored), scored)
    return found


def distinct(entries: Sequence[TableEntry], spec: QuantSpec) -> dict[QParams, TableEntry]:
    """The different codes of a tensor, each with the first entry that has it."""
    found: dict[QParams, TableEntry] = {}
    for entry in entries:
        found.setdefault(activation_qparams(entry.range.min, entry.range.max, spec), entry)
    return found


def _told(
    choices: Mapping[QParams, TableEntry], codes: Sequence[QParams], index: int, scores: Scores
) -> TableEntry:
    """The entry of a candidate, with its reason."""
    decibels = 10.0 / np.log(10.0) * scores.typical / scores.readers
    rest = [value for other, value in enumerate(decibels) if other != index and np.isfinite(value)]
    reason = f"error behind {scores.readers} reader{'s' * (scores.readers > 1)} {decibels[index]:.1f} dB"
    if rest:
        reason += f", other candidates {min(rest):.1f} … {max(rest):.1f} dB"
    return replace(choices[codes[index]], reason=reason)
