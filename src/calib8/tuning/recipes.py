"""From data to candidates that can be made int8: statistics once, then ranges and repairs by effort.

fast        ranges mse-behind
balanced    ranges auto, mse-behind as an alternative
best        the same with more repairs                       (``calib8.repair.repairs.EFFORTS``)

No effort leaves layers in float here: which ones is what the search is about. For a target with 16-bit codes
an effort chooses spots, and the search fewer or more of them.

What takes long is kept in the folder of the search and read from there, in the same run too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import onnx_ir as ir

from calib8.autorange.choose import choose_automatically
from calib8.autorange.plain import plain_tables
from calib8.autorange.samples import ChosenSamples, bytes_to_keep, choose_samples
from calib8.autorange.score_ranges import whole_scores
from calib8.calibration.decide import Wish, decide
from calib8.calibration.functions_behind import functions_behind
from calib8.calibration.gather import Checkpointing, Gathering, gather
from calib8.calibration.ranges import BEHIND
from calib8.calibration.ranges.mse_behind import Function
from calib8.calibration.source import tensors_to_calibrate
from calib8.calibration.statistics import Statistics
from calib8.data.samples import Dataset
from calib8.ops.questions import joins
from calib8.passes.place import place
from calib8.passes.prepare import PreparedModel
from calib8.progress import Progress
from calib8.repair.by_effort import UNCLIPPED
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.flow import repaired
from calib8.repair.repairs import REPAIRS, SPOTS
from calib8.repair.result import Repaired
from calib8.repair.step import Step
from calib8.repair.wanted import Repairs, effort_called
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable, Range
from calib8.tasks.branches import Meaning
from calib8.tuning.folder import Folder
from calib8.tuning.stored import load_repaired, save_repaired
from calib8.tuning.trial import USUAL, Settings

CONCAT: Final[Mapping[str, float | None]] = {USUAL: None, "requantize": 0.0, "unify": float("inf")}
"""How the inputs of a Concat share a scale → ``QuantScheme.concat_share_ratio``; None: the target's."""

_PLAIN: Final = BEHIND
_FAST: Final = "fast"
_STATISTICS: Final = "statistics"
_PART: Final = "statistics.part"


