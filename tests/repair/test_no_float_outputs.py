"""A network that yields class numbers alone has no float output to be judged by: it is quantized plainly."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import calib8
from small_models import Array, normal

DATA: list[dict[str, Array]] = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(40)]


def class_map() -> ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[N,4,8,8] x) => (int64[N,1,8,8] y) {'
        "a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a) b = Conv(r, v) y = ArgMax<axis=1>(b) }"
    )
    for name, array in (("w", normal(8, 4, 3, 3)), ("v", normal(3, 8, 1, 1, seed=1))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_it_is_quantized_and_nothing_is_claimed(effort: str) -> None:
    made = calib8.quantize(class_map(), DATA, effort=effort)
    assert sum(node.op_type == "QuantizeLinear" for node in made.model.graph) >= 2
    assert made.repaired is not None and not any(step.kept for step in made.repaired.steps)
    assert made.verdict is not None and not made.verdict.branches
    assert np.isfinite([step.before.sqnr_db for step in made.repaired.steps]).all()
