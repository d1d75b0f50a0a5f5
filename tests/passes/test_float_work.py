"""The work that stays in float is counted as a formula counts it."""

from __future__ import annotations

import numpy as np
import pytest

import calib8
from calib8.passes.decisions import NodeDecision
from calib8.passes.float_work import float_work
from calib8.passes.place import Placement
from small_models import normal, onnx_model

NET = onnx_model(
    "float[n,3,8,8] x", "float[n,5] y",
    """a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a) b = Conv(r, v) p = GlobalAveragePool(b) f = Flatten(p)
       y = Gemm(f, m)""",
    {"w": normal(4, 3, 3, 3, seed=1), "v": normal(6, 4, 1, 1, seed=2), "m": normal(6, 5, seed=3)},
)  # fmt: skip
FIRST, SECOND, LAST = 8 * 8 * 4 * 3 * 9, 8 * 8 * 6 * 4, 6 * 5


@pytest.mark.parametrize("kept", [(), ("b",), ("y", "a")])
def test_shares_are_multiply_accumulates_by_hand(kept: tuple[str, ...]) -> None:
    data = [{"x": np.random.default_rng(k).normal(size=(1, 3, 8, 8)).astype(np.float32)} for k in range(4)]
    made = calib8.quantize(NET, data, method="minmax", repair=["none"], keep_float=kept)
    total, macs = FIRST + SECOND + LAST, {"a": FIRST, "b": SECOND, "y": LAST}
    found = made.float_work()
    assert found.share == pytest.approx(sum(macs[name] for name in kept) / total)
    assert [one.share for one in found.layers] == pytest.approx(
        sorted((macs[name] / total for name in kept), reverse=True)
    )
    assert all(one.reason for one in found.layers)


def test_a_network_without_layers_has_no_work() -> None:
    found = float_work({"s": 0}, Placement((NodeDecision("s", "Softmax", False, "no codes"),), {}))
    assert (found.share, found.layers) == (0.0, ())
