"""What ``evaluate`` finds of all samples, or of a part of them: findings of parts join to those of all.

    tallies    counts and energies of each model            ``calib8.analysis.tally``
    classes    how often labels and answers come together   ``calib8.analysis.by_class``
    verdicts   outputs of the samples of lowest digest      ``calib8.analysis.verdicts``

In one process that is done on the whole dataset; on a cluster every worker opens the models once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calib8.analysis.by_class import ClassCounts
from calib8.analysis.evaluate import Counting, Outputs, tallied
from calib8.analysis.open_models import OpenModels
from calib8.analysis.tally import Tally
from calib8.calibration.origin import Origin, origins_text, this_origin, united
from calib8.calibration.own_states import OwnStates
from calib8.data.batches import Batch, batches
from calib8.data.digests import DigestLog
from calib8.data.finite import finite_only
from calib8.data.samples import Dataset
from calib8.errors import UsageError
from calib8.model.runtime import Session
from calib8.parameters import parameter
from calib8.tasks.branches import Meaning

if TYPE_CHECKING:  # a plan alone runs without the judges
    from calib8.analysis.verdicts import Verdicts


@dataclass(frozen=True)
class Findings:
    """Of some samples.

    Attributes:
        tallies: of every model.
        classes: None where outputs are no classes.
        verdicts: None where nothing is compared.
        origins: machines that ran the models; none where this process did.
    """

    tallies: list[Tally]
    classes: ClassCounts | None
    verdicts: Verdicts | None
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, eq=False)
class EvaluationWork:
    """Runs models over samples, as work on all samples (``calib8.data.whole``).

    Attributes:
        models: which.
        counting: what is counted of their outputs.
        batch: samples per run.
        class_names: of the labels, by number, empty where they are numbers; None: outputs are no classes.
        mixed: machines may be of several kinds; None: this process does it all.
        beside: is given every batch with what the models gave for it, in this process alone.
    """

    models: OpenModels
    counting: Counting
    batch: int
    class_names: Sequence[str] | None = ()
    mixed: bool | None = None
    beside: Callable[[Batch, Outputs], None] | None = None

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> Findings:
        """What is found of some samples.

        Raises:
            Calib8Error: see ``tallied``, and what ``beside`` raises.
        """
        sessions, names = self.models.sessions(threads), self.class_names
        reference, offset = self.counting.reference, self.counting.label_offset
        classes = None if names is None else ClassCounts(reference, offset, names)
        verdicts = verdicts_beside(sessions, reference, self.counting.meaning)
        log = None if verdicts is None else DigestLog(dataset)

        def add(batch: Batch, results: Outputs) -> None:
            if self.beside is not None:
                self.beside(batch, results)
            if classes is not None:
                classes.add(batch, results)
            if verdicts is not None and log is not None:
                verdicts.add(batch, results, log.advance(batch.names))

        given = batches(dataset if log is None else log.dataset, self.batch, threads)
        with closing(finite_only(given)) as pieces:
            tallies = tallied(
                sessions,
                pieces,
                self.counting,
                on_batch=seen,
                on_outputs=add,
                own=self._own_states(dataset, sessions),
            )
        origins = () if self.mixed is None else (this_origin(),)
        return Findings(tallies, classes, verdicts, origins)

    def _own_states(self, dataset: Dataset, sessions: Sequence[Session]) -> dict[int, OwnStates]:
        """Of the models beside the float one, whose states the frames of a stream hold."""
        if dataset.stream is None:
            return {}
        others = (index for index in range(len(sessions)) if index != self.counting.reference)
        return {index: OwnStates(dataset.stream, sessions[index].run) for index in others}

    def joined(self, first: Findings, second: Findings) -> Findings:
        """Of the samples of both.

        Raises:
            UsageError: they are of machines that compute other bits, and these may not be mixed.
        """
        origins = united(first.origins, second.origins)
        if len(origins) > 1 and not self.mixed:
            problem = f"ran the models on {origins_text(origins)}: the last digits of figures differ"
            cure = (
                "Keep to machines of one CPU type with one version of ONNX Runtime; "
                f"{parameter('mixed', True)} takes all of them"
            )
            raise UsageError("cluster", problem, cure)
        tallies = [one.joined(other) for one, other in zip(first.tallies, second.tallies, strict=True)]
        classes = (
            None if first.classes is None or second.classes is None else first.classes.joined(second.classes)
        )
        verdicts = (
            None
            if first.verdicts is None or second.verdicts is None
            else first.verdicts.joined(second.verdicts)
        )
        return Findings(tallies, classes, verdicts, origins)


def verdicts_beside(
    sessions: Sequence[Session], reference: int | None, meaning: Meaning | None
) -> Verdicts | None:
    """What gathers for verdicts; None where there is nothing to compare.

    Args:
        sessions: the models.
        reference: index of the float one, None without any.
        meaning: branches of its outputs; None: they are not known.
    """
    if reference is None or len(sessions) == 1:
        return None
    from calib8.analysis.verdicts import Verdicts  # a plan alone runs without the judges

    return Verdicts(reference, [spec.name for spec in sessions[reference].outputs], meaning)
