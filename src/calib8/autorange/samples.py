"""Which samples score the ranges and which are held back to check the choice.

Samples are ordered by the SHA-256 of what they are decoded from, so neither the order of the files nor their
names decide. The first ones score, the next ones are held back; with fewer than ``FEWEST_TO_SPLIT`` all do
both, and what is judged on them proves nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from calib8.calibration.kept_runs import FEWEST, LARGEST_BYTES, KeptRun
from calib8.calibration.output_taps import Outputs
from calib8.data.batches import batches
from calib8.data.samples import Dataset, Pending
from calib8.model.runtime import Arrays
from calib8.tasks.branches import Meaning

SCORED: Final = 32
HELD_BACK: Final = 64
FRAMES: Final = 4
"""Frames of a stream in the place of one sample: to a layer one is a row, where an image is hundreds."""

SEVERAL_BYTES: Final = 1 << 28
"""Bytes of samples in memory where outputs have several branches: what becomes of scores hangs on the few
objects of every picture, and on pictures of 640 × 640 eight would judge otherwise."""

FEWEST_TO_SPLIT: Final = FEWEST
"""Below so many samples every one scores and checks."""


@dataclass(frozen=True)
class ChosenSamples:
    """Inputs of single runs of the model: one sample, or as many as a fixed batch takes.

    Attributes:
        scored: what ranges are scored with.
        held_back: what the whole model is checked with.
        shared: both are the same, as there are too few for two sets.
        dataset: what they were chosen from; None: there are no others.
        outputs: what the float model yields for those held back, float outputs only; empty: not known.
        fewest: so many samples are needed to hold some back.
    """

    scored: tuple[Arrays, ...]
    held_back: tuple[Arrays, ...]
    shared: bool
    dataset: Dataset | None = None
    outputs: tuple[Outputs, ...] = ()
    fewest: int = FEWEST_TO_SPLIT

    @property
    def count(self) -> int:
        """Samples that judge: rows of their runs where the model takes several at once."""
        rows = 1 if self.dataset is None else self.dataset.rows_per_batch or 1
        if rows == 1:
            return len(self.held_back)
        return sum(max(len(array) for array in run.values()) for run in self.held_back)


def bytes_to_keep(meaning: Meaning | None) -> int | None:
    """Bytes of samples that may be kept in memory, None for the usual ones."""
    return SEVERAL_BYTES if meaning is not None and meaning.several else None


def runs_for_one(dataset: Dataset | None) -> int:
    """How many runs stand in the place of one: of streams several frames."""
    return FRAMES if dataset is not None and dataset.carried else 1


def choose_samples(
    dataset: Dataset,
    threads: int,
    *,
    scored: int = SCORED,
    held_back: int = HELD_BACK,
    largest: int | None = None,
) -> ChosenSamples:
    """Reads the samples to score and check with; what is read a second time must be there a second time.

    Args:
        dataset: the calibration data; its list of skipped images is left alone.
        threads: how many decode.
        scored, held_back: at most so many runs of each kind.
        largest: bytes that they may have, see ``bytes_to_keep``.

    Raises:
        DataError: nothing can be read any more.
    """
    fewest = _fewest_runs(dataset)
    runs = _runs(dataset, threads, scored + held_back, fewest, largest)
    repairing, held = _parts(len(runs), scored, held_back, fewest)
    needed = fewest * (dataset.rows_per_batch or 1)
    return ChosenSamples(runs[repairing], runs[held], repairing == held, dataset, fewest=needed)


def too_few(samples: ChosenSamples) -> str:
    """That no effort can prove anything on these samples, and the cure."""
    found = f"{samples.count} samples are" if samples.count > 1 else "1 sample is"
    return (
        f"{found} too few to prove a repair on ({samples.fewest}): none was tried; give about "
        f"{max(100, 2 * samples.fewest)}"
    )


def kept_samples(
    kept: Sequence[KeptRun], dataset: Dataset, *, scored: int = SCORED, held_back: int = HELD_BACK
) -> ChosenSamples:
    """The same samples where a run through all of them kept those of lowest digest, one sample a run.

    Args:
        kept: ``scored + held_back`` of them if there are so many, in ascending order of their digests.
        dataset: what they are from.
        scored, held_back: at most so many runs of each kind.
    """
    runs = tuple(run.inputs for run in kept)
    repairing, held = _parts(len(runs), scored, held_back, FEWEST_TO_SPLIT)
    outputs = tuple([array for array in run.outputs if array.dtype.kind == "f"] for run in kept[held])
    return ChosenSamples(runs[repairing], runs[held], repairing == held, dataset, outputs)


def _parts(count: int, scored: int, held_back: int, fewest: int) -> tuple[slice, slice]:
    """Which of ``count`` runs score, and which are held back; all do both where there are too few."""
    if count < fewest:
        return slice(count), slice(count)
    scored = min(scored, count // 2)
    return slice(scored), slice(scored, scored + held_back)


def _fewest_runs(dataset: Dataset) -> int:
    """So many runs, two at least, hold ``FEWEST_TO_SPLIT`` samples."""
    rows = dataset.rows_per_batch or 1
    return max(2, -(-FEWEST_TO_SPLIT // rows))


def _runs(dataset: Dataset, threads: int, most: int, fewest: int, largest: int | None) -> tuple[Arrays, ...]:
    most = max(most, fewest * (dataset.rows_per_batch or 1))
    prints = ((pending.fingerprint(), pending) for pending in dataset.pending())
    chosen = [pending for _, pending in heapq.nsmallest(most, prints, key=itemgetter(0))]

    def pending() -> Iterator[Pending]:
        return iter(chosen)

    again = replace(dataset, pending=pending, count=len(chosen), skipped=[], taken=0)
    runs: list[Arrays] = []
    total = 0
    with closing(batches(again, 1, threads)) as pieces:
        for piece in pieces:
            total += sum(array.nbytes for array in piece.inputs.values())
            if len(runs) >= fewest and total > (LARGEST_BYTES if largest is None else largest):
                break
            runs.append(piece.inputs)
    return tuple(runs[:-1] if len(runs) > 1 and _is_short(runs, dataset) else runs)


def _is_short(runs: list[Arrays], dataset: Dataset) -> bool:
    """Whether the last run has fewer rows than a model with a fixed batch takes."""
    rows = dataset.rows_per_batch
    return rows is not None and rows > 1 and any(len(array) < rows for array in runs[-1].values())
