"""What became of every class: on how many of its samples a model is right, and what it takes the others for.

truth    the label; FP32's best class for all samples where none has a label
right    samples of the class whose best class is the truth
lost     those of them on which FP32 is right and this model is not; won: the other way round

What is kept counts how often label and best classes of all models come together, so parts of the data join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.data.batches import Batch
from calib8.tasks.judges.classes import best_classes, class_scores

MISTAKES: Final = 3
"""So many classes are named that one is taken for."""

_NO_LABEL: Final = -1


@dataclass(frozen=True)
class ClassFigures:
    """One class of one model.

    Attributes:
        name: of its folder, or its number.
        samples: of the class.
        right: those that the model gives this class.
        lost, won: right in FP32 and wrong here, and the other way round; both 0 for the reference.
        taken_for: other classes that its samples get → how often, most frequent first.
    """

    name: str
    samples: int
    right: int
    lost: int
    won: int
    taken_for: tuple[tuple[str, int], ...]


@dataclass
class ClassCounts:
    """Best classes of all models, batch by batch.

    Attributes:
        reference: index of the float original among the models, None if there is none.
        offset: what is added to every label.
        names: of the labels, such as of folders; empty: they are numbers.
    """

    reference: int | None
    offset: int = 0
    names: Sequence[str] = ()
    _seen: Counter[tuple[int, ...]] = field(default_factory=Counter)
    _fit: bool = True

    def add(self, batch: Batch, results: Sequence[Sequence[npt.NDArray[np.generic]] | None]) -> None:
        """Takes in what every model gave for a batch; from then on nothing where that is no classes."""
        scores = [None if one is None else class_scores(one[0]) for one in results]
        self._fit = self._fit and all(one is not None and len(one) == len(batch.labels) for one in scores)
        if not self._fit:
            return
        labels = [_NO_LABEL if one is None else one + self.offset for one in batch.labels]
        best = [best_classes(one, 1)[:, 0].tolist() for one in scores if one is not None]
        self._seen.update(zip(labels, *best, strict=True))

    def joined(self, other: ClassCounts) -> ClassCounts:
        """Of the samples of both."""
        seen = Counter(self._seen)
        seen.update(other._seen)
        return ClassCounts(self.reference, self.offset, self.names, seen, self._fit and other._fit)

    def told(self, index: int) -> tuple[ClassFigures, ...]:
        """The classes of a model that have samples: those that lost most first, then the least right ones.

        Empty where outputs are no classes, or there is no truth.
        """
        if not self._fit or not self._seen:
            return ()
        truths, *best = np.array(list(self._seen), np.int64).T
        times = np.array(list(self._seen.values()), np.int64)
        expected, mine = None if self.reference is None else best[self.reference], best[index]
        if np.all(truths == _NO_LABEL):
            if expected is None or index == self.reference:
                return ()
            truths = expected
        classes = (number for number in np.unique(truths) if number != _NO_LABEL)
        found = [self._of_class(int(number), truths, mine, expected, times) for number in classes]
        return tuple(sorted(found, key=lambda one: (one.won - one.lost, one.right / one.samples)))

    def _of_class(
        self, number: int, truths: npt.NDArray[np.int64], mine: npt.NDArray[np.int64],
        expected: npt.NDArray[np.int64] | None, times: npt.NDArray[np.int64],
    ) -> ClassFigures:  # fmt: skip
        its = truths == number
        right, often = mine[its] == number, times[its]
        before = right if expected is None else expected[its] == number
        wrong = Counter[int]()
        for other, count in zip(mine[its][~right].tolist(), often[~right].tolist(), strict=True):
            wrong[other] += count
        named = sorted(wrong.items(), key=lambda one: (-one[1], one[0]))[:MISTAKES]
        return ClassFigures(
            self.name_of(number), int(often.sum()), int(often[right].sum()),
            int(often[before & ~right].sum()), int(often[right & ~before].sum()),
            tuple((self.name_of(other), count) for other, count in named),
        )  # fmt: skip

    def name_of(self, number: int) -> str:
        """The folder of a class, or its number."""
        label = number - self.offset
        return self.names[label] if 0 <= label < len(self.names) else str(number)
