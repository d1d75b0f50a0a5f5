"""Scales that the user wants are in every model that a search tries."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import even_net

from calib8.errors import TableError
from calib8.model.metadata import read_metadata
from calib8.tuning.tune import Tuning

Tune = Callable[..., Tuning]


def test_what_the_user_wants_of_the_scales_is_in_every_trial(tune: Tune) -> None:
    wanted: dict[str, Any] = {"weights": "per-tensor", "power_of_two": True, "ranges": {"r1": (0.0, 7.0)}}
    found = tune(even_net(), min_sqnr=119.0, effort="balanced", **wanted)
    assert {trial.settings.effort for trial in found.trials} == {"fast", "balanced"}
    metadata = read_metadata(found.path)
    assert metadata["weights"] == "per-tensor" and metadata["power_of_two"] == "true"
    assert json.loads(metadata["ranges"]) == {"r1": [0.0, 7.0]}
    graph = onnx.load(found.path).graph
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    activations = {value.name for value in graph.input} | {
        name for node in graph.node for name in node.output
    }
    pairs = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] in activations]
    scales = [arrays[node.input[1]] for node in pairs]
    assert scales and all(float(np.log2(scale)).is_integer() for scale in scales)
    weights = [node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in arrays]
    assert weights and all(
        arrays[node.input[1]].size == 1 for node in weights if arrays[node.input[0]].ndim == 4
    )


def test_a_range_that_had_to_be_widened_is_told(tune: Tune) -> None:
    found = tune(even_net(), min_sqnr=5.0, ranges={"x": (1.0, 4.0)})
    assert any("widened to hold 0" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"weights": "per-tensor"}, "with weights 'per-channel', not 'per-tensor'"),
        ({"power_of_two": True}, "with power_of_two 'False', not 'True'"),
        ({"ranges": {"r1": (-3.0, 3.0)}}, "with ranges"),
    ],
)
def test_other_scales_are_another_search(tune: Tune, options: dict[str, Any], problem: str) -> None:
    tune(even_net(), min_sqnr=10.0)
    with pytest.raises(TableError, match=problem):
        tune(even_net(), min_sqnr=10.0, **options)
