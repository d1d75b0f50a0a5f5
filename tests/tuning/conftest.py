"""``tune`` as these tests call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from tuned_nets import inputs

import calib8
from calib8.tuning.tune import Tuning

Tune = Callable[..., Tuning]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    def run(model: onnx.ModelProto, data: Any = None, **options: Any) -> Tuning:
        given = inputs() if data is None else data
        options = {"effort": "fast", "threads": 1, **options}
        return calib8.tune(model, given, options.pop("output", tmp_path / "out.onnx"), **options)

    return run
