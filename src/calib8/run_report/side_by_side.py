"""A float and an int8 model run on the same few samples: what their layers lose, and what they answer.

Samples are run one by one. The SQNR of a sample is that of its outputs, of several branches the worst:

    d(i, b) = 10 log10( Σ r² / Σ (r − y)² )       sample i, branch b: r in FP32, y in INT8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.compare import compare
from calib8.analysis.comparison import Comparison
from calib8.analysis.model_pair import Model
from calib8.autorange.check import float_outputs
from calib8.calibration.statistics import Statistics
from calib8.data.batches import batches
from calib8.data.fed import Fed
from calib8.data.samples import Array
from calib8.errors import Calib8Error
from calib8.model.fix_inputs import with_fixed
from calib8.model.load import load_model
from calib8.pipeline import collect_statistics
from calib8.progress import Progress, silent
from calib8.run_report.chosen_samples import ChosenReading
from calib8.run_report.pictures import Pixels, answer_of, data_uri, pixels_of
from calib8.run_report.told import SampleShown
from calib8.tasks.branches import Meaning
from calib8.tasks.figures import LARGEST_DB, QUIET, Energies, decibels, energies_of
from calib8.tasks.judges.find import AnyJudge, find_judge, picture_size
from calib8.tasks.purpose import NOTHING_SAID, Purpose
from calib8.tasks.seen import analysable, is_float
from calib8.tasks.task_verdicts import task_verdicts
from calib8.tasks.verdict import Verdict, verdict_of

WORST: Final = 8
"""Samples that are shown."""

LARGEST_BYTES: Final = 1 << 28
"""Of the inputs that are kept in memory at a time."""

Outputs = list[Array]


@dataclass(frozen=True)
class SideBySide:
    """What was seen.

    Attributes:
        where: on which samples, in words.
        comparison: of all layers; None where they cannot be compared.
        note: why they cannot, or why nothing was counted; empty where that was done.
        statistics: of the activations of the float model; None where they were not wanted, or cannot be.
        samples: the worst first.
        verdict: on these samples, by those who judge ``quantize``.
        fed: the data that they are of; None: not known.
    """

    where: str
    comparison: Comparison | None
    note: str
    statistics: Statistics | None
    samples: tuple[SampleShown, ...]
    verdict: Verdict
    fed: Fed | None = None


def side_by_side(
    fp32: Model, int8: Model, reading: ChosenReading, *, purpose: Purpose = NOTHING_SAID,
    compared: Comparison | None = None, counted: bool = True, progress: Progress = silent,
) -> SideBySide:  # fmt: skip
    """Runs both models.

    Args:
        fp32, int8: paths or ModelProtos; the second one a QDQ model.
        reading: the samples.
        purpose: what the outputs mean.
        compared: layers that were compared already; None: they are compared here.
        counted: count the values of the activations too.
        progress: see ``calib8.calibrate``.

    Raises:
        Calib8Error: a model cannot be run, or a sample cannot be read.
    """
    note, statistics = "", None
    try:
        compared = compared or compare(fp32, int8, reading, task=purpose, progress=progress)
        if counted:
            statistics = collect_statistics(fp32, reading, progress=progress).statistics
    except Calib8Error as error:  # samples and answers can be shown all the same
        note = error.text
    floats, codes = load_model(with_fixed(fp32, reading.fix)), load_model(int8)
    meaning = purpose.meaning(analysable(floats))
    progress("judging samples", 0, None)
    seen = _seen(floats, codes, reading)
    names = [value.name or "" for value in floats.graph.outputs if is_float(value)]
    tasks = task_verdicts(meaning, names, seen.expected, seen.found, seen.inputs)
    verdict = verdict_of(meaning, seen.expected, seen.found, tasks)
    return SideBySide(
        reading.where, compared, note, statistics, _worst(seen, reading, meaning, names), verdict
    )


@dataclass(frozen=True)
class _Seen:
    """Samples by their names, with their inputs and the float outputs of both models."""

    names: list[str]
    inputs: list[Mapping[str, Array]]
    expected: list[Outputs]
    found: list[Outputs]


def _seen(floats: ir.Model, codes: ir.Model, reading: ChosenReading) -> _Seen:
    names, inputs, total = list[str](), list[Mapping[str, Array]](), 0
    with closing(batches(reading.opened(()), 1, reading.threads)) as pieces:
        for piece in pieces:
            total += sum(array.nbytes for array in piece.inputs.values())
            if inputs and total > LARGEST_BYTES:
                break
            names.append(piece.names[0] if len(piece.names) == 1 else f"{piece.names[0]} …")
            inputs.append(piece.inputs)
    runs = tuple(inputs)
    expected, found = (float_outputs(model, runs, reading.threads) for model in (floats, codes))
    return _Seen(names, inputs, expected, found)


def _worst(
    seen: _Seen, reading: ChosenReading, meaning: Meaning, names: Sequence[str]
) -> tuple[SampleShown, ...]:
    """Those with another answer first, then those of the lowest SQNR."""
    figures = sqnr_of_samples(seen.expected, seen.found, meaning)
    judge, preprocess = _judge(seen, meaning, names), reading.opened(()).preprocess
    shown = [_sample(seen, place, figure, judge, meaning, preprocess) for place, figure in enumerate(figures)]
    return tuple(sorted(shown, key=lambda one: (one.same is not False, one.sqnr_db))[:WORST])


def sqnr_of_samples(expected: Sequence[Outputs], found: Sequence[Outputs], meaning: Meaning) -> list[float]:
    """SQNR of every sample in dB, of several branches the worst that is loud; −inf where it is not finite.

    A branch in which a sample has next to no signal, as where nothing is to be found, tells nothing of it:
    120 where that is so of all.

    Args:
        expected, found: float outputs of every sample, of FP32 and of INT8.
        meaning: of the outputs.
    """
    energies = np.array([_energies(*pair, meaning) for pair in zip(expected, found, strict=True)])
    if not energies.size:
        return [LARGEST_DB] * len(expected)
    loud = energies[:, :, 0] > QUIET * energies[:, :, 0].mean(axis=0, keepdims=True)
    figures = []
    for rows, heard in zip(energies, loud, strict=True):
        if not np.isfinite(rows).all():
            figures.append(-np.inf)
        else:
            figures.append(float(decibels(rows[heard]).min(initial=LARGEST_DB)))
    return figures


def _energies(expected: Outputs, found: Outputs, meaning: Meaning) -> Energies:
    """Signal and noise of each branch; of each output where the branches are not known."""
    fits = len(expected) == len(found) and all(piece.index < len(expected) for piece in meaning.pieces)
    if fits and meaning.judged:
        return meaning.joined(np.array(energies_of(meaning.cut(expected), meaning.cut(found))))
    return np.array(energies_of(expected, found))


def _judge(seen: _Seen, meaning: Meaning, names: Sequence[str]) -> AnyJudge | None:
    """Who reads the outputs; None where nothing is known to."""
    task = meaning.task or next(
        ("classify" for branch in meaning.branches if branch.kind in ("logits", "probabilities")), None
    )
    if task is None or not seen.expected:
        return None
    try:
        return find_judge(task, names, seen.expected[0], seen.inputs[0], meaning)
    except Calib8Error:
        return None


def _sample(
    seen: _Seen, place: int, figure: float, judge: AnyJudge | None, meaning: Meaning, preprocess: Any
) -> SampleShown:
    inputs, name = seen.inputs[place], seen.names[place]
    pixels: Pixels | None = pixels_of(inputs, preprocess)
    picture, size = ("", (0, 0)) if pixels is None else data_uri(pixels)
    if judge is None:
        return SampleShown(name, figure, picture, size, None, None, None)
    try:
        shape = picture_size(inputs, judge.task) if judge.task == "detect" else (1, 1)
        outputs = (seen.expected[place], seen.found[place])
        reads = [judge.read(one, name) for one in outputs]
        answers = [
            answer_of(judge, read, one, meaning, pixels, shape)
            for read, one in zip(reads, outputs, strict=True)
        ]
    except Calib8Error:
        return SampleShown(name, figure, picture, size, None, None, None)
    same = _same(judge, reads[0], reads[1])
    return SampleShown(name, figure, picture, size, answers[0], answers[1], same)


def _same(judge: AnyJudge, expected: Any, found: Any) -> bool | None:
    """Whether both models answer the same, as far as an answer is the same or not."""
    if judge.task == "classify":
        return bool(expected[0] == found[0])
    if judge.task in ("ctc", "speech"):
        return bool(expected == found)
    if judge.task == "detect":
        record = judge.compare(found, judge.as_truth(expected))
        return bool(record.found == record.truths == record.claimed)
    return None
