"""One clear word on an int8 model, from samples held back: kept, visibly damaged, or ruined.

Each branch is judged by a figure of its kind (``calib8.tasks.kept``); the worst one gives the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from calib8.tasks.branches import Meaning
from calib8.tasks.kept import Runs, kept
from calib8.tasks.kinds import Kind

State: TypeAlias = Literal["kept", "damaged", "ruined", "unknown"]

WORDS: Final[Mapping[State, str]] = {
    "kept": "kept",
    "damaged": "visibly damaged",
    "ruined": "ruined",
    "unknown": "not judged",
}

SHARES: Final = (0.95, 0.8)
"""Of scores and classes: one in twenty that change are what good int8 models have on so few samples, as they
lie at the border; where one in five does, every user sees it."""

LINES: Final = (0.95, 0.8)
"""Of lines: the same; a line is wrong with one wrong character."""

COSINES: Final = (0.995, 0.95)
"""Mean cosine: below 0.995 pairs change sides of a usual threshold of verification; at 0.95 the error is a
third of the vector."""

OVERLAPS: Final = (0.97, 0.85)
"""IoU of regions: 0.97 is a border that moved by less than a point here and there; at 0.85 shapes differ."""

BOXES: Final = (25.0, 15.0)
"""dB of coordinates over the whole picture: 6 % and 18 % of their size; at 18 % boxes miss IoU 0.5."""

SIGNALS: Final = (20.0, 10.0)
"""dB of all else: a hundredth and a tenth of the energy is noise."""

LIMITS: Final[Mapping[Kind, tuple[float, float]]] = {
    "scores": SHARES,
    "objectness": SHARES,
    "logits": SHARES,
    "probabilities": SHARES,
    "ctc": LINES,
    "embedding": COSINES,
    "map": OVERLAPS,
    "boxes": BOXES,
    "keypoints": BOXES,
}
"""Kind → at least so much is kept, less than so much is ruined; others have ``SIGNALS``."""

_ORDER: Final[tuple[State, ...]] = ("ruined", "damaged", "unknown", "kept")


@dataclass(frozen=True)
class BranchVerdict:
    """What became of one branch.

    Attributes:
        name, kind: of the branch.
        state: the word.
        value: the figure of its kind; None where nothing tells.
        text: the figure in words.
    """

    name: str
    kind: Kind
    state: State
    value: float | None
    text: str


@dataclass(frozen=True)
class Verdict:
    """What became of a model.

    Attributes:
        state: of the worst branch; ``unknown`` where none could be judged.
        branches: each branch, the worst first; empty where nothing was held back.
        samples: how many judged.
        shared: these samples made the model too: they prove nothing.
        why: why nothing was judged; empty where something was.
    """

    state: State
    branches: tuple[BranchVerdict, ...]
    samples: int
    shared: bool = False
    why: str = ""

    @property
    def text(self) -> str:
        """Such as ``visibly damaged: scores: 91.2 % …; boxes kept: 31.2 dB; on 32 samples held back``."""
        if self.why:
            return f"{WORDS['unknown']}: {self.why}"
        each = "; ".join(f"{self._named(one)}: {one.text}" for one in self.branches)
        samples = f"{self.samples} sample{'s' * (self.samples != 1)}"
        where = f"the {samples} it was made from: no proof" if self.shared else f"{samples} held back"
        return f"{WORDS[self.state]}: {each}; on {where}"

    def _named(self, branch: BranchVerdict) -> str:
        """With its own word where that is another one than that of the whole."""
        return branch.name if branch.state == self.state else f"{branch.name} {WORDS[branch.state]}"


def unjudged(why: str) -> Verdict:
    """The verdict where no sample could judge."""
    return Verdict("unknown", (), 0, why=why)


def verdict_of(meaning: Meaning, expected: Runs, found: Runs, *, shared: bool = False) -> Verdict:
    """The verdict.

    Args:
        meaning: the branches of the outputs.
        expected, found: float outputs of every run, of FP32 and of INT8.
        shared: the samples are those that made the model.
    """
    if not expected or not meaning.judged:
        return unjudged("no sample was held back" if meaning.judged else "no output is judged")
    branches = []
    for branch in meaning.judged:
        told = kept(branch, expected, found)
        branches.append(
            BranchVerdict(branch.name, branch.kind, state_of(branch.kind, told.value), told.value, told.text)
        )
    branches.sort(key=lambda one: _ORDER.index(one.state))
    known = [one.state for one in branches if one.state != "unknown"]
    state: State = min(known, key=_ORDER.index) if known else "unknown"
    return Verdict(state, tuple(branches), len(expected), shared)


def state_of(kind: Kind, value: float | None) -> State:
    """The word for a figure of a kind."""
    if value is None:
        return "unknown"
    enough, least = LIMITS.get(kind, SIGNALS)
    return "kept" if value >= enough else "damaged" if value >= least else "ruined"
