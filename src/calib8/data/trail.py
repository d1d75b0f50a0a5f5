"""How far a run through a dataset got, and whether the dataset still begins with what was used up.

    f_0 = 0 … 0,   f_(i+1) = SHA-256(f_i, name of sample i, fingerprint of what it is decoded from)

f_n stands for the list of the first n samples, names and contents, in 32 bytes whatever n is.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from calib8.data.samples import Dataset, Pending, Skipped
from calib8.errors import DataError
from calib8.parameters import parameter


@dataclass(frozen=True)
class Mark:
    """A place in a dataset.

    Attributes:
        done: samples before it, bad ones included.
        last: name of the last of them, empty where there is none.
        chain: f_done as hexadecimal digits.
        skipped: the bad ones among them.
    """

    done: int
    last: str
    chain: str
    skipped: tuple[Skipped, ...]


START: Final = Mark(0, "", "00" * 32, ())


class Trail:
    """A run through the rest of a dataset that remembers which samples were used up.

    Attributes:
        dataset: the samples behind the mark that the run began at.
        mark: how far it got.
    """

    def __init__(self, dataset: Dataset, mark: Mark = START) -> None:
        """Begins at ``mark``.

        Raises:
            DataError: the samples before it are not those that were used up, or there are fewer.
        """
        if mark.skipped and not dataset.skip_bad:
            raise DataError(
                mark.skipped[0].name,
                f"is bad ({mark.skipped[0].reason})",
                f"Pass over it with {parameter('skip_bad', True)}",
            )
        found = START
        for item in islice(dataset.pending(), mark.done):
            found = _passed(found, item, ())
        if found.chain != mark.chain:
            raise DataError(
                dataset.source,
                f"its first {mark.done} samples, up to '{mark.last}', are not those that were used",
                "Give the same data as before",
            )
        self.mark = mark
        self._source = dataset
        self._waiting: deque[Pending] = deque()
        self.dataset = replace(dataset, pending=self._rest, skipped=[], taken=mark.done - len(mark.skipped))

    def _rest(self) -> Iterator[Pending]:
        for item in islice(self._source.pending(), self.mark.done, None):
            self._waiting.append(item)
            yield item

    def advance(self, names: Sequence[str]) -> None:
        """The samples of these names, the next good ones in order, are used up, and bad ones before them."""
        if names:
            self._pass(names[-1])

    def finish(self) -> None:
        """All samples are used up: what still waits is bad."""
        if self._waiting:
            self._pass(self._waiting[-1].name)

    def _pass(self, last: str) -> None:
        bad = {skipped.name: skipped for skipped in self.dataset.skipped}
        while self.mark.last != last:
            item = self._waiting.popleft()
            self.mark = _passed(self.mark, item, (bad[item.name],) if item.name in bad else ())


def _passed(mark: Mark, item: Pending, skipped: tuple[Skipped, ...]) -> Mark:
    link = hashlib.sha256(bytes.fromhex(mark.chain))
    link.update(item.name.encode("utf-8", "surrogateescape") + b"\0" + item.fingerprint())
    return Mark(mark.done + 1, item.name, link.hexdigest(), mark.skipped + skipped)