@dataclass(frozen=True)
class Recipes:
    """What all models of a search are made from.

    Attributes:
        prepared: the float graph.
        scheme: the target.
        keep_float: nodes that the user wants in float.
        dataset: the samples to calibrate and repair with.
        folder: where results are kept.
        threads: no result depends on it.
        progress: see ``Progress``.
        ranges: those that the user gave, by tensor; no method chooses another one.
        power_of_two: all scales of activations are powers of two.
        meaning: branches of the outputs, by which ranges and repairs are chosen.
    """

    prepared: PreparedModel
    scheme: QuantScheme
    keep_float: frozenset[str]
    dataset: Dataset
    folder: Folder
    threads: int
    progress: Progress
    ranges: Mapping[str, Range] = field(default_factory=dict)
    power_of_two: bool = False
    meaning: Meaning | None = None
    _found: dict[str, Repaired] = field(default_factory=dict)

    @cached_property
    def samples(self) -> ChosenSamples:
        """Those that repairs look at."""
        return choose_samples(self.dataset, self.threads, largest=bytes_to_keep(self.meaning))

    @cached_property
    def data(self) -> RepairData:
        """What repairs look at."""
        return RepairData(
            self.samples.scored, self.threads, self.progress, self.prepared.model, meaning=self.meaning
        )

    @property
    def begun(self) -> bool:
        """Whether the folder holds statistics, of all samples or of some."""
        return any((self.folder.path / name).exists() for name in (_STATISTICS, _PART))

    @cached_property
    def statistics(self) -> Statistics:
        """Of all calibration samples, gathered once."""
        path = self.folder.path / _STATISTICS
        if path.exists():
            with self.folder.reading(path):
                return Statistics.load(path)
        part = self.folder.path / _PART
        tensors = tensors_to_calibrate(self.prepared.model, self.keep_float)
        how = Gathering(threads=self.threads, checkpoint=Checkpointing(part))
        found = gather(self.prepared.model, tensors, self.dataset, how, self.progress)
        found.statistics.save(path)
        part.unlink(missing_ok=True)
        return found.statistics

    def start(self, effort: str, concat: str = USUAL) -> Candidate:
        """Model and ranges before repairs."""
        table = self._plain if effort == _FAST else self._automatic
        return Candidate(
            self.prepared.model, table, self._sharing(concat), self.keep_float, self.power_of_two
        )

    def made(self, settings: Settings) -> tuple[Candidate, Repaired]:
        """What a model is made from: the start with all of ``floats`` in float, and what repairs left of it.

        With other nodes in float, or other tensors of 16 bits, the errors before a layer are others: biases
        are corrected anew, if they were. Of ``spots`` those remain that have codes beside the floats.

        Raises:
            Calib8Error: a model cannot be run, or a file of the folder is broken.
        """
        done = self._repaired(settings.effort)
        floats = self.keep_float | frozenset(settings.floats)
        start = replace(
            self.start(settings.effort, settings.concat), keep_float=floats,
            spots=_coded(self.prepared.model, self.scheme, floats, settings.spots or ()),
        )  # fmt: skip
        scheme, chosen = self._sharing(settings.concat), settings.spots
        spots = done.candidate.spots if chosen is None else frozenset(chosen)
        if settings.floats:
            spots = _coded(done.candidate.model, scheme, floats, spots)
        candidate = replace(done.candidate, scheme=scheme, keep_float=floats, spots=spots)
        plan = effort_called(settings.effort)
        kept = [name for step in done.steps if step.kept for name in step.names]
        biases = [name for name in kept if name in plan.finish]
        if (settings.floats or chosen is not None) and biases:
            data = self.data
            candidate, _ = REPAIRS[biases[-1]](candidate, replace(data, runs=data.runs[: plan.repairing]))
        steps = done.steps if chosen is None else tuple(map(_without_spots, done.steps))
        return start, replace(done, candidate=candidate, steps=steps)

    def sharings(self) -> tuple[str, ...]:
        """Keys of ``CONCAT`` that differ for this model and target from the usual one and each other."""
        scheme = self.scheme
        fixed = scheme.concat_share_ratio == float("inf") or "Concat" in scheme.shared_scale_ops
        found, seen = list[str](), [self.start(_FAST).quantized().qparams]
        for name in () if fixed or not _concatenates(self.prepared.model) else tuple(CONCAT)[1:]:
            qparams = self.start(_FAST, name).quantized().qparams
            if qparams not in seen:
                found.append(name)
                seen.append(qparams)
        return tuple(found)

    def _sharing(self, concat: str) -> QuantScheme:
        ratio = CONCAT[concat]
        return self.scheme if ratio is None else replace(self.scheme, concat_share_ratio=ratio)

    def _repaired(self, effort: str) -> Repaired:
        if effort not in self._found:
            path, start = self._path(effort), self.start(effort)
            if not path.exists():
                others = (
                    {} if effort == _FAST else {UNCLIPPED: self._unclipped, f"ranges {_PLAIN}": self._plain}
                )
                done = repaired(
                    start, self.samples, Repairs(effort, mixed=False), tables=others, meaning=self.meaning,
                    threads=self.threads, progress=self.progress,
                )  # fmt: skip
                save_repaired(done, start, path)
            self._found[effort] = load_repaired(start, path)
        return self._found[effort]

    def _path(self, effort: str) -> Path:
        return self.folder.path / f"{effort}.npz"

    @cached_property
    def _plain(self) -> CalibrationTable:
        return self._ranges_by(_PLAIN)

    @cached_property
    def _unclipped(self) -> CalibrationTable:
        return self._ranges_by("minmax")

    def _ranges_by(self, method: str) -> CalibrationTable:
        """Ranges by a plain method, those that decide what is found wide enough; those of the user stay."""
        wish, spec = Wish(method, power_of_two=self.power_of_two), self.scheme.activations
        table = decide(
            self.statistics, None, spec, wish, self.ranges, functions=self._functions, threads=self.threads
        )
        return self._whole_scores(table)

    def _whole_scores(self, table: CalibrationTable) -> CalibrationTable:
        if self.power_of_two:
            return table
        statistics = self.statistics.tensors
        return whole_scores(table, self.prepared.model, self.meaning, statistics, self.scheme.activations)

    @cached_property
    def _functions(self) -> Mapping[str, Function]:
        return functions_behind(self.prepared.model)

    @cached_property
    def _automatic(self) -> CalibrationTable:
        path = self.folder.path / "ranges.json"
        if not path.exists():
            plain = plain_tables(
                self.statistics, self.scheme.activations, power_of_two=self.power_of_two, given=self.ranges,
                functions=self._functions, threads=self.threads,
            )  # fmt: skip
            table, _ = choose_automatically(
                self.prepared.model, plain, self.dataset, self.scheme, keep_float=self.keep_float,
                meaning=self.meaning, threads=self.threads, progress=self.progress,
            )  # fmt: skip
            self._whole_scores(table).save(path)
        with self.folder.reading(path):
            return CalibrationTable.load(path)


def _coded(
    model: ir.Model, scheme: QuantScheme, floats: frozenset[str], names: Collection[str]
) -> frozenset[str]:
    """Those of the tensors that have codes with these nodes in float."""
    return frozenset(names) & place(model, scheme, floats).readers.keys() if names else frozenset()


def _without_spots(step: Step) -> Step:
    """The same; where the repair chose spots, it is the search that chose those which there are."""
    return replace(step, kept=False) if step.names in SPOTS else step


def _concatenates(model: ir.Model) -> bool:
    return any(map(joins, model.graph))
