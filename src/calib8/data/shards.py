"""A part of a dataset for one of several machines: every sample lies in exactly one shard.

    sample i (from 0, as the dataset orders them)  →  shard ⌊i / g⌋ mod N + 1

g is 1, or the rows of a fixed batch: such a model gets the same batches as without shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from calib8.data.samples import Dataset, Pending
from calib8.errors import UsageError
from calib8.parameters import parameter


@dataclass(frozen=True)
class Shard:
    """Number ``index`` of ``total`` shards, 1 ≤ index ≤ total.

    Raises:
        UsageError: there is no such shard.
    """

    index: int
    total: int

    def __post_init__(self) -> None:
        """Refuses what is no shard."""
        if not 1 <= self.index <= self.total:
            problem = f"there is no shard {self.index} of {self.total}"
            raise UsageError(parameter("shard"), problem, f"Number them 1/{max(self.total, 1)} and so on")

    def __str__(self) -> str:
        """As ``from_text`` reads it."""
        return f"{self.index}/{self.total}"

    @classmethod
    def from_text(cls, text: str) -> Shard:
        """``2/4`` → the second of four.

        Raises:
            UsageError: not of this form, or no such shard.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip(), re.ASCII)
        if found is None:
            raise UsageError(
                parameter("shard", text),
                "is not a number of a shard",
                f"Use for example {parameter('shard', '1/4')}",
            )
        return cls(int(found[1]), int(found[2]))

    def holds(self, index: int, group: int) -> bool:
        """Whether sample ``index`` (from 0) lies in this shard; ``group`` samples stay together."""
        return index // group % self.total == self.index - 1


def one_shard(dataset: Dataset, shard: Shard | None) -> Dataset:
    """The samples of a shard, in the order of the dataset; the dataset itself where there is none.

    Raises:
        UsageError: the dataset is known to be too small for so many shards.
    """
    if shard is None or shard.total == 1:
        return dataset
    group = dataset.rows_per_batch or 1

    def pending() -> Iterator[Pending]:
        return (item for index, item in enumerate(dataset.pending()) if shard.holds(index, group))

    count = None
    if dataset.count is not None:
        count = sum(shard.holds(index, group) for index in range(dataset.count))
        if count == 0:
            most = -(-dataset.count // group)
            problem = f"has {dataset.count} samples and none of them in shard {shard}"
            raise UsageError(dataset.source, problem, f"Make at most {most} shards")
    return replace(dataset, pending=pending, count=count, skipped=[])
