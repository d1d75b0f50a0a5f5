"""Softplus with a threshold, as PyTorch exports it, is Softplus where the line cannot be told from it."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.passes.plain_softplus import plain_softplus
from small_models import Array, graph, ops, run

BODY = "g = {} (x, t) s = Softplus (x) y = Where (g, {}, s)"


@pytest.mark.parametrize("compare", ["Greater", "GreaterOrEqual"])
def test_a_softplus_with_a_far_threshold(compare: str) -> None:
    constants: dict[str, Array] = {"t": np.float32(20.0)}
    model = graph("float[64] x", "float[64] y", BODY.format(compare, "x"), constants)
    feeds: dict[str, Array] = {"x": np.linspace(-40, 40, 64, dtype=np.float32)}
    expected = run(model, feeds)
    assert plain_softplus(model) == 1 and ops(model) == {"Softplus": 1}
    np.testing.assert_allclose(run(model, feeds)[0], expected[0], rtol=1e-7)


@pytest.mark.parametrize(
    ("threshold", "line", "compare"), [(2.0, "x", "Greater"), (20.0, "z", "Greater"), (20.0, "x", "Less")]
)
def test_others_stay(threshold: float, line: str, compare: str) -> None:
    constants: dict[str, Array] = {"t": np.float32(threshold), "z": np.zeros(64, np.float32)}
    model = graph("float[64] x", "float[64] y", BODY.format(compare, line), constants)
    assert plain_softplus(model) == 0 and ops(model)["Where"] == 1
