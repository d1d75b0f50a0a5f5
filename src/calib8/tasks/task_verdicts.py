"""What the judges of tasks say of an int8 model: a word, figures, and these in the words of the field.

    branches ──► parts that one judge reads: boxes with their scores; a map, a vector, lines, points, classes
    part ──► records of every sample, FP32 as the truth ──► figures ──► the word of the worst figure

A part whose meaning is guessed, that nothing is known to decode, or that is not finite in INT8 is not judged
so, nor is one that FP32 has the same for every sample and that INT8 keeps; one with too few objects has no
word (``calib8.tasks.limits``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from calib8.number_texts import percent
from calib8.parameters import Text, parameter
from calib8.tasks.branches import Branch, Meaning, of_threshold
from calib8.tasks.counted_shares import share_of
from calib8.tasks.judged import Inputs, Records, Runs, Truths
from calib8.tasks.judges.ctc import LineRecord
from calib8.tasks.judges.interface import Array
from calib8.tasks.judges.masks import MaskJudge, pixels_of
from calib8.tasks.judges.objects import ObjectRecord
from calib8.tasks.kinds import Kind
from calib8.tasks.limits import FEWEST, FIGURE_LIMITS, State, badness, excess, state_by
from calib8.tasks.unvarying import is_unvarying

LARGE_ENOUGH: Final = 1000
"""Points of a class that make its IoU tell something: of a round region of so many a border that moves by a
tenth of a point costs 1 %."""

_AS_A_MAP: Final = f"read as a map of classes; {parameter('task', 'keypoints')} reads its channels as points"

_DIGITS: Final = {"cosine": 4}
"""Figures are judged as they are shown: rounded to 3 digits, a tenth of a per cent, others to so many."""

_TASKS: Final[Mapping[Kind, str]] = {
    "map": "segment",
    "keypoints": "keypoints",
    "embedding": "embed",
    "ctc": "ctc",
    "logits": "classify",
    "probabilities": "classify",
    "decisions": "speech",
    "signal": "enhance",
}
"""Kinds that a judge reads alone."""


@dataclass(frozen=True)
class TaskVerdict:
    """What became of a part of the outputs, by the judge of its task.

    Attributes:
        name: of the part, for people.
        task: one of ``calib8.tasks.judges.interface.TASKS``.
        branches: names of the branches that it was read from.
        state: the word; ``unknown`` where there are too few objects to say.
        figures: name as in ``FIGURES`` → value; empty where there are too few.
        counted: objects, lines, samples or points of FP32 that the figures stand on.
        text: the figures in words, or why there are none.
        decided_by: the figure that gave the word; empty where there is none.
        excess: the largest of the figures', see ``calib8.tasks.limits``.
        needed: so many would have been enough to count, where there are too few; else 0.
    """

    name: str
    task: str
    branches: tuple[str, ...]
    state: State
    figures: Mapping[str, float]
    counted: int
    text: str
    decided_by: str = ""
    excess: float = 0.0
    needed: int = 0


@dataclass(frozen=True)
class _Part:
    """Branches that one judge reads, and whether it needs all outputs to read them."""

    name: str
    task: str
    branches: tuple[Branch, ...]
    whole: bool


@dataclass
class TaskTruths:
    """FP32's answers by part, each read when it is first asked for.

    Attributes:
        meaning: the branches of the outputs.
        names: of the float outputs.
        expected: float outputs of every run of FP32.
        inputs: what they were fed with.
    """

    meaning: Meaning
    names: Sequence[str]
    expected: Runs
    inputs: Inputs
    _read: dict[str, Truths | None] = field(default_factory=dict)
    _unvarying: dict[str, bool] = field(default_factory=dict)

    def verdicts(self, found: Runs) -> tuple[TaskVerdict, ...]:
        """Those on an int8 model, whose float outputs of the same runs are ``found``."""
        verdicts = list[TaskVerdict]()
        for part in _parts(self.meaning) if self.expected else ():
            if not _finite(part, found):
                continue
            truths = self._of(part)
            kept = None if truths is None else truths.against(found if part.whole else _alone(part, found))
            if kept is None:
                continue
            told = records_verdict(part.name, part.task, [branch.name for branch in part.branches], kept)
            if self._may_be_points(part, kept):
                told = replace(told, text=Text(f"{told.text} ({_AS_A_MAP})"))
            if told.state in ("damaged", "ruined") or not self._is_unvarying(part):
                verdicts.append(told)
        return tuple(verdicts)

    def _may_be_points(self, part: _Part, kept: Records) -> bool:
        """Whether nothing shows that the channels of a map are classes: each may be the map of a point."""
        if self.meaning.named or not isinstance(kept.judge, MaskJudge):
            return False
        head = kept.judge.head
        if part.branches[0].sureness == "named" or head.axis != 0 or (head.classes or 1) < 2:
            return False
        [scores] = _held(part, self.expected[0])
        return not np.allclose(scores.sum(axis=1, dtype=np.float64), 1.0, atol=1e-3)  # shares of classes

    def _is_unvarying(self, part: _Part) -> bool:
        if part.name not in self._unvarying:
            self._unvarying[part.name] = is_unvarying([_held(part, outputs) for outputs in self.expected])
        return self._unvarying[part.name]

    def _of(self, part: _Part) -> Truths | None:
        if part.name not in self._read:
            expected = self.expected if part.whole else _alone(part, self.expected)
            names = self.names if part.whole else [part.name]
            meaning = self.meaning if part.whole else of_threshold(part.branches[0].threshold)
            self._read[part.name] = Truths.of(part.task, names, expected, self.inputs, meaning)
        return self._read[part.name]


def task_verdicts(
    meaning: Meaning, names: Sequence[str], expected: Runs, found: Runs, inputs: Inputs
) -> tuple[TaskVerdict, ...]:
    """The verdicts of all parts that can be decoded.

    Args:
        meaning: the branches of the outputs.
        names: of the float outputs.
        expected, found: float outputs of every run, of FP32 and of INT8.
        inputs: what they were fed with.
    """
    return TaskTruths(meaning, names, expected, inputs).verdicts(found)


def _alone(part: _Part, runs: Runs) -> list[list[Array]]:
    """A branch as the only output."""
    [branch] = part.branches
    return [list(branch.of(outputs)) for outputs in runs]


def _parts(meaning: Meaning) -> Iterator[_Part]:
    sure = [branch for branch in meaning.branches if branch.sureness != "guessed" and branch.kind != "unused"]
    objects = tuple(one for one in sure if one.kind in ("boxes", "scores", "objectness"))
    if len({one.kind == "boxes" for one in objects}) == 2:
        yield _Part("objects", "detect", objects, whole=True)
    for branch in sure:
        if branch.kind in _TASKS:
            cut = len(branch.pieces) > 1 or branch.pieces[0].axis is not None
            points = branch.kind == "keypoints" and cut
            yield _Part(branch.name, _TASKS[branch.kind], (branch,), whole=points)


def _finite(part: _Part, found: Runs) -> bool:
    arrays = (array for outputs in found for array in _held(part, outputs))
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _held(part: _Part, outputs: Sequence[Array]) -> list[Array]:
    """What a part is read from, of one run."""
    return [array for branch in part.branches for array in branch.of(outputs)]


@dataclass(frozen=True)
class _Judged:
    """Figures of one part, none where there are too few objects; and what one object makes of each."""

    figures: Mapping[str, float]
    counted: int
    text: str
    one: Mapping[str, float] = field(default_factory=dict)
    needed: int = 0


def records_verdict(name: str, task: str, branches: Sequence[str], kept: Records) -> TaskVerdict:
    """The verdict of a part from what the judge of its task keeps of every sample, FP32 as the truth.

    Args:
        name: of the part, for people.
        task: one of ``calib8.tasks.judges.interface.TASKS``, that of the judge.
        branches: names of those that it reads.
        kept: of every sample.
    """
    return _by(name, task, branches, _WAYS[task](kept))


def agreement_verdict(name: str, branches: Sequence[str], share: float, count: int) -> TaskVerdict:
    """The verdict of a classifier from the share of ``count`` samples that keep their best class, 0 … 1."""
    return _by(name, "classify", branches, _same_classes({"agreement": share}, count))


def _by(name: str, task: str, branches: Sequence[str], judged: _Judged) -> TaskVerdict:
    limited = [
        (figure, FIGURE_LIMITS[figure], round(value, _DIGITS.get(figure, 3)), judged.one.get(figure, 0.0))
        for figure, value in judged.figures.items()
        if figure in FIGURE_LIMITS
    ]
    words = {figure: state_by(limits, value, one) for figure, limits, value, one in limited}
    beyond = max((excess(limits, value, one) for _, limits, value, one in limited), default=0.0)
    decided_by = min(words, key=lambda figure: badness(words[figure]), default="")
    return TaskVerdict(
        name, task, tuple(branches), words.get(decided_by, "unknown"), judged.figures, judged.counted,
        judged.text, decided_by, beyond, judged.needed,
    )  # fmt: skip


def _too_few(count: int, what: str, least: int = FEWEST) -> _Judged:
    """Such as ``7 of FP32's objects are too few to count (22 are needed)``."""
    are = "is" if count == 1 else "are"
    return _Judged({}, count, f"{count} {what} {are} too few to count ({least} are needed)", needed=least)


