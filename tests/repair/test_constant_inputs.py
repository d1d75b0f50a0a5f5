"""Loud weights for inputs that never change go into the bias; all others stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from small_candidates import candidate_of

from calib8.repair.candidate import Candidate
from calib8.repair.constant_inputs import cure_constant_inputs
from calib8.repair.repairs import REPAIRS
from small_models import Array, normal, onnx_model, run

HELD_BACK = {"x": normal(8, 3, 8, 8, seed=99)}


def runs() -> tuple[dict[str, Array], ...]:
    return tuple({"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(4))


def network(
    value: float = 0.0, *, pads: str = "1,1,1,1", groups: int = 1, loud: float = 300.0, speaks: float = 0.0
) -> onnx.ModelProto:
    """Channel 5 of 8 is a constant; output 2 reads it with a loud weight."""
    first, bias = normal(8, 3, 1, 1), normal(8, seed=1)
    first[5], bias[5] = speaks, value
    second = normal(4, 8 // groups, 3, 3, seed=2)
    second[2, 5 % (8 // groups)] = loud
    body = f"a = Conv(x, w, b) r = Relu(a) t = Conv<pads=[{pads}], group={groups}>(r, u, c) y = Relu(t)"
    constants = {"w": first, "b": bias, "u": second, "c": normal(4, seed=3)}
    return onnx_model("float[N,3,8,8] x", "float[N,4,H,W] y", body, constants)


def weights(made: Candidate) -> Array:
    last = next(node for node in made.model.graph if "t" in [value.name for value in node.outputs])
    stored = last.inputs[1].const_value  # type: ignore[union-attr]
    assert stored is not None
    return stored.numpy()


def noise(made: Candidate, reference: Candidate) -> float:
    [expected], [actual] = run(reference.model, HELD_BACK), run(made.quantized().model, HELD_BACK)
    return float(np.mean(np.square(expected - actual)[:, 2]))


@pytest.mark.parametrize(
    ("value", "pads", "groups"), [(0.0, "1,1,1,1", 1), (0.7, "0,0,0,0", 1), (0.0, "1,1,1,1", 2)]
)
def test_a_loud_weight_for_a_constant_goes_into_the_bias(value: float, pads: str, groups: int) -> None:
    made, data = candidate_of(network(value, pads=pads, groups=groups), runs())
    found, report = cure_constant_inputs(made, data)
    assert len(report.layers) == 1 and "inputs that never change: 1" in report.notes[0]
    [expected], [actual] = run(made.model, HELD_BACK), run(found.model, HELD_BACK)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    before, after = weights(made), weights(found)
    assert not after[2, 5 % (8 // groups)].any() and np.sum(before != after) == 9
    assert noise(found, made) < 0.05 * noise(made, made)


@pytest.mark.parametrize(
    "model",
    [network(0.7), network(loud=20.0), network(speaks=0.5), network(0.7, pads="0,0,0,0", speaks=1e-2)],
    ids=["zeros beside it", "of ordinary size", "speaks", "whispers"],
)
def test_what_stays(model: onnx.ModelProto) -> None:
    made, data = candidate_of(model, runs())
    found, report = cure_constant_inputs(made, data)
    assert found is made and report.layers == ()


def test_the_repair_takes_both_sides() -> None:
    made, data = candidate_of(network(), runs())
    found, report = REPAIRS["constant-channels"](made, data)
    assert len(report.layers) == 1 and not weights(found)[2, 5].any()
