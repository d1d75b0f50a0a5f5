"""What models were fed with: the name of the data, how many samples of how many, the way of the pictures."""

from __future__ import annotations

from dataclasses import dataclass

from calib8.data.image_words import image_words
from calib8.data.preprocess import Preprocess
from calib8.data.samples import Dataset
from calib8.number_texts import count


@dataclass(frozen=True)
class Fed:
    """What went into models.

    Attributes:
        source: folder, file or object.
        samples: how many went in.
        total: how many the source has; None: not known.
        preprocess: what pictures went through; None where arrays went in as they are.
    """

    source: str
    samples: int
    total: int | None
    preprocess: Preprocess | None

    @property
    def data_words(self) -> str:
        """Such as ``images, 100 of its 500 samples``; without the second number where it is not known."""
        if self.total is None or self.total <= self.samples:
            return f"{self.source}, {count(self.samples, 'sample')}"
        return f"{self.source}, {self.samples:,} of its {count(self.total, 'sample')}"

    @property
    def image_words(self) -> str:
        """What pictures went through; empty where arrays went in as they are."""
        return "" if self.preprocess is None else image_words(self.preprocess)


def fed_from(dataset: Dataset, samples: int) -> Fed:
    """What went in where so many samples of a dataset were read."""
    return Fed(dataset.source, samples, dataset.total, dataset.preprocess)
