"""What models are made from: biases fit the nodes that are in float."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from tuned_nets import deep_net, inputs

from calib8.data.opening import open_dataset
from calib8.model.graph import graph_inputs
from calib8.passes.prepare import prepare
from calib8.progress import silent
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.repairs import REPAIRS
from calib8.repair.step import UNKNOWN, Step
from calib8.scheme import target_scheme
from calib8.tuning.folder import Folder
from calib8.tuning.recipes import Recipes
from calib8.tuning.trial import Settings

FLOATS = ("c0", "c1", "x1", "x2")
SEQUENCE = "bias-sequential"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Recipes]:
    """With biases that were corrected in sequence by the effort ``balanced``, and by ``fast`` not at all."""
    samples = np.clip(inputs(24), -1.0, 1.0)
    prepared = prepare(ir.from_proto(deep_net()), {"x": samples[:1]})
    dataset = open_dataset(samples, graph_inputs(prepared.model), None)
    with Folder(tmp_path / "work", {}) as folder:
        found = Recipes(prepared, target_scheme("onnxruntime"), frozenset(), dataset, folder, 1, silent)
        _, done = found.made(Settings("fast"))
        bare = replace(done.candidate, corrections={})
        step = Step((SEQUENCE,), UNKNOWN, UNKNOWN, True, (), ())
        repaired = {
            "fast": replace(done, candidate=bare, steps=()),
            "balanced": replace(done, candidate=_in_sequence(found, bare), steps=(step,)),
        }
        yield replace(found, _found=repaired)


def _in_sequence(recipes: Recipes, candidate: Candidate) -> Candidate:
    return REPAIRS[SEQUENCE](candidate, RepairData(recipes.samples.scored, 1))[0]


def biases(candidate: Candidate) -> dict[str, bytes]:
    found = candidate.corrections.items()
    return {name: one.bias.tobytes() for name, one in found if one.bias is not None}


def test_biases_are_corrected_anew_where_nodes_are_in_float(made: Recipes) -> None:
    start, whole = made.made(Settings("balanced"))
    _, partly = made.made(Settings("balanced", floats=FLOATS))
    expected = _in_sequence(made, replace(whole.candidate, keep_float=frozenset(FLOATS)))
    assert partly.candidate.keep_float == frozenset(FLOATS) and start.keep_float == frozenset()
    assert biases(partly.candidate) == biases(expected)
    assert biases(partly.candidate)["c9"] != biases(whole.candidate)["c9"], "the errors before it are others"


def test_biases_that_were_not_corrected_stay_as_they_are(made: Recipes) -> None:
    assert not made.made(Settings("fast", floats=FLOATS))[1].candidate.corrections
