"""How good a model is on given data, alone and against its float original.

top1, top5    share of labelled images whose class is the first, or among the first five, scores
agreement     share of images whose best class is that of the reference model
sqnr_db       10 log10( Σ reference² / Σ (reference − output)² ) over all float outputs and images
branches      the same of every branch of the outputs (``calib8.tasks``)

    batches  →  tallies, which join exactly (``calib8.analysis.tally``)  →  evaluations
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.chance import doubt, hardly_better_than_guessing
from calib8.analysis.evaluation import BranchSqnr as BranchSqnr
from calib8.analysis.evaluation import Evaluation as Evaluation
from calib8.analysis.tally import Energies, Tally, by_sample
from calib8.calibration.own_states import OwnStates
from calib8.data.batches import Batch
from calib8.data.finite import not_finite
from calib8.errors import CrashError, DataError
from calib8.model.runtime import Session
from calib8.number_texts import count
from calib8.parameters import Text, parameter
from calib8.tasks.branches import Meaning
from calib8.tasks.figures import energies_of
from calib8.tasks.judges.classes import best_classes as best_classes
from calib8.tasks.judges.classes import class_scores as class_scores

FEW_CLASSES: Final = 10
FEW_LABELS: Final = 20
"""With fewer, classes beside each other are mixed up by chance."""

MUCH_MORE: Final = 4
"""So many times as often as the label itself, and on more than this part of all images."""

RAISE: Final = f"it may have a background class at 0; add 1 to the labels with {parameter('label_offset', 1)}"
LOWER: Final = (
    f"the labels may count a background class at 0; take 1 off them with {parameter('label_offset', -1)}"
)
"""Cures of labels that are counted otherwise."""

Outputs = Sequence[list[npt.NDArray[Any]] | None]
"""Of every model for one batch."""


@dataclass(frozen=True)
class Counting:
    """What is counted of outputs.

    Attributes:
        reference: index of the float original among the models, None if there is none.
        label_offset: what is added to every label, 1 where the models have a background class at 0.
        labels_asked: a label beyond the classes is an error; otherwise no label counts where there is one.
        may_be_classes: the first output holds scores of classes, where it looks like that.
        meaning: what the float outputs mean, None where it is not known. Where the user says that they are
            no classes, there is no agreement, and labels do not count.
    """

    reference: int | None
    label_offset: int = 0
    labels_asked: bool = True
    may_be_classes: bool = True
    meaning: Meaning | None = None

    @property
    def classes(self) -> bool:
        """Whether scores are counted as those of classes."""
        named = self.meaning is not None and self.meaning.named and self.meaning.task != "classify"
        return self.may_be_classes and not named


def evaluate_sessions(
    sessions: Sequence[Session],
    batches: Iterable[Batch],
    counting: Counting,
    on_outputs: Callable[[Batch, Outputs], None] = lambda batch, outputs: None,
) -> list[Evaluation]:
    """Runs every model on every batch, see ``tallied``, and tells what ``evaluations`` does."""
    return evaluations(sessions, tallied(sessions, batches, counting, on_outputs=on_outputs), counting)


def tallied(
    sessions: Sequence[Session],
    batches: Iterable[Batch],
    counting: Counting,
    *,
    on_batch: Callable[[int], None] = lambda samples: None,
    on_outputs: Callable[[Batch, Outputs], None] = lambda batch, outputs: None,
    own: Mapping[int, OwnStates] = MappingProxyType({}),
) -> list[Tally]:
    """Runs every model on every batch.

    Args:
        sessions: the open models.
        batches: the data, or a part of them.
        counting: what is counted.
        on_batch: called with the number of samples after each batch.
        on_outputs: called with each batch and what every model gave for it, None from one that has ended
            its runtime.
        own: index of a model → its own states, in place of those of the batch.

    Raises:
        DataError: models with different outputs, or with ``labels_asked`` a label beyond the classes.
        CrashError: no model is left: each has ended its runtime.
    """
    tallies = [Tally(labels_asked=counting.labels_asked) for _ in sessions]
    reference, classes = counting.reference, counting.classes
    for batch in batches:
        pairs = enumerate(zip(sessions, tallies, strict=True))
        results = [_run(session, batch, tally, own.get(index)) for index, (session, tally) in pairs]
        _check_one_is_left(tallies)
        expected = None if reference is None else results[reference]
        for index, (outputs, tally) in enumerate(zip(results, tallies, strict=True)):
            if outputs is None:
                continue
            if classes:
                _count_labels(outputs[0], batch, counting.label_offset, tally, sessions[index].name)
            if expected is not None and index != reference:
                _count_differences(expected, outputs, tally, sessions[index], classes=classes)
                _count_energies(expected, outputs, len(batch.names), tally, counting.meaning)
        on_outputs(batch, results)
        on_batch(len(batch.names))
    return tallies


def evaluations(
    sessions: Sequence[Session], tallies: Sequence[Tally], counting: Counting
) -> list[Evaluation]:
    """What the tallies of all samples say of each model.

    Args:
        sessions: the models, for their names; they need not have been run here.
        tallies: one per model.
        counting: what was counted.

    Raises:
        DataError: there was no sample.
        CrashError: no model is left: each has ended its runtime.
    """
    _check_one_is_left(tallies)
    if all(tally.images == 0 and tally.crash is None for tally in tallies):
        raise DataError("evaluation data", "holds no sample", "Give at least one image or array")
    pairs = zip(sessions, tallies, strict=True)
    return [_evaluation(s, t, i, counting.reference, counting.meaning) for i, (s, t) in enumerate(pairs)]


def _run(
    session: Session, batch: Batch, tally: Tally, own: OwnStates | None
) -> list[npt.NDArray[Any]] | None:
    """Outputs; None once the model has ended its runtime: what it gave before does not count either."""
    if tally.crash is not None:
        return None
    try:
        outputs = session.run(batch.inputs if own is None else own.inputs(batch))
    except CrashError as crash:
        tally.crash = crash
        return None
    tally.images += len(batch.names)
    wrong = not_finite(outputs, batch.names)
    tally.not_finite += len(wrong)
    tally.first_not_finite = min(filter(None, (tally.first_not_finite, *wrong)), default="")
    return outputs


def _check_one_is_left(tallies: Sequence[Tally]) -> None:
    crashes = [tally.crash for tally in tallies if tally.crash is not None]
    if crashes and len(crashes) == len(tallies):
        raise crashes[0]


def _count_labels(output: npt.NDArray[Any], batch: Batch, label_offset: int, tally: Tally, name: str) -> None:
    scores = class_scores(output)
    if scores is None or scores.shape[0] != len(batch.labels):
        return
    best, tally.classes = best_classes(scores, 5), scores.shape[1]
    for row, given in enumerate(batch.labels):
        if given is None:
            continue
        label = given + label_offset
        shown = f"{given} with the offset {label_offset}" if label_offset else str(given)
        if not 0 <= label < scores.shape[1]:
            problem = f"its label {shown} is beyond the {scores.shape[1]} classes of {name}"
            if tally.labels_asked:
                raise DataError(batch.names[row], problem, "Check the labels")
            tally.does_not_fit(f"{batch.names[row]}: {problem}")
        if tally.misfit:
            continue
        tally.labelled += 1
        if np.isnan(scores[row]).any():  # no class is the best
            continue
        tally.top1 += int(best[row, 0] == label)
        tally.above += int(best[row, 0] == label + 1)
        tally.below += int(best[row, 0] == label - 1)
        tally.top5 += int(label in best[row])


def _count_differences(
    expected: list[npt.NDArray[Any]],
    outputs: list[npt.NDArray[Any]],
    tally: Tally,
    session: Session,
    *,
    classes: bool,
) -> None:
    if other_network(expected, outputs, session):
        raise DataError(
            session.name,
            "its outputs differ in number or shape from the reference's",
            "Compare models of one network",
        )
    reference_scores, scores = class_scores(expected[0]), class_scores(outputs[0])
    if classes and reference_scores is not None and scores is not None and _same(reference_scores, scores):
        tally.classified += len(scores)
        same = best_classes(reference_scores, 1) == best_classes(scores, 1)
        tally.agreeing += int(np.sum(same[:, 0] & ~np.isnan(reference_scores + scores).any(axis=1)))


def _same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    """Of one shape."""
    return left.shape == right.shape


def other_network(
    expected: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]], session: Session
) -> bool:
    """Whether outputs differ in number or in a size that the model fixes.

    A size that depends on values, such as the number of boxes behind an NMS, may differ.
    """
    if len(expected) != len(outputs):
        return True
    for left, right, spec in zip(expected, outputs, session.outputs, strict=True):
        if left.shape == right.shape:
            continue
        if spec.shape is None or not len(spec.shape) == left.ndim == right.ndim:
            return True
        sizes = zip(left.shape, right.shape, spec.shape, strict=True)
        if any(one != other and isinstance(size, int) for one, other, size in sizes):
            return True
    return False


def _count_energies(
    expected: list[npt.NDArray[Any]],
    outputs: list[npt.NDArray[Any]],
    samples: int,
    tally: Tally,
    meaning: Meaning | None,
) -> None:
    """Signal and noise of the float outputs together, and of each branch."""
    pairs = [pair for pair in zip(expected, outputs, strict=True) if pair[0].dtype.kind == "f"]
    for left, right in by_sample([a for a, _ in pairs], [b for _, b in pairs], rows=samples):
        for signal, noise in energies_of(left, right):
            tally.outputs.add(signal, noise)
        if meaning is None or any(piece.index >= len(pairs) for piece in meaning.pieces):
            continue
        found = meaning.joined(np.array(energies_of(meaning.cut(left), meaning.cut(right))))
        tally.branches = tally.branches or [Energies() for _ in found]
        for branch, (signal, noise) in zip(tally.branches, found, strict=True):
            branch.add(float(signal), float(noise))


def _branches(tally: Tally, meaning: Meaning | None) -> tuple[BranchSqnr, ...]:
    if meaning is None or tally.branches is None:
        return ()
    told = zip(meaning.judged, tally.branches, strict=True)
    return tuple(BranchSqnr(one.name, one.kind, by.sqnr_db, by.why_no_sqnr) for one, by in told)


def _evaluation(
    session: Session, tally: Tally, index: int, reference: int | None, meaning: Meaning | None
) -> Evaluation:
    if tally.crash is not None:
        crash = tally.crash.text
        return Evaluation(session.name, session.runtime, 0, None, None, None, None, None, failure=crash)
    compared = reference is not None and index != reference
    return Evaluation(
        model=session.name,
        runtime=session.runtime,
        images=tally.images,
        top1=tally.top1 / tally.labelled if tally.labelled else None,
        top5=tally.top5 / tally.labelled if tally.labelled else None,
        agreement=tally.agreeing / tally.classified if compared and tally.classified else None,
        sqnr_db=tally.outputs.sqnr_db if compared else None,
        seconds=None,
        warnings=tuple(_warnings(tally, doubted=not compared)),
        labels_left_out=tally.misfit,
        branches=_branches(tally, meaning),
        labelled=tally.labelled,
    )


def _warnings(tally: Tally, *, doubted: bool) -> Iterator[str]:
    """Whether the model mostly gives the class beside the label: its labels are counted otherwise.

    Args:
        tally: of the model.
        doubted: it is no int8 model beside its original, so that nothing but data or labels can be wrong.
    """
    told = False
    if tally.not_finite:
        yield (
            f"its outputs hold NaN or infinite values for {tally.not_finite} of "
            f"{count(tally.images, 'sample')} (such as "
            f"{tally.first_not_finite}): SQNR cannot be told, and no class of theirs is right"
        )
    for hits, side, cure in ((tally.above, "higher", RAISE), (tally.below, "lower", LOWER)):
        few = tally.classes < FEW_CLASSES or tally.labelled < FEW_LABELS
        if not few and hits > MUCH_MORE * tally.top1 and hits > tally.labelled / MUCH_MORE:
            share, told = f"{100 * hits / tally.labelled:.2f} %", True
            yield Text(f"its class is one {side} than the label on {share} of the images: {cure}")
    if doubted and not told and hardly_better_than_guessing(tally.top1, tally.labelled, tally.classes):
        yield doubt(tally.top1, tally.labelled)