def _objects(kept: Records) -> _Judged:
    """Boxes with their scores."""
    records: list[ObjectRecord] = kept.records
    truths, claimed = sum(one.truths for one in records), sum(one.claimed for one in records)
    if truths < FEWEST:
        return _too_few(truths, "of FP32's objects")
    figures = kept.judge.figures(records)
    scored = getattr(kept.judge, "least_score", 0.0)
    text = f"{percent(figures['recall'], 1)} of FP32's {truths} objects with scores above {scored:g} "
    text += "are found again, "
    if "precision" in figures:
        text += f"{percent(1.0 - figures['precision'], 1)} of INT8's {claimed} are new, "
    text += f"mAP@.5 {percent(figures['map50'], 1)}, mAP@[.5:.95] {percent(figures['map'], 1)}"
    rare = _rarest(records)
    one = {"recall": 1.0 / truths, "precision": 1.0 / max(claimed, 1), "map50": rare, "map": rare}
    return _Judged(figures, truths, text, one)


def _rarest(records: Sequence[ObjectRecord]) -> float:
    """What an object of the rarest class makes of a mean over classes; one of ``FEWEST`` at most."""
    counted = np.concatenate([one.matches.truth_classes[one.matches.counted[0]] for one in records])
    counts = np.unique(counted, return_counts=True)[1]
    return min(1.0 / (len(counts) * float(counts.min())), 1.0 / FEWEST)


