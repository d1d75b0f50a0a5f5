"""Trials made real: a model is made, judged and noted, and written where it is the best so far."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

from calib8.errors import OutputError
from calib8.int8_model import int8_model
from calib8.model.metadata import write_metadata
from calib8.model.work import node_macs
from calib8.outcomes import Quantization
from calib8.passes.place import Placement
from calib8.repair.candidate import Candidate
from calib8.repair.result import Repaired
from calib8.repair.unit_order import Order, merged, ordered_steps
from calib8.repair.units import Unit, units_of
from calib8.tuning.clock import Clock
from calib8.tuning.costs import additions_of, float_share, wide_share
from calib8.tuning.float_forms import why_int8
from calib8.tuning.group_bounds import counted_bound, units_needed
from calib8.tuning.judging import Judge
from calib8.tuning.latencies import latencies
from calib8.tuning.promise import Promise
from calib8.tuning.recipes import Recipes
from calib8.tuning.spot_steps import SpotStep, spot_steps
from calib8.tuning.trial import Settings, Trial, best_of

UNITS: Final = "units.json"
"""Name in the folder of the steps."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Unprovable(Exception):  # noqa: N818 - nothing went wrong
    """The samples that judge hold too little for the promise, whatever the model."""


class Attempts:
    """Makes the trials of a search.

    Attributes:
        clock: what time there is.
        notes: what is to be known of the way.
    """

    def __init__(
        self,
        recipes: Recipes,
        judge: Judge,
        promise: Promise,
        clock: Clock,
        output: Path,
        closest: Path,
        notes: Sequence[str] = (),
        never_float: Mapping[str, str] = NOTHING,
    ) -> None:
        """Begins.

        Args:
            recipes: what models are made from.
            judge: the samples that judge.
            promise: what has to be kept.
            clock: what time there is.
            output: where the best model that keeps the promise is written.
            closest: where the closest one is written while none does.
            notes: what is to be known before it begins.
            never_float: names of nodes that are not tried in float → their ops.
        """
        self.clock, self.notes = clock, list(notes)
        self._recipes, self._judge, self._promise = recipes, judge, promise
        self._output, self._closest, self._never_float = output, closest, never_float
        self._sample = recipes.samples.scored[0]
        self._macs = node_macs(recipes.prepared.model, self._sample)
        self._written: Trial | None = None
        self._found: Order | None = None

    @property
    def best(self) -> Trial | None:
        """The best trial so far, None before the first one."""
        return best_of(self._recipes.folder.trials, self._promise)

    def attempt(self, settings: Settings) -> Trial:
        """The trial of these settings, made unless it is known.

        Raises:
            BudgetOver: the time is over.
            Unprovable: no model can be shown to keep the promise; a note says why.
            Calib8Error: a model cannot be made or run, or a file not be written.
        """
        known = self._recipes.folder.known(settings)
        trial = self._tried(settings) if known is None else known
        self._check_provable(trial)
        return trial

    def _check_provable(self, trial: Trial) -> None:
        held, needed = trial.figures.counted, units_needed(self._promise.value)
        if held is None or held >= needed:
            return
        what = {"lines": "lines", "decisions": "frames"}.get(self._promise.kind, "boxes")
        most = self._promise.shown(counted_bound(1.0, held))
        enough = f"{needed:.0f} are needed" if math.isfinite(needed) else "no number of them is enough"
        self.notes.append(
            f"FP32 has {held} {what} in the samples that judge, which prove {most} at most: {enough}. More "
            "trials tell nothing; give more samples to judge with, or promise less"
        )
        raise Unprovable

    def _tried(self, settings: Settings) -> Trial:
        folder = self._recipes.folder
        with self.clock.limited():
            start, done = self._recipes.made(settings)
            made = self._model(start, done)
            figures = self._judge.figures(made.model)
        kept = self._promise.kept(figures.value) and self._promise.kept(figures.bound)
        cost = float_share(self._macs, made.placement)
        wide = wide_share(self._macs, made.placement, done.candidate.model, made.spots)
        spots = tuple(sorted(made.spots))
        trial = Trial(settings, figures, cost, kept, self.clock.lap(), spots, wide)
        folder.add(trial)
        folder.spend(self.clock.spent())
        if self.best is trial:
            self._write(trial, made)
        return trial

    def written(self) -> Path | None:
        """The file of the best model, written unless this run did so already; None before the first trial.

        Raises:
            Calib8Error: see ``attempt``.
        """
        best = self.best
        if best is None:
            return None
        if self._written is not best:
            self._write(best, self._made(best.settings))
        return self._output if best.kept else self._closest

    def latencies(self) -> tuple[float, ...]:
        """Milliseconds that a run takes in the model of each trial, which is made again for that.

        Raises:
            Calib8Error: see ``attempt``.
        """
        recipes, judge = self._recipes, self._judge
        with TemporaryDirectory(prefix="calib8-tune-") as folder:
            paths = [Path(folder) / f"{place}.onnx" for place in range(len(recipes.folder.trials))]
            for path, trial in zip(paths, recipes.folder.trials, strict=True):
                self._made(trial.settings).save(path)
            return latencies(paths, judge.runtime, recipes.threads, self._sample, recipes.progress)

    def additions(self, base: Settings) -> tuple[str, ...]:
        """Names of the additions that are in int8 and may be float.

        Raises:
            Calib8Error: a model cannot be made.
        """
        quantized = self._placed(base).quantized_nodes() - self._never_float.keys()
        return additions_of(self._recipes.prepared.model, quantized)

    def spots(self, base: Settings) -> tuple[SpotStep, ...]:
        """Steps in which tensors get 16-bit codes, that which helps most per work in front.

        Raises:
            BudgetOver: the time is over.
            Calib8Error: a model cannot be run, or the file of the steps is broken.
        """
        found = spot_steps(self._recipes, base, self.clock)
        self.notes += [note for note in found.notes if note not in self.notes]
        return found.steps

    def units(self, base: Settings) -> tuple[Unit, ...]:
        """The steps in which units become float, that which helps most in front; looked for once in a search.

        Raises:
            BudgetOver: the time is over.
            Calib8Error: a model cannot be run, or the file of the steps is broken.
        """
        return self._order(base).steps

    def most(self, base: Settings) -> tuple[Unit, ...]:
        """All units that may be float at once, with the quietest layer in int8; errors as for ``units``."""
        return self._order(base).most

    def _order(self, base: Settings) -> Order:
        if self._found is None:
            self._found = self._ordered(base)
        return self._found

    def _ordered(self, base: Settings) -> Order:
        """The order that is stored, else a new one, which is stored."""
        folder, candidate = self._recipes.folder, self._recipes.made(base)[1].candidate
        found = self._may_be_float(units_of(candidate.model, candidate.quantized().placement, self._sample))
        if not found:
            return Order((), (), "")
        stored = folder.read_json(UNITS)
        if stored is None:
            data = self._recipes.data
            with self.clock.limited():
                order = ordered_steps(candidate, found, data)
            stored = {
                "steps": [list(step.nodes) for step in order.steps],
                "most": [node for unit in order.most for node in unit.nodes],
                "note": order.note,
            }
            folder.write(UNITS, json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        home = {node: unit for unit in found for node in unit.nodes}
        try:
            self.notes += [stored["note"]] if stored["note"] else []
            ways = [list(dict.fromkeys(home[node] for node in step)) for step in stored["steps"]]
            most = dict.fromkeys(home[node] for node in stored.get("most", []))
        except (KeyError, TypeError) as error:
            raise folder.broken(UNITS, error) from error
        return Order(tuple(merged(way) for way in ways), tuple(most), stored["note"])

    def _may_be_float(self, units: Sequence[Unit]) -> list[Unit]:
        """Those without a node that must stay in int8; a note says which ops these are."""
        kinds = {name: self._never_float[name] for unit in units for name in unit.nodes
                 if name in self._never_float}  # fmt: skip
        self.notes += [why_int8(kinds.values())] if kinds else []
        return [unit for unit in units if kinds.keys().isdisjoint(unit.nodes)]

    def _placed(self, settings: Settings) -> Placement:
        return self._recipes.made(settings)[1].candidate.quantized().placement

    def _made(self, settings: Settings) -> Quantization:
        return self._model(*self._recipes.made(settings))

    def _model(self, start: Candidate, done: Repaired) -> Quantization:
        return int8_model(start, done, self._recipes.prepared, self._recipes.dataset.preprocess, {})

    def _write(self, trial: Trial, made: Quantization) -> None:
        figures = {"promise": self._promise.text, "float_macs": f"{trial.cost:.6f}"}
        write_metadata(made.model, figures)
        if trial.kept:
            told = made.save(self._output)
            self.notes += [note for note in told if note not in self.notes]
            self._closest.unlink(missing_ok=True)
        else:
            made.save(self._closest)
            self._put_aside()
        self._written = trial

    def _put_aside(self) -> None:
        """What stands under the name of the output does not keep the promise: it gets another name."""
        if not self._output.is_file():
            return
        free = _free_name(self._output)
        try:
            self._output.rename(free)
        except OSError as error:
            problem = f"does not keep the promise, and cannot be renamed ({error.strerror})"
            raise OutputError(str(self._output), problem, "Move it away, or choose another output") from error
        self.notes.append(f"{self._output} is not from this search: it is called {free} now")


def _free_name(path: Path) -> Path:
    """``NAME.earlier.onnx``, numbered where that is taken."""
    names = (f"{path.stem}.earlier{'' if n == 1 else f'-{n}'}{path.suffix}" for n in count(1))
    return next(free for name in names if not (free := path.with_name(name)).exists())
