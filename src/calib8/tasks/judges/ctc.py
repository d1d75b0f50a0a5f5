"""Lines of text from scores of characters per step (CTC): how many are read alike.

line              best character per step; repeated ones once, then without the blank
lines             share of the samples with the very same line
character_error   Σ edit distance / Σ characters of the truth's lines
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calib8.errors import DataError, UsageError
from calib8.parameters import parameter
from calib8.requests import fit_fields
from calib8.tasks.judges.interface import Array, output_of, told
from calib8.tensors import shape_text

Line = tuple[int, ...]
"""Numbers of characters."""


@dataclass(frozen=True)
class LineRecord:
    """Edit distance of a sample's line, and the number of characters of the truth's."""

    distance: int
    length: int


@dataclass(frozen=True)
class CtcJudge:
    """Judges lines.

    Attributes:
        output: index of the output: [1, steps, characters] or [steps, 1, characters], or the numbers of the
            best characters, [1, steps].
        blank: number of the character that stands for none: 0 or −1 (the last).
        characters: what each number of the output stands for, that of the blank included, whatever it is;
            labels need it. None: not known.
    """

    output: int = 0
    blank: int = 0
    characters: tuple[str, ...] | None = None
    task: ClassVar[str] = "ctc"

    def __post_init__(self) -> None:
        """Checks types; a text stands for its characters."""
        given: object = self.characters
        if isinstance(given, str):
            object.__setattr__(self, "characters", tuple(given))
        fit_fields(self)

    def read(self, outputs: Sequence[Array], name: str) -> Line:
        """The line; see ``Judge``."""
        array = output_of(outputs, self.output, name, "Give a CtcJudge that says which output it is")
        scores = _scores(array)
        if scores is None and _are_numbers(array):
            return line_of(array.reshape(-1).astype(np.int64), self.blank)
        if scores is None:
            problem = f"output {self.output} holds no scores of characters per step"
            raise DataError(name, problem, "Give a CtcJudge that says which output does")
        self._check_alphabet(scores.shape[1], name)
        return greedy_line(scores, self.blank)

    def _check_alphabet(self, wide: int, name: str) -> None:
        """Refuses a blank or characters of another alphabet than the output's, of ``wide`` characters."""
        if not -wide <= self.blank < wide:
            problem = f"the output has {wide} characters, and no number {self.blank} for the blank"
            raise DataError(name, problem, f"Give a CtcJudge with blank=0 … {wide - 1}, or -1 for the last")
        if self.characters is not None and len(self.characters) != wide:
            problem = f"the output has {wide} characters, and the CtcJudge has {len(self.characters)}"
            raise DataError(name, problem, "Give one for each of its numbers, the blank's included")

    def line(self, text: str, name: str) -> Line:
        """A labelled text as numbers of characters.

        Raises:
            UsageError: the characters are not known.
            DataError: the text holds one that the model does not have.
        """
        if self.characters is None:
            problem = "lines of text are labelled, and the characters of the model are not known"
            raise UsageError(parameter("task", "ctc"), problem, "From Python give CtcJudge(characters=…)")
        blank = self.blank % len(self.characters)
        numbers = {one: number for number, one in enumerate(self.characters) if number != blank}
        strange = next((one for one in text if one not in numbers), None)
        if strange is not None:
            problem = f"its text holds '{strange}', which is none of the {len(numbers)} characters"
            raise DataError(name, problem, "Give the characters of this model, or other labels")
        return tuple(numbers[one] for one in text)

    def as_truth(self, answer: Line) -> Line:
        """The line as it is."""
        return answer

    def compare(self, answer: Line, truth: Line) -> LineRecord:
        """Edit distance of the two."""
        return LineRecord(edit_distance(answer, truth), len(truth))

    def figures(self, records: Sequence[LineRecord]) -> dict[str, float]:
        """``lines`` and ``character_error``."""
        length = sum(one.length for one in records)
        same = sum(one.distance == 0 for one in records)
        return told(
            {
                "lines": same / len(records) if records else None,
                "character_error": sum(one.distance for one in records) / length if length else None,
            }
        )


def greedy_line(scores: Array, blank: int) -> Line:
    """The line of scores [steps, characters]; the lower number first among equals."""
    best = np.argmax(np.nan_to_num(scores, nan=-np.inf), axis=1)
    return line_of(best, blank % scores.shape[1])


def line_of(best: Array, blank: int) -> Line:
    """Numbers of characters, int [steps], repeated ones once and without the blank."""
    changed = np.ones(len(best), np.bool_)
    changed[1:] = best[1:] != best[:-1]
    return tuple(int(one) for one in best[changed & (best != blank)])


def edit_distance(left: Line, right: Line) -> int:
    """The fewest insertions, deletions and replacements that make one line of the other (Levenshtein)."""
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, 1):
        diagonal, row[0] = row[0], number
        for column, other in enumerate(right, 1):
            cost = min(row[column] + 1, row[column - 1] + 1, diagonal + (one != other))
            diagonal, row[column] = row[column], cost
    return row[-1]


def _scores(array: Array) -> Array | None:
    """[steps, characters] of one sample; None where it is nothing of the kind."""
    if array.ndim == 4 and 1 in array.shape[1:3]:
        array = array.reshape(array.shape[0], -1, array.shape[-1])
    if array.dtype.kind != "f" or array.ndim != 3 or 1 not in array.shape[:2] or array.shape[2] < 2:
        return None
    return array.reshape(-1, array.shape[2])


def _are_numbers(array: Array) -> bool:
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(np.all(array == np.round(array))))
    return whole and array.ndim in (1, 2) and array.size == max(array.shape)


def find_ctc(names: Sequence[str], outputs: Sequence[Array]) -> CtcJudge:
    """The first output with scores of characters; the blank is the more frequent of the first and the last.

    Raises:
        UsageError: there is none, or neither the first nor the last character ever stands.
    """
    listed = ", ".join(f"{name} {shape_text(a.shape)}" for name, a in zip(names, outputs, strict=True))
    cure = "From Python give a CtcJudge that says what the outputs are, or a judge of your own"
    for index, array in enumerate(outputs):
        scores = _scores(array)
        if scores is None and _are_numbers(array):
            return CtcJudge(index)
        if scores is None:
            continue
        best = np.argmax(scores, axis=1)
        first, last = int(np.sum(best == 0)), int(np.sum(best == scores.shape[1] - 1))
        if not first and not last:
            problem = f"output {names[index]}: neither its first nor its last character is a blank"
            raise UsageError(parameter("task", "ctc"), problem, cure)
        return CtcJudge(index, 0 if first >= last else -1)
    problem = f"outputs {listed}: none has scores of characters per step, [1, steps, characters]"
    raise UsageError(parameter("task", "ctc"), problem, cure)
