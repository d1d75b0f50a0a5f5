"""ScatterND that writes every place of a tensor becomes what it writes: same function; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.passes.plain_scatter import plain_scatter
from calib8.passes.prepare import prepare
from small_models import Array, graph, normal, ops, relative_difference, run

SHAPE = (2, 3, 4)
INPUTS = "float[2,3,4] x, float[{}] z"
OUTPUT = "float[A,B,C] y"


def places(depth: int) -> Array:
    """All places of the first axes, [sizes of these axes, depth]."""
    return np.stack(np.indices(SHAPE[:depth]), -1).astype(np.int64)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_all_places_are_what_is_written(depth: int, flat: bool) -> None:
    where = places(depth).reshape(-1, depth) if flat else places(depth)
    updates = (*where.shape[:-1], *SHAPE[depth:])
    feeds = {"x": normal(*SHAPE), "z": normal(*updates, seed=1)}
    inputs = INPUTS.format(", ".join(map(str, updates)))
    model = graph(inputs, OUTPUT, "r = Relu(x) y = ScatterND(r, i, z)", {"i": where})
    expected = run(model, feeds)
    assert plain_scatter(model) == 1 and plain_scatter(model) == 0
    assert relative_difference(expected, run(model, feeds)) == 0
    assert ops(model) == {"Reshape": 1}


@pytest.mark.parametrize(
    ("kind", "where", "op"),
    [
        ("float[2,3,4] x", places(2)[:, ::-1], "ScatterND"),  # in another order
        ("float[2,3,4] x", places(2)[:, 1:], "ScatterND"),  # a part
        ("float[2,3,4] x", places(2)[:, [0, 0, 2]], "ScatterND"),  # one of them twice
        ("float[2,3,4] x", places(2), 'ScatterND<reduction="add">'),
        ("float[N,3,4] x", places(2), "ScatterND"),  # of a batch of any size
    ],
)
def test_other_scatters_stay(kind: str, where: Array, op: str) -> None:
    inputs = f"{kind}, float[2,{where.shape[1]},4] z"
    model = graph(inputs, OUTPUT, f"y = {op}(x, i, z)", {"i": np.ascontiguousarray(where)}, opset=18)
    assert plain_scatter(model) == 0


def test_computed_places_stay() -> None:
    model = graph(
        "float[2,3,4] x, int64[2,1] i, float[2,3,4] z", OUTPUT, "j = Identity(i) y = ScatterND(x, j, z)"
    )
    assert plain_scatter(model) == 0


def test_an_einsum_whose_sizes_are_known_late() -> None:
    """Sizes of a Reshape are computed, so no shape is known before constants are folded."""
    body = 's = Concat<axis=0>(two, rest) r = Reshape(x, s) y = Einsum<equation="byhwc,hkc->byhwk">(r, w)'
    constants = {"two": np.int64([2]), "rest": np.int64([3, 4, 5, 6]), "w": normal(4, 7, 6)}
    model = graph("float[2,360] x", "float[A,B,C,D,E] y", body, constants)
    made = prepare(model, {"x": normal(2, 360)}).model
    assert "Einsum" not in ops(made) and ops(made)["MatMul"] == 1
    [product] = [node for node in made.graph if node.op_type == "MatMul"]
    assert product.inputs[1] is not None and product.inputs[1].const_value is not None
