"""Finding: the job that lets a work on all samples (``calib8.data.whole``) go through pieces.

Nothing of it is kept in a store: findings are as large as statistics, and a lost one is found again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from calib8.calibration.gatherer import Gatherer
from calib8.data.samples import DataSource
from calib8.data.whole import Work
from calib8.errors import DataError

NOTHING: Final = b"-"
"""What a row holds where no sample was good."""


class Finding:
    """See ``Job``; what it gives in all is what the work finds, None where no sample was good.

    Attributes:
        once: see ``Job``.
    """

    def __init__(self, reference: Any, once: bool) -> None:
        """``reference``: of the work, in Ray's object store."""
        self._reference, self.once = reference, once

    def __reduce__(self) -> tuple[Any, ...]:
        """The reference: every process fetches the work once."""
        return Finding, (self._reference, self.once)

    @cached_property
    def _work(self) -> Work[Any]:
        import ray

        work: Work[Any] = ray.get(self._reference)
        return work

    def over(self, gatherer: Gatherer, key: str, records: Callable[[], DataSource]) -> tuple[bytes, int]:
        """See ``Job``: lets the work go through the samples."""
        seen = 0

        def count(samples: int) -> None:
            nonlocal seen
            seen += samples

        settings, found = gatherer.settings, None
        opened = replace(settings, data=records()).opened(gatherer.inputs)
        dataset = replace(opened, taken=int(opened.skip_bad))
        try:
            found = self._work.over(dataset, settings.threads, count)
        except DataError:
            if seen or not dataset.skipped:
                raise
        return self.written(found if seen else None), seen

    def nothing(self) -> None:
        """Nothing was found."""

    def read(self, keys: list[str], content: bytes) -> Any:
        """What a row holds."""
        return None if content == NOTHING else pickle.loads(content)

    def both(self, first: Any, second: Any) -> Any:
        """What two rows hold, joined by the work."""
        if first is None or second is None:
            return first if second is None else second
        return self._work.joined(first, second)

    def written(self, total: Any) -> bytes:
        """Pickled."""
        return NOTHING if total is None else pickle.dumps(total)
