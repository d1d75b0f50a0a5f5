"""A model that chooses by scores which are almost equal is prepared, and a wrong one is still told."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.errors import ModelError
from calib8.model.load import load_model
from calib8.passes import prepare as module
from calib8.passes.choices import with_one_choice
from calib8.passes.prepare import PREPARE, differences, prepare
from small_models import Array, normal, onnx_model

CHOOSES = """
s = Mul(x, tiny)
t = ReduceMean<axes = [2], keepdims = 0>(s)
scores = Add(t, one)
best, places = TopK<axis = 1>(scores, count)
column = Unsqueeze(places, last)
index = Expand(column, sizes)
rows = GatherElements<axis = 1>(x, index)
y = MatMul(rows, w)
"""
ROWS = (1, 64, 8)
"""64 places with scores of which float32 tells apart about ten; the features of 20 of them are multiplied."""
CONSTANTS: dict[str, Array] = {
    "tiny": np.float32(1e-6), "one": np.float32(1.0), "count": np.array([20]), "last": np.array([2]),
    "sizes": np.array([1, 20, 8]), "w": normal(8, 3),
}  # fmt: skip


def choosing(outputs: str = "float[1,20,3] y, float[1,20] best", **constants: Array) -> ir.Model:
    proto = onnx_model("float[1,64,8] x", outputs, CHOOSES, {**CONSTANTS, **constants})
    for node in proto.graph.node:
        node.name = node.output[0]
    return load_model(proto)


def sample() -> dict[str, Array]:
    return {"x": normal(*ROWS)}


def scores_rounded(model: ir.Model) -> int:
    """What another order of sums does: scores that change in their last bits."""
    for node in model.graph:
        for value in node.inputs:
            if value is not None and value.name == "tiny":
                value.const_value = ir.tensor(np.float32(1.1e-6), name="tiny")
    return 1


def weights_changed(model: ir.Model) -> int:
    for value in model.graph.initializers.values():
        if value.name == "w" and value.const_value is not None:
            value.const_value = ir.tensor(value.const_value.numpy() * np.float32(1.01), name="w")
    return 1


def test_other_places_for_almost_equal_scores_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREPARE", (*PREPARE, scores_rounded))
    prepared = prepare(choosing(), sample())
    assert prepared.rewrites["scores_rounded"] == 1 and prepared.max_rel_diff < 1e-6


def test_what_is_computed_of_the_chosen_is_still_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREPARE", (*PREPARE, scores_rounded, weights_changed))
    with pytest.raises(ModelError, match=r"differs from the original by 0\.01 of"):
        prepare(choosing(), sample())


def test_the_scores_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(model: ir.Model) -> int:
        next(node for node in model.graph if node.name == "scores").op_type = "Sub"
        return 1

    monkeypatch.setattr(module, "PREPARE", (*PREPARE, other))
    with pytest.raises(ModelError, match="differs from the original by"):
        prepare(choosing("float[1,20,3] y"), sample())


def test_outputs_that_are_the_choice_itself() -> None:
    outputs = "float[1,20] best, int64[1,20] places, float[1,20,3] y"
    told = with_one_choice(choosing(outputs), choosing(outputs, tiny=np.float32(1.1e-6)), sample())
    assert told is not None and [array.shape for array in told[1]] == [(1, 64), (1, 20, 3)]
    assert max(differences(*told)) < 1e-6


def test_graphs_that_do_not_choose_alike() -> None:
    plain = load_model(onnx_model("float[1,64,8] x", "float[1,64,8] y", "y = Relu(x)"))
    assert with_one_choice(plain, plain, sample()) is None
    assert with_one_choice(choosing(), plain, sample()) is None


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        (CHOOSES.replace("TopK<axis = 1>", "TopK<axis = 1, largest = 0>"), {}),
        (CHOOSES, {"count": np.array([19]), "sizes": np.array([1, 19, 8])}),
    ],
)
def test_other_settings_of_a_choice_are_no_rounding(body: str, constants: dict[str, Array]) -> None:
    second = onnx_model(
        "float[1,64,8] x", "float[1,n,3] y, float[1,n] best", body, {**CONSTANTS, **constants}
    )
    assert with_one_choice(choosing(), load_model(second), sample()) is None


BOXES = """
corners = Mul(x, factor)
picked = NonMaxSuppression(corners, scores, most, overlap)
y = Mul(corners, one)
"""


def test_boxes_are_compared_as_scores_are() -> None:
    fixed: dict[str, Array] = {"one": np.float32(1.0), "most": np.array([3]), "overlap": np.float32([0.5])}
    fixed["scores"] = np.abs(normal(1, 1, 8))

    def boxes(factor: list[float]) -> ir.Model:
        constants = {**fixed, "factor": np.float32(factor)}
        proto = onnx_model("float[1,8,4] x", "int64[n,3] picked, float[1,8,4] y", BOXES, constants)
        return load_model(proto)

    feeds = {"x": normal(1, 8, 4)}
    told = with_one_choice(boxes([1, 1, 1, 1]), boxes([9, 1, -3, 1]), feeds)
    assert told is not None and differences(*told)[1] > 1
