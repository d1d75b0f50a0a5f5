"""Which parts an output is made of: heads side by side are some, what one tensor gives is none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.tasks.composition import Compositions
from small_models import graph

HEADS = "a = Relu (x) b = Sigmoid (x) "
ENDS = {"one": np.zeros((1, 1, 6), np.float32), "parts": np.array([1, 3])}


def sizes(body: str) -> tuple[int, ...] | None:
    """Of the parts of the output."""
    model: ir.Model = graph("float[1, 4, 6] x", "float[1, n, m] y", body, ENDS)
    found = Compositions(model).of(model.graph.outputs[0])
    return None if found is None else found.sizes


def test_heads_side_by_side_are_parts() -> None:
    assert sizes(f"{HEADS} y = Concat <axis = 1> (a, b)") == (4, 4)
    assert sizes(f"{HEADS} c = Concat <axis = 1> (a, b) y = Concat <axis = 1> (c)") == (4, 4)


@pytest.mark.parametrize(
    "body",
    [
        "a = Relu (x) y = Concat <axis = 1> (one, a, one)",
        "a = Relu (x) b, c = Split <axis = 1> (a, parts) y = Concat <axis = 1> (b, b, c, c)",
        "a = Relu (x) b, c = Split <axis = 1> (a, parts) y = Concat <axis = 1> (c, b)",
        "a = Relu (x) y = Concat <axis = 1> (a, a)",
    ],
)
def test_what_one_tensor_gives_has_no_parts(body: str) -> None:
    """As a tmfile spells a Pad, or a graph another order."""
    assert sizes(body) is None