def _points(kept: Records) -> _Judged:
    """Points of objects; one object per picture is always found."""
    records: list[ObjectRecord] = kept.records
    count = sum(one.truths for one in records)
    several = any(one.truths != 1 for one in records)
    if count < (FEWEST if several else 1):
        return _too_few(count, "of FP32's objects")
    figures = kept.judge.figures(records)
    text = f"{percent(figures['found'], 1)} of FP32's {count} objects are found by their points, "
    one = {"found": 1.0 / count, "oks": 1.0 / count} if several else {}
    return _Judged(figures, count, f"{text}mean OKS {figures['oks']:.3f}", one)


def _regions(kept: Records) -> _Judged:
    """Maps; classes of which FP32 has few points are left out, their borders decide."""
    assert isinstance(kept.judge, MaskJudge)
    first = kept.judge.first_class
    common, own, others = pixels_of(kept.records)
    marked = int(others[first:].sum())
    large = [number for number in range(first, len(others)) if others[number] >= LARGE_ENOUGH]
    if not large:
        largest = int(others[first:].max(initial=0))
        return _too_few(largest, "points of FP32's largest region", LARGE_ENOUGH)
    union = own[large] + others[large] - common[large]
    value = math.fsum(common[large] / union) / len(large)
    of = "FP32's regions" if first else f"FP32's regions of {len(large)} class{'es' * (len(large) > 1)}"
    return _Judged({"miou": value}, marked, f"IoU {value:.3f} with {of}, {marked} points")


def _vectors(kept: Records) -> _Judged:
    """Embeddings."""
    figures = kept.judge.figures(kept.records)
    if "cosine" not in figures:
        return _Judged({}, 0, "FP32's vectors are zero in these samples")
    text = f"mean cosine {figures['cosine']:.4f} with FP32's vectors, least {figures['least_cosine']:.4f}"
    return _Judged(figures, len(kept.records), text)


def _lines(kept: Records) -> _Judged:
    """Lines of text; empty ones are alike too easily."""
    records: list[LineRecord] = kept.records
    written = sum(one.length > 0 for one in records)
    if written < FEWEST:
        return _too_few(written, "of FP32's lines")
    figures = kept.judge.figures(records)
    text = f"{share_of(figures['lines'], len(records))} of the lines are read as FP32 reads them"
    text += f", {percent(figures['character_error'], 1)} of the characters differ"
    return _Judged(figures, len(records), text, {"lines": 1.0 / len(records)})


def _classes(kept: Records) -> _Judged:
    """Best classes."""
    count = len(kept.records)
    if count < FEWEST:
        return _too_few(count, "of the samples")
    return _same_classes(kept.judge.figures(kept.records), count)


def _same_classes(figures: Mapping[str, float], count: int) -> _Judged:
    """Of so many samples that they tell something."""
    text = f"{share_of(figures['agreement'], count)} of the samples keep their class"
    return _Judged(figures, count, text, {"agreement": 1.0 / count})


def _heard(kept: Records) -> _Judged:
    """Decisions per frame."""
    count = len(kept.records)
    if count < FEWEST:
        return _too_few(count, "of the frames")
    figures = kept.judge.figures(kept.records)
    text = f"{share_of(figures['decisions'], count)} of the frames are decided as FP32 decides them"
    for name, words in (("missed", "of FP32's yes are missed"), ("made_up", "of its no are made up")):
        text += f", {percent(figures[name], 1)} {words}" if name in figures else ""
    return _Judged(figures, count, text, {"decisions": 1.0 / count})


def _signals(kept: Records) -> _Judged:
    """Frames of sound."""
    figures = kept.judge.figures(kept.records)
    if not figures:
        return _Judged({}, 0, "FP32's signal is zero in these samples")
    text = f"SQNR {figures['sqnr_db']:.1f} dB, SI-SDR {figures['si_sdr_db']:.1f} dB beside FP32's signal"
    return _Judged(figures, len(kept.records), text)


_WAYS: Final[Mapping[str, Callable[[Records], _Judged]]] = {
    "detect": _objects,
    "keypoints": _points,
    "segment": _regions,
    "embed": _vectors,
    "ctc": _lines,
    "classify": _classes,
    "speech": _heard,
    "enhance": _signals,
}
