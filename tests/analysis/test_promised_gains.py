"""What diagnosis says that nodes in float gain is what quantizing with these nodes in float gains."""

from __future__ import annotations

import pytest
from dissected import dissected
from named_nets import CONV, RUNS, int8, net

from calib8.dissection.float_nodes import float_nodes
from calib8.model.load import load_model
from calib8.quantization.qdq import readable_copy
from calib8.scheme import TARGETS

FRONT = f"c = {CONV}(x, w) r = Relu(c)"
BODIES = {
    "layers": f"{FRONT} d = {CONV}(r, u) h = HardSwish(d) y = {CONV}(h, u)",
    "moves": f"{FRONT} p = MaxPool<kernel_shape=[3,3],pads=[1,1,1,1]>(r) y = {CONV}(p, u)",
    "concat": f"{FRONT} d = {CONV}(r, u) e = Concat<axis=1>(r, d) y = {CONV}(e, v)",
    "residual": f"{FRONT} d = {CONV}(r, u) s = Add(r, d) t = Relu(s) y = {CONV}(t, u)",
    "tail": f"{FRONT} d = {CONV}(r, u) y = Sigmoid(d)",
}
CASES = [
    ("layers", ("d",)),
    ("layers", ("y",)),
    ("layers", ("h",)),
    ("layers", ("d", "h")),
    ("layers", ("h", "y")),
    ("layers", ("c", "d", "h")),
    ("moves", ("y",)),
    ("moves", ("c",)),
    ("concat", ("y",)),
    ("concat", ("c", "d")),
    ("residual", ("s",)),
    ("residual", ("s", "y")),
    ("residual", ("c", "s")),
    ("tail", ("d",)),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt"])
@pytest.mark.parametrize(("body", "floats"), CASES)
def test_what_is_promised_is_reached(body: str, floats: tuple[str, ...], target: str) -> None:
    model = net(BODIES[body])
    dissection, _ = dissected(model, int8(model, target=target), RUNS)
    kept = readable_copy(load_model(int8(model, *floats, target=target)))
    assert dissection.with_floats(floats) == pytest.approx(dissection.figures(kept).sqnr_db, abs=1e-6)


@pytest.mark.parametrize(
    ("body", "wanted", "more"),
    [
        ("tail", {"d"}, {"y"}),
        ("tail", {"c"}, {"r"}),
        ("residual", {"s"}, {"t"}),
        ("layers", {"h"}, set()),
        ("layers", {"d"}, set()),
    ],
)
def test_nodes_that_are_in_float_with_others(body: str, wanted: set[str], more: set[str]) -> None:
    model = net(BODIES[body])
    dissection, _ = dissected(model, int8(model), RUNS)
    assert float_nodes(dissection.plain, TARGETS["onnxruntime"], wanted) == wanted | more
