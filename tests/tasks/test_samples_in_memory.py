"""With several branches more samples stay in memory, their outputs counted; with one as many as ever."""

from __future__ import annotations

import numpy as np
import pytest
from heads import ssd, yolo8

from calib8.autorange.samples import SEVERAL_BYTES, bytes_to_keep
from calib8.calibration import kept_runs
from calib8.calibration.kept_runs import FEWEST, KeptRun, lowest
from calib8.tasks.meaning import meaning_of


def runs(count: int) -> list[KeptRun]:
    """Of 1000 bytes of inputs and 600 of outputs each."""
    inputs, outputs = {"x": np.zeros(250, np.float32)}, [np.zeros(150, np.float32)]
    return [KeptRun(bytes([number]), inputs, outputs) for number in range(count)]


def test_only_several_branches_ask_for_more() -> None:
    assert bytes_to_keep(None) is None
    assert bytes_to_keep(meaning_of(yolo8())) == SEVERAL_BYTES > kept_runs.LARGEST_BYTES
    assert bytes_to_keep(meaning_of(ssd(3, "Sigmoid"), branches={"boxes": "unused"})) is None


def test_outputs_count_where_a_limit_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_runs, "LARGEST_BYTES", 20_000)
    assert len(lowest(runs(60), 40)) == 20  # inputs alone
    assert len(lowest(runs(60), 40, 48_000)) == 30
    assert len(lowest(runs(60), 40, 1 << 20)) == 40
    assert len(lowest(runs(60), 40, 1)) == FEWEST
