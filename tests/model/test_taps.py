"""Taps: inner tensors as outputs, in the order asked for, on a copy."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import ModelError
from calib8.model.graph import model_hash
from calib8.model.taps import Taps, tapped_model
from small_models import graph, normal, run


def test_inner_tensors_come_out_under_their_names() -> None:
    model = graph("float[N,4] x", "float[N,4] y", "a = Relu(x) b = Neg(a) y = Relu(b)")
    before = model_hash(model)
    x = normal(3, 4)
    tapped = tapped_model(model, ["b", "a"])
    assert [value.name for value in tapped.graph.outputs] == ["b", "a"]
    b, a = run(tapped, {"x": x})
    np.testing.assert_array_equal(a, np.maximum(x, 0))
    np.testing.assert_array_equal(b, -a)
    assert model_hash(model) == before


def test_an_output_can_be_tapped_and_ops_behind_the_taps_may_stay() -> None:
    model = graph("float[N,4] x", "float[N,4] y", "a = Relu(x) y = Neg(a)")
    assert [value.name for value in tapped_model(model, ["y"]).graph.outputs] == ["y"]
    [a] = run(tapped_model(model, ["a"]), {"x": normal(3, 4)})
    np.testing.assert_array_equal(a, np.maximum(normal(3, 4), 0))


@pytest.mark.parametrize("name", ["x", "k", "nobody"])
def test_what_is_not_computed_cannot_be_tapped(name: str) -> None:
    model = graph("float[N,4] x", "float[N,4] y", "y = Mul(x, k)", {"k": np.float32(2)})
    with pytest.raises(ModelError, match=name):
        tapped_model(model, [name])


def test_inputs_are_given_as_they_were_fed() -> None:
    model = graph("float[N,4] x", "float[N,4] y", "a = Relu(x) y = Neg(a)")
    feeds = {"x": normal(3, 4)}
    both = Taps(model, ["x", "a", "x"], threads=1).values(feeds)
    assert both["x"] is feeds["x"]
    np.testing.assert_array_equal(both["a"], np.maximum(feeds["x"], 0))
    assert dict(Taps(model, ["x"], threads=1).values(feeds)) == feeds
    with pytest.raises(ModelError, match="nobody"):
        Taps(model, ["x", "nobody"], threads=1)
