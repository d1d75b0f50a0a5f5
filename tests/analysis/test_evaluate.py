"""What is timed when models are evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calib8.analysis.evaluate import evaluate_sessions
from calib8.data.batches import Batch
from calib8.model.runtime import Session

Array = npt.NDArray[Any]


class Compiling(Session):
    """A session that takes 100 s for a shape that it has not seen, and 1 s for a run."""

    def run(self, feeds: Any, outputs: Sequence[str] | None = None) -> list[Array]:
        clock, seen = self.handle
        shape = feeds["x"].shape
        clock[0] += 1.0 if shape in seen else 101.0
        seen.add(shape)
        return [np.zeros((len(feeds["x"]), 3), np.float32)]


def batch(size: int) -> Batch:
    return Batch({"x": np.zeros((size, 2), np.float32)}, (None,) * size, ("image",) * size)


def test_what_is_done_once_per_shape_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("calib8.analysis.evaluate.time.perf_counter", lambda: clock[0])
    session = Compiling("net", (), (), (clock, set()))
    [found] = evaluate_sessions([session], [batch(4), batch(4), batch(3)], reference=None)
    assert (found.images, found.seconds) == (11, 3.0)
    assert found.images_per_second == pytest.approx(11 / 3)
