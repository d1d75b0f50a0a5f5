"""One clear word on an int8 model, from samples held back: kept, visibly damaged, or ruined.

What the judge of a task can decode is judged by its figures (``calib8.tasks.task_verdicts``), every other
branch by a figure of its kind that needs no decoding (``calib8.tasks.kept``), and where there are too few
objects to count by its SQNR. The worst of them gives the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.parameters import Text, parameter, with_both
from calib8.tasks.branches import Branch, Meaning
from calib8.tasks.kept import Runs, kept, signal_kept
from calib8.tasks.kinds import Kind
from calib8.tasks.limits import FEWEST, SIGNAL_LIMITS, badness, excess, state_by, worst
from calib8.tasks.limits import LIMITS as LIMITS
from calib8.tasks.limits import SIGNALS as SIGNALS
from calib8.tasks.limits import State as State
from calib8.tasks.task_verdicts import TaskVerdict, agreement_verdict
from calib8.tasks.unvarying import SAME, is_unvarying

WORDS: Final[Mapping[State, str]] = {
    "kept": "kept",
    "damaged": "visibly damaged",
    "ruined": "ruined",
    "unknown": "not judged",
}


@dataclass(frozen=True)
class BranchVerdict:
    """What became of one branch.

    Attributes:
        name, kind: of the branch.
        state: the word.
        value: the figure of its kind; None where nothing tells.
        text: the figure in words.
        excess: the figure's, see ``calib8.tasks.limits``.
        few: how many of its objects there were to count, where these were too few; 0: enough, or not counted.
        unvarying: FP32's is the same for every sample: what INT8 keeps of it proves nothing, loss does.
    """

    name: str
    kind: Kind
    state: State
    value: float | None
    text: str
    excess: float = 0.0
    few: int = 0
    unvarying: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of a model.

    Attributes:
        state: the worst word, of what judges decoded and of the branches that none of them read; ``unknown``
            where nothing could be judged.
        branches: each branch, the worst first; empty where nothing was held back.
        samples: how many judged.
        shared: these samples made the model too: they prove nothing.
        why: why nothing was judged; empty where something was.
        tasks: what the judges of tasks say, the worst first.
        where: on which samples, in words; empty: those that were held back, or that made the model.
    """

    state: State
    branches: tuple[BranchVerdict, ...]
    samples: int
    shared: bool = False
    why: str = ""
    tasks: tuple[TaskVerdict, ...] = ()
    where: str = ""

    @property
    def deciding(self) -> tuple[TaskVerdict | BranchVerdict, ...]:
        """What the word comes from, the worst first: branches that a judge has read are not among them."""
        told = [task for task in self.tasks if task.state != "unknown"]
        read = {name for task in told for name in task.branches}
        rest = [branch for branch in self.branches if branch.name not in read]
        return tuple(sorted((*told, *rest), key=lambda one: badness(one.state)))

    @property
    def excess(self) -> float:
        """The largest of what the word comes from, see ``calib8.tasks.limits``."""
        return max((one.excess for one in self.deciding), default=0.0)

    @property
    def text(self) -> str:
        """Such as ``visibly damaged: 91.2 % of FP32's 312 objects … ; on 64 samples held back``."""
        if self.why:
            return Text(f"{WORDS['unknown']}: {with_both(self.why)}")
        samples = f"{self.samples} sample{'s' * (self.samples != 1)}"
        where = f"the {samples} it was made from: no proof" if self.shared else f"{samples} held back"
        return Text(f"{self.word}: {with_both(self.grounds)}; on {self.where or where}")

    @property
    def word(self) -> str:
        """The word for people: ``probably`` before it where something was too little to count."""
        known = self.state != "unknown"
        return f"{'probably ' * (known and self.unsure)}{WORDS[self.state]}"

    @property
    def unsure(self) -> bool:
        """A part of the outputs had too few objects, lines, vectors or samples for the figures of its task.

        Where these are counted its SQNR decided; a mean of few is told all the same.
        """
        read_so = [branch for branch in self.deciding if isinstance(branch, BranchVerdict) and branch.few]
        return bool(read_so) or any(task.state == "unknown" or _is_of_few(task) for task in self.tasks)

    @property
    def samples_needed(self) -> int | None:
        """How many samples held back would have enough to count; None where there are, or none tells it."""
        counted = [(task.counted, task.needed) for task in self.tasks if task.state == "unknown"]
        counted += [(one.few, FEWEST) for one in self.branches if one.few]
        counted += [(task.counted, FEWEST) for task in self.tasks if _is_of_few(task)]
        told = [math.ceil(self.samples * needed / count) for count, needed in counted if count and needed]
        return max(told, default=None) if self.unsure else None

    @property
    def grounds(self) -> str:
        """What the word comes from, in words: the text without the word and the samples."""
        told = self.deciding
        alone = len(told) == 1 and isinstance(told[0], TaskVerdict)
        each = [with_both(one.text) for one in told]
        if not alone:
            each = [f"{self._named(one)}: {text}" for one, text in zip(told, each, strict=True)]
        each += [with_both(task.text) for task in self.tasks if task.state == "unknown"]
        return Text("; ".join(each))

    def _named(self, one: TaskVerdict | BranchVerdict) -> str:
        """With its own word where that is another one than that of the whole."""
        return one.name if one.state == self.state else f"{one.name} {WORDS[one.state]}"


