"""Broken float .tflite files, valid models of which bytes or the graph were changed: errors of calib8."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from test_from_tflite_operators import MODELS

from calib8.errors import Calib8Error
from calib8.model.from_tflite.translate import float_model
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

SCRIPTS = Path(__file__).parents[2] / "scripts"
BLOCKS, FILES = 20, 150


@pytest.fixture(scope="module")
def mutations() -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))
    module = importlib.import_module("tflite_mutations")
    sys.path.remove(str(SCRIPTS))
    return module


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return [build(np.random.default_rng([number, 7])) for build in MODELS.values() for number in range(2)]


@pytest.mark.one_in(BLOCKS)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_files_are_refused_or_translated(mutations: ModuleType, graphs: list[Graph], block: int) -> None:
    files = [serialize(graph) for graph in graphs]
    refused = 0
    for number in range(block * FILES, (block + 1) * FILES):
        rng = np.random.default_rng([5, number])
        first, second = (int(place) for place in rng.integers(len(graphs), size=2))
        if rng.random() < 0.7:
            data = mutations.mutated_graph(graphs[first], rng)
        else:
            data = mutations.mutated_bytes(files[first], files[second], rng)
        for read in (float_model, lower_tflite):
            try:
                read(parse(data, "broken.tflite"), "broken")
            except Calib8Error:
                refused += 1
    assert 0 < refused < 2 * FILES
