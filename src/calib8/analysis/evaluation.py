"""What an evaluation tells of each model, and the list of them that is shown as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calib8.analysis.by_class import ClassFigures
from calib8.data.fed import Fed
from calib8.notebook import grid, in_notebook, notes
from calib8.number_texts import decibels_cell, percent
from calib8.tasks.judges.interface import TaskFigures

if TYPE_CHECKING:  # judges of all tasks: a plan alone is evaluated without them
    from calib8.tasks.verdict import Verdict


@dataclass(frozen=True)
class BranchSqnr:
    """One branch of the outputs against the reference's.

    Attributes:
        name: of the branch.
        kind: what it is, see ``calib8.tasks.kinds``.
        sqnr_db: over all images; None where there is no signal or no noise.
        why_no_sqnr: which of them, in words; empty where ``sqnr_db`` is told.
    """

    name: str
    kind: str
    sqnr_db: float | None
    why_no_sqnr: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Figures of one model; shares are 0 … 1, None where they cannot be told.

    Attributes:
        model: path or name.
        runtime: where it ran.
        images: samples seen.
        top1, top5: None without labels or if the first output is not a row of class scores.
        agreement, sqnr_db: against the reference; None without one or for the reference itself.
        seconds: time inside the runtime for so many samples, at the pace of ``calib8.analysis.paces``; None:
            not measured, as on a cluster.
        warnings: sentences about labels that do not fit.
        labels_left_out: why labels that were found do not count; empty where there are none, or they do.
        classes: of classifiers, those that lost most first, see ``calib8.analysis.by_class``; empty without
            labels and reference.
        labelled: samples with a label that counts.
        fed: the data and the way of its pictures; None: not known.
        verdict: what became of the model beside the reference, as ``quantize`` tells it; None without a
            reference, for the reference itself, and for a model that ended its runtime.
        branches: of the outputs against the reference's; empty where ``sqnr_db`` is None, or the outputs are
            not known. With several of them ``sqnr_db`` tells of the loudest.
        task: figures of the task; None where none was asked for.
        own: those of the user's own judge; None where there is none, and for the reference.
        failure: which signal ended the runtime, in a sentence; there are no figures then. None: none.
    """

    model: str
    runtime: str
    images: int
    top1: float | None
    top5: float | None
    agreement: float | None
    sqnr_db: float | None
    seconds: float | None
    warnings: tuple[str, ...] = ()
    labels_left_out: str = ""
    failure: str | None = None
    task: TaskFigures | None = None
    own: TaskFigures | None = None
    branches: tuple[BranchSqnr, ...] = ()
    classes: tuple[ClassFigures, ...] = ()
    labelled: int = 0
    verdict: Verdict | None = None
    fed: Fed | None = None

    def __repr__(self) -> str:
        """One line: which model, where it ran, and the figures that are known."""
        if self.failure is not None:
            return f"<Evaluation: {self.model!r} in {self.runtime}: {self.failure}>"
        shares = (("top-1", self.top1), ("top-5", self.top5), ("agreement", self.agreement))
        told = [f"{name} {percent(share)}" for name, share in shares if share is not None]
        worst = self.worst_branch
        if len(self.branches) > 1 and worst is not None:
            told.append(f"SQNR of {worst.name} {decibels_cell(worst.sqnr_db)} dB")
        elif self.sqnr_db is not None:
            told.append(f"SQNR {decibels_cell(self.sqnr_db)} dB")
        if self.verdict is not None:
            told.append(self.verdict.word)
        return (
            f"<Evaluation: {self.model!r} in {self.runtime}, {', '.join([f'{self.images} images', *told])}>"
        )

    def _repr_html_(self) -> str:
        """The figures, for notebooks."""
        return Evaluations([self])._repr_html_()

    @property
    def worst_branch(self) -> BranchSqnr | None:
        """The branch of the lowest SQNR, None without."""
        told = [branch for branch in self.branches if branch.sqnr_db is not None]
        return min(told, key=lambda branch: branch.sqnr_db or 0.0, default=None)

    @property
    def sqnr_cell(self) -> str:
        """SQNR in dB for a table: of several branches that of the worst, and its name."""
        worst = self.worst_branch
        if len(self.branches) > 1 and worst is not None:
            return f"{decibels_cell(worst.sqnr_db)} {worst.name}"
        return decibels_cell(self.sqnr_db)

    @property
    def images_per_second(self) -> float | None:
        """Samples per second inside the runtime; None: not measured."""
        return self.images / self.seconds if self.seconds else None


class Evaluations(list[Evaluation]):
    """What ``evaluate`` returns: a list, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        """One row per model; then figures of tasks and warnings."""
        figures = grid(
            ("model", "runtime", "images", "top-1", "top-5", "agreement", "SQNR dB", "images/s"), self, _row
        )
        told = [
            (one.model, task.task, f"{truth}, {name}", value)
            for one in self
            for task in (one.task, one.own)
            if task is not None
            for truth, shown in (("FP32", task.against_float), ("labels", task.against_labels))
            for name, value in shown.items()
        ]
        tasks = grid(("model", "task", "against", "figure"), told, lambda row: row)
        warnings = [f"{one.model}: {text}" for one in self for text in (one.failure, *one.warnings) if text]
        verdicts = [f"{one.model}: {one.verdict.text}" for one in self if one.verdict is not None]
        told_of_all = f"{len(self)} models evaluated"
        return in_notebook(told_of_all, figures, tasks, notes(verdicts), notes(warnings))


def _row(e: Evaluation) -> tuple[object, ...]:
    shares = (percent(e.top1), percent(e.top5), percent(e.agreement))
    speed = None if e.images_per_second is None else f"{e.images_per_second:.1f}"
    return (e.model, e.runtime, e.images, *shares, e.sqnr_cell, speed)
