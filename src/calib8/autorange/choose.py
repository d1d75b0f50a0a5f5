"""The method ``auto``: the range that serves each tensor's readers best, if the whole model agrees.

1. check     every plain method's table is judged on held-back samples; one far below the best is out. What
             falls behind is judged on some of them only, but for tables to prefer
2. score     the candidates left are scored at the outputs of the layers that read the tensor
3. combine   every tensor takes its best candidate, by each rule of ``by_tensor``; the first candidate is
             that of the best plain method
4. decide    these three are judged like the plain ones. The best wins; of those within 0.25 dB of it
             the first of: both, typical, mse-behind or mse, then in order of their figures. (The best of many
             methods on these samples owes some of its lead to chance; scores come from other samples)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.autorange.by_tensor import BOTH, TYPICAL, choose_by_tensor
from calib8.autorange.check import Check, Expected, Race, check_table, float_outputs
from calib8.autorange.samples import ChosenSamples, bytes_to_keep, choose_samples
from calib8.calibration.decide import AUTO
from calib8.calibration.ranges import BEHIND
from calib8.data.samples import Dataset
from calib8.errors import Calib8Error
from calib8.progress import Progress, SampleCounter, silent
from calib8.scheme import QuantScheme
from calib8.table import GIVEN, CalibrationTable, Range
from calib8.tasks.branches import Meaning

FALLBACK: Final = "mse"
NOISE_DB: Final = 0.25
"""Differences below are no reason to prefer a table."""

PREFERRED: Final = {BOTH: 0, TYPICAL: 1, BEHIND: 2, FALLBACK: 2}
"""Tables to prefer where figures are close, the first one most; they are judged on all runs."""

COLLAPSE_DB: Final = 10.0
"""A method so far below the best one offers no candidates."""


@dataclass(frozen=True)
class AutoReport:
    """How ``auto`` came to its table.

    Attributes:
        chosen: name of the table that won.
        checks: every table judged, in the order in which that was done.
        wins: method → number of tensors that got its range, most first.
        scored, held_back: runs of the model to score and to check with.
        shared: both were the same.
        notes: what could not be done, and why.
    """

    chosen: str
    checks: tuple[Check, ...]
    wins: Mapping[str, int]
    scored: int
    held_back: int
    shared: bool
    notes: tuple[str, ...]


def choose_automatically(
    prepared: ir.Model,
    tables: Mapping[str, CalibrationTable],
    dataset: Dataset,
    scheme: QuantScheme,
    *,
    keep_float: frozenset[str] = frozenset(),
    meaning: Meaning | None = None,
    threads: int = 2,
    progress: Progress = silent,
) -> tuple[CalibrationTable, AutoReport]:
    """The best table that can be made of those of the plain methods.

    The same samples in any order give the same table, byte for byte.

    Args:
        prepared: the float graph.
        tables: name of a method → the table it chose, all for the same tensors; ``mse`` among them.
        dataset: the calibration data, read once more.
        scheme: target to check with; its type of activations is what candidates are scored with.
        keep_float: names of nodes that stay float.
        meaning: branches of the outputs; None: each output is one.
        threads: for decoding and running; no result depends on it.
        progress: see ``Progress``.

    Raises:
        DataError: the data cannot be read a second time.
    """
    samples = choose_samples(dataset, threads, largest=bytes_to_keep(meaning))
    work = _Work(prepared, scheme, keep_float, samples, meaning, threads, progress)
    checks = work.check(tables)
    best = _preferred(checks)
    floor = max((check.sqnr_db for check in finishers(checks)), default=0.0) - COLLAPSE_DB
    sound = {check.name for check in checks if check.sqnr_db >= floor}
    offered = {name: table for name, table in tables.items() if name in sound or not checks}
    combined = work.combine(offered, best or FALLBACK)
    checks += work.check(combined)
    chosen = _preferred(checks) or next(iter(combined), FALLBACK)
    table = _told({**tables, **combined}[chosen], chosen, checks, len(samples.held_back))
    return table, work.report(chosen, table, checks)


@dataclass
class _Work:
    """What the steps share, and the notes they take."""

    prepared: ir.Model
    scheme: QuantScheme
    keep_float: frozenset[str]
    samples: ChosenSamples
    meaning: Meaning | None
    threads: int
    progress: Progress

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        self.expected: Expected | None = None
        self.race = Race()
        self.judged: list[tuple[dict[str, Range], Check]] = []

    def check(self, tables: Mapping[str, CalibrationTable]) -> list[Check]:
        """Judges tables; what cannot be quantized or run is noted and left out."""
        found = list[Check]()
        counter = SampleCounter(
            "checking the model", len(self.samples.held_back) * len(tables), self.progress
        )
        for name in sorted(tables, key=lambda name: name != FALLBACK):
            ranges = {tensor: entry.range for tensor, entry in tables[name].entries.items()}
            most = len(self.samples.held_back)
            equal = (check for other, check in self.judged if other == ranges)
            known = next((one for one in equal if one.runs == most or name not in PREFERRED), None)
            try:
                if known is not None:
                    counter(most)
                check = known or self._check(name, tables[name], counter)
            except Calib8Error as error:
                self.notes.append(f"'{name}' could not be checked: {error.problem}")
                continue
            self.judged.append((ranges, check))
            found.append(replace(check, name=name))
        return found

    def _check(self, name: str, table: CalibrationTable, counter: SampleCounter) -> Check:
        runs = self.samples.held_back
        if self.expected is None:
            self.expected = Expected.of(float_outputs(self.prepared, runs, self.threads), self.meaning)
        allowance = np.inf if name in PREFERRED else 0.0
        return check_table(
            name, table, self.prepared, self.scheme, self.keep_float, runs, self.expected, self.threads,
            partial(self.race.lost, allowance=allowance), counter,
        )  # fmt: skip

    def combine(self, tables: Mapping[str, CalibrationTable], plain: str) -> dict[str, CalibrationTable]:
        """The tables whose tensors choose one by one; none where no scoring graph can be run."""
        base = tables.get(plain) or next(iter(tables.values()))
        offered = {name: [t.entries[name] for t in (base, *tables.values())] for name in base.entries}
        runs = self.samples.scored
        counter = SampleCounter("comparing ranges", len(runs), self.progress)
        try:
            found = choose_by_tensor(
                self.prepared, offered, self.scheme.activations, runs, self.threads, counter,
                target=self.scheme,
            )  # fmt: skip
        except Calib8Error as error:
            self.notes.append(f"tensors could not choose one by one: {error.problem}")
            return {}
        return {rule: CalibrationTable(base.model_hash, entries) for rule, entries in found.items()}

    def report(self, chosen: str, table: CalibrationTable, checks: Sequence[Check]) -> AutoReport:
        """What was done."""
        wins = Counter(entry.method.removeprefix(f"{AUTO}: ") for entry in table.entries.values())
        ordered = dict(sorted(wins.items(), key=lambda item: (-item[1], item[0])))
        if self.samples.shared:
            self.notes.append("too few samples to hold some back: all of them score and check")
        scored, held_back = len(self.samples.scored), len(self.samples.held_back)
        return AutoReport(
            chosen, tuple(checks), ordered, scored, held_back, self.samples.shared, tuple(self.notes)
        )


def _preferred(checks: Sequence[Check]) -> str | None:
    """Name of the winner: see the top of the file. None without checks, or if all collapsed."""
    checks = finishers(checks)
    best = max((check.sqnr_db for check in checks), default=-np.inf)
    if not np.isfinite(best):
        return None
    close = [check for check in checks if check.sqnr_db >= best - NOISE_DB]
    return min(close, key=lambda check: (PREFERRED.get(check.name, 3), -check.sqnr_db)).name


def finishers(checks: Sequence[Check]) -> list[Check]:
    """The checks of all runs; what was left behind cannot be compared with them."""
    most = max((check.runs for check in checks), default=0)
    return [check for check in checks if check.runs == most]


def _told(table: CalibrationTable, chosen: str, checks: Sequence[Check], runs: int) -> CalibrationTable:
    """The table with ``auto`` as the method of every tensor that the user gave no range for."""
    found = next((check for check in checks if check.name == chosen), None)
    whole = "" if found is None else f"best whole model, {found.sqnr_db:.1f} dB on {runs} samples"
    entries = {}
    for name, entry in table.entries.items():
        if entry.method == GIVEN:
            entries[name] = entry
        else:
            reason = entry.reason or whole
            entries[name] = replace(entry, method=f"{AUTO}: {entry.method}", reason=reason)
    return CalibrationTable(table.model_hash, entries)