def _is_of_few(task: TaskVerdict) -> bool:
    """A mean of fewer than would be enough to count."""
    return task.state != "unknown" and 0 < task.counted < FEWEST


def unjudged(why: str) -> Verdict:
    """The verdict where no sample could judge."""
    return Verdict("unknown", (), 0, why=why)


def why_unjudged(meaning: Meaning) -> str:
    """Why no branch is judged, where none is."""
    if not meaning.branches:
        return "what the outputs mean is not known"
    by_user = any(kind == "unused" for _, kind in meaning.said)
    return "all outputs are unused" + (f", as {parameter('branches')} says" if by_user else "")


def verdict_of(
    meaning: Meaning,
    expected: Runs,
    found: Runs,
    tasks: Sequence[TaskVerdict] = (),
    *,
    shared: bool = False,
) -> Verdict:
    """The verdict.

    Args:
        meaning: the branches of the outputs.
        expected, found: float outputs of every run, of FP32 and of INT8.
        tasks: what the judges of tasks say of the same runs.
        shared: the samples are those that made the model.
    """
    if not expected or not (meaning.judged or tasks):
        return unjudged("no sample was held back" if meaning.judged else why_unjudged(meaning))
    few = {name for task in tasks if task.state == "unknown" for name in task.branches}
    branches = [_of_branch(one, expected, found, counted=one.name not in few) for one in meaning.judged]
    branches.sort(key=lambda one: badness(one.state))
    known = sorted(tasks, key=lambda one: badness(one.state))
    verdict = Verdict("unknown", tuple(branches), len(expected), shared, "", tuple(known))
    return replace(verdict, state=worst([one.state for one in verdict.deciding]))


def _of_branch(branch: Branch, expected: Runs, found: Runs, *, counted: bool) -> BranchVerdict:
    """Of one branch; not by what is counted where a judge has said that there is too little to count."""
    told = _by_figures(branch, expected, found, counted=counted)
    if not is_unvarying([branch.of(outputs) for outputs in expected]):
        return told
    if told.state in ("damaged", "ruined"):
        return replace(told, unvarying=True)
    return BranchVerdict(branch.name, branch.kind, "unknown", None, SAME, unvarying=True)


def _by_figures(branch: Branch, expected: Runs, found: Runs, *, counted: bool) -> BranchVerdict:
    told = kept(branch, expected, found)
    count, note = told.counted or 0, ""
    if counted and 0 < count < FEWEST:
        note = f", as {count} of them are too few to count ({FEWEST} are needed)"
    if counted and not note:
        one = 1.0 / count if count else 0.0
        limits = LIMITS.get(branch.kind, SIGNALS)
        state, beyond = state_by(limits, told.value, one), excess(limits, told.value, one)
        return BranchVerdict(branch.name, branch.kind, state, told.value, told.text, beyond)
    told = signal_kept(branch, expected, found)
    limits = SIGNAL_LIMITS.get(branch.kind, SIGNALS)
    state, beyond = state_by(limits, told.value), excess(limits, told.value)
    text = Text(f"{with_both(told.text)}{note}")
    return BranchVerdict(branch.name, branch.kind, state, told.value, text, beyond, count if note else 0)


def with_agreement(verdict: Verdict, share: float, count: int) -> Verdict:
    """The verdict by the best classes of more samples than it stands on; itself where more than these decide.

    Args:
        verdict: on some of the samples.
        share: of all of them that have FP32's best class, 0 … 1.
        count: how many there are.
    """
    told = verdict.deciding
    if any(one.unvarying for one in verdict.branches):
        return verdict
    if len(told) != 1 or count < max(FEWEST, verdict.samples) or not _of_classes(told[0]):
        return verdict
    [part] = told
    branches = part.branches if isinstance(part, TaskVerdict) else (part.name,)
    by_classes = agreement_verdict(part.name, branches, share, count)
    state, text = by_classes.state, by_classes.text
    same = [
        replace(one, state=state, value=share, text=text, few=0) if one.name in branches else one
        for one in verdict.branches
    ]
    return replace(verdict, state=state, branches=tuple(same), samples=count, tasks=(by_classes,))


def _of_classes(part: TaskVerdict | BranchVerdict) -> bool:
    """Nothing but best classes gives its word."""
    if isinstance(part, TaskVerdict):
        return part.task == "classify"
    return part.kind in ("logits", "probabilities")


def state_of(kind: Kind, value: float | None) -> State:
    """The word for a figure of a kind."""
    return state_by(LIMITS.get(kind, SIGNALS), value)
