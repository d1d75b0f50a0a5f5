"""Branches of outputs: parts of arrays that mean one thing, cut out by NumPy's slicing.

output0 [1, 84, 8400]      boxes  = output0[:, 0:4]      scores = output0[:, 4:84]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.tasks.grid import Grid
from calib8.tasks.kinds import Kind, Task

Array = npt.NDArray[Any]
Energies = npt.NDArray[np.float64]

Sureness: TypeAlias = Literal["named", "sure", "likely", "guessed"]
"""named    the user says so
sure     the graph computes nothing else in this way
likely   so it is in all networks that are known
guessed  it may be something else
"""


@dataclass(frozen=True)
class Piece:
    """A part of one float output.

    Attributes:
        output: its name.
        index: its place among the float outputs.
        axis: along which it is cut; None: it is the whole output.
        first, last: entries ``first`` … ``last`` − 1 of that axis.
        sigmoid: what reads it takes the Sigmoid of it, and so do all figures of it.
        softmax: the same of the Softmax over ``axis``.
    """

    output: str
    index: int
    axis: int | None = None
    first: int = 0
    last: int = 0
    sigmoid: bool = False
    softmax: bool = False

    def of(self, outputs: Sequence[Array]) -> Array:
        """The part, a view unless a function is taken; all of the array where it has not so many entries."""
        array = outputs[self.index]
        if self.axis is not None and array.ndim > self.axis and array.shape[self.axis] >= self.last:
            array = array[(slice(None),) * self.axis + (slice(self.first, self.last),)]
        if self.softmax and self.axis is not None and array.ndim > self.axis:
            powers = np.exp(array - array.max(axis=self.axis, keepdims=True, initial=-np.inf))
            return np.asarray(powers / powers.sum(axis=self.axis, keepdims=True), array.dtype)
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * array), array.dtype) if self.sigmoid else array

    def touches(self, other: Piece) -> bool:
        """Whether another one begins where it ends."""
        ends = (self.output, self.axis, self.last)
        return self.axis is not None and ends == (other.output, other.axis, other.first)

    def __str__(self) -> str:
        """As the user names it."""
        if self.axis is None:
            return self.output
        return f"{self.output}[{':,' * self.axis}{self.first}:{self.last}]"


@dataclass(frozen=True)
class Branch:
    """What means one thing.

    Attributes:
        name: for people; no two branches of a model have the same.
        kind: what it is.
        pieces: where it is.
        sureness: of the kind.
        why: what shows it.
        chosen: which rows there are depends on the values (NonMaxSuppression, TopK): a small change puts
            other rows in their places, and differences row by row tell nothing.
        threshold: above it a number says yes, where decisions are made; None: by what the numbers are.
    """

    name: str
    kind: Kind
    pieces: tuple[Piece, ...]
    sureness: Sureness
    why: str
    chosen: bool = False
    threshold: float | None = None

    def of(self, outputs: Sequence[Array]) -> list[Array]:
        """Its parts in the float outputs of one run."""
        return [piece.of(outputs) for piece in self.pieces]

    @property
    def places(self) -> str:
        """Such as ``output0[:,4:84]``; neighbours as one."""
        found = list[Piece]()
        for piece in self.pieces:
            if found and found[-1].touches(piece):
                found[-1] = replace(found[-1], last=piece.last)
            else:
                found.append(piece)
        return ", ".join(map(str, found))


@dataclass(frozen=True)
class Meaning:
    """What the float outputs of a model mean.

    Attributes:
        branches: in the order of the outputs.
        task: what the network is for; None: not known.
        named: the user named the task.
        grids: outputs that are raw grids of anchors.
        said: parts that the user named, and as what.
    """

    branches: tuple[Branch, ...]
    task: Task | None = None
    named: bool = False
    grids: tuple[Grid, ...] = ()
    said: tuple[tuple[Piece, Kind], ...] = ()

    @property
    def judged(self) -> tuple[Branch, ...]:
        """Those that tell something: not what is unused; of rows that were chosen their scores alone."""
        used = [branch for branch in self.branches if branch.kind != "unused"]
        sorted_ones = any(branch.chosen and branch.kind == "scores" for branch in used)
        told = (branch for branch in used if not (sorted_ones and branch.chosen and branch.kind != "scores"))
        return tuple(told)

    @property
    def several(self) -> bool:
        """More than one branch is judged: no single figure tells of all."""
        return len(self.judged) > 1

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Of all branches, in their order."""
        return tuple(piece for branch in self.branches for piece in branch.pieces)

    def cut(self, outputs: Sequence[Array]) -> list[Array]:
        """The float outputs of one run as ``pieces``."""
        return [piece.of(outputs) for piece in self.pieces]

    def joined(self, energies: Energies) -> Energies:
        """Energies float64 [… , pieces, 2] as those of the branches that are judged, [… , branches, 2]."""
        ends = np.cumsum([0, *(len(branch.pieces) for branch in self.branches)])
        places = zip(self.branches, ends[:-1], ends[1:], strict=True)
        told = self.judged
        sums = [energies[..., a:b, :].sum(axis=-2) for branch, a, b in places if branch in told]
        return np.stack(sums, axis=-2) if sums else energies[..., :0, :]

    def kind(self, kind: Kind) -> Branch | None:
        """The first branch of a kind."""
        return next((branch for branch in self.branches if branch.kind == kind), None)


def of_threshold(threshold: float | None) -> Meaning | None:
    """What a judge of decisions is told of outputs of which the threshold alone is known; None: nothing."""
    if threshold is None:
        return None
    return Meaning((Branch("", "decisions", (), "named", "", threshold=threshold),))
