"""Outputs made of branches are taken apart, wherever the Concat stands behind what only moves values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.tasks.branch_outputs import with_branches
from calib8.tasks.meaning import meaning_of
from small_models import normal, run
from untyped_nets import untyped

SHAPE = {"rows": np.int64([0, 7, 4]), "mixed": np.int64([0, 28])}
CASES = {
    "at the end": ("y = Concat<axis=1>(a, b)", 1),
    "counted from behind": ("y = Concat<axis=-3>(a, b)", 1),
    "behind a Sigmoid": ("c = Concat<axis=1>(a, b) y = Sigmoid(c)", 1),
    "turned": ("c = Concat<axis=1>(a, b) y = Transpose<perm=[0,2,3,1]>(c)", 3),
    "turned twice": (
        "c = Concat<axis=1>(a, b) d = Transpose<perm=[0,2,1,3]>(c) y = Transpose<perm=[0,3,1,2]>(d)", 3
    ),
    "reshaped": ("c = Concat<axis=1>(a, b) y = Reshape(c, rows)", 1),
}  # fmt: skip
WHOLE = {
    "no Concat": "y = Relu(a)",
    "along the batch": "y = Concat<axis=0>(a, a)",
    "taken apart": "c = Concat<axis=1>(a, b) y = Reshape(c, mixed)",
    "another op behind": "c = Concat<axis=1>(a, b) y = Softmax<axis=1>(c)",
}


def net(body: str) -> ir.Model:
    return untyped("float[1,4,2,2] a, float[1,3,2,2] b", body, SHAPE)


@pytest.mark.parametrize(("body", "axis"), CASES.values(), ids=CASES)
def test_branches_are_outputs_of_their_own(body: str, axis: int) -> None:
    model = net(body)
    meaning = meaning_of(model)
    assert [(piece.axis, piece.first, piece.last) for piece in meaning.pieces] == [(axis, 0, 4), (axis, 4, 7)]
    feeds = {"a": normal(1, 4, 2, 2), "b": normal(1, 3, 2, 2, seed=1)}
    [whole], parts = run(model, feeds), run(with_branches(model, meaning), feeds)
    assert [part.shape[axis] for part in parts] == [4, 3]
    np.testing.assert_array_equal(np.concatenate(parts, axis=axis), whole)
    for part, cut in zip(parts, meaning.cut([whole]), strict=True):
        np.testing.assert_array_equal(part, cut)


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_other_outputs_stay_whole(body: str) -> None:
    model = net(body)
    [piece] = meaning_of(model).pieces
    assert piece.axis is None
    assert len(with_branches(model, meaning_of(model)).graph.outputs) == 1
