"""What is advised for channels that differ: by the functions beside the tensor."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.analysis.equalizing import AROUND, FREELY, NOT_AT_ALL, THROUGH, equalizing
from calib8.remedies import diagnose
from small_models import graph, normal, onnx_model

CONSTANTS = {"w": normal(8, 3, 3, 3), "u": normal(8, 8, 3, 3, seed=1), "v": normal(8, 16, 1, 1, seed=2)}
SILU = "t = Conv(x, w) s = Sigmoid(t) p = Mul(t, s)"
POOL = "MaxPool<kernel_shape=[2,2]>"
LAST = "e = Conv(p, u) y = Relu(e)"


@pytest.mark.parametrize(
    ("body", "inside", "behind"),
    [
        (f"{SILU} {LAST}", THROUGH, THROUGH),
        (f"t = Conv(x, w) p = HardSwish(t) {LAST}", THROUGH, THROUGH),
        (f"{SILU} j = Concat<axis=1>(p, p) y = Conv(j, v)", THROUGH, NOT_AT_ALL),
        (f"{SILU} q = Conv(x, w) a = Add(p, q) y = Conv(a, u)", THROUGH, NOT_AT_ALL),
        (f"c = Conv(x, w) t = {POOL}(c) p = HardSwish(t) {LAST}", NOT_AT_ALL, THROUGH),
        (f"t = Conv(x, w) p = Relu(t) {LAST}", FREELY, FREELY),
        (f"t = Conv(x, w) p = LeakyRelu(t) {LAST}", FREELY, FREELY),
        ("t = Conv(x, w) y = Sigmoid(t)", NOT_AT_ALL, NOT_AT_ALL),
    ],
)  # fmt: skip
def test_what_is_advised(body: str, inside: str, behind: str) -> None:
    used = {name: array for name, array in CONSTANTS.items() if f", {name})" in body}
    found = equalizing(graph("float[N,3,12,12] x", "float[N,8,H,W] y", body, used))
    last = "y" if "p =" not in body else "p"
    told = [found.get(name, AROUND) for name in ("t", last)]
    assert [one.advice for one in told] == [inside, behind]
    for one in told:
        assert bool(one.repairs) == (one.advice != NOT_AT_ALL)
        assert (("equalize-through", "bias") in one.repairs) == (one.advice == THROUGH)


def test_where_no_factor_gets_through_float_is_tried() -> None:
    loud = np.ones(8, np.float32)
    loud[3] = 500.0
    constants = CONSTANTS | {"w": CONSTANTS["w"] * loud.reshape(8, 1, 1, 1), "o": normal(8, 3, 3, 3, seed=4)}
    constants["u"] = CONSTANTS["u"] / loud.reshape(1, 8, 1, 1)
    del constants["v"]
    body = f"{SILU} q = Conv(x, o) a = Add(p, q) y = Conv(a, u)"
    model = onnx_model("float[N,3,12,12] x", "float[N,8,8,8] y", body, constants)
    data = [{"x": normal(1, 3, 12, 12, seed=seed)} for seed in range(16)]
    treated = diagnose(model, None, data, threads=1)
    found = {one.tensor: one for one in treated.diagnosis.findings}
    assert found["p"].reason.advice == NOT_AT_ALL and "channel 3 " in found["p"].reason.text
    first = treated.remedies[0]
    assert (
        first.wish.keep_float == found["p"].floats and first.sqnr_db > 30.0 > treated.diagnosis.sqnr_db + 20.0
    )
