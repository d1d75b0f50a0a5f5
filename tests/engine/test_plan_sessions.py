"""Sessions of plan files: the bits of the program, and a process without any library of models."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bits import random_feeds
from calib8 import InferenceSession, ModelError, _core
from calib8.engine.compile import compile_program
from calib8.engine.plan_file import (
    save_plan,
)
from calib8.program.program import Program
from program.example_programs import EXAMPLES, chain


def example(name: str) -> Program:
    return EXAMPLES[name, "onnx"]


def test_a_session_writes_its_plan(tmp_path: Path) -> None:
    program = example("Conv")
    InferenceSession(program).save(tmp_path / "p.c8")
    feeds = random_feeds(program, np.random.default_rng(4))
    [want] = InferenceSession(program, runtime="reference").run(None, feeds)
    for isa in _core.engine.available_isas():
        [got] = InferenceSession(tmp_path / "p.c8", isa=isa, threads=1).run(None, feeds)
        np.testing.assert_array_equal(got, want)


def test_a_whole_network_opens_from_its_plan(tmp_path: Path) -> None:
    program = chain()
    InferenceSession(program).save(tmp_path / "net.c8")
    feeds = random_feeds(program, np.random.default_rng(4))
    [want] = InferenceSession(program, runtime="reference").run(None, feeds)
    [got] = InferenceSession(tmp_path / "net.c8").run(None, feeds)
    np.testing.assert_array_equal(got, want)


COLD = """
import sys
import numpy as np
import calib8
session = calib8.InferenceSession(sys.argv[1])
[result] = session.run(None, {"x": np.zeros((2, 9, 8, 4), np.uint8)})
assert result.shape == (2, 5, 6, 6)
heavy = ["onnx", "onnx_ir", "onnxruntime", "onnxscript", "google", "PIL", "importlib.metadata", "tempfile"]
heavy += ["pathlib", "hashlib", "difflib", "heapq"]
heavy += ["calib8.program", "calib8.model", "calib8.engine.steps", "calib8.engine.compile"]
print([name for name in heavy if name in sys.modules])
"""


def test_opening_a_plan_imports_no_library_of_models(tmp_path: Path) -> None:
    save_plan(compile_program(example("Conv")), tmp_path / "conv.c8")
    result = subprocess.run(
        [sys.executable, "-c", COLD, str(tmp_path / "conv.c8")], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


COLD_FLOAT = """
import sys
import numpy as np
import calib8
session = calib8.InferenceSession(sys.argv[1])
session.run(None, {spec.name: np.zeros(spec.shape, spec.dtype) for spec in session.inputs})
assert "onnxruntime" in sys.modules
print([name for name in ("onnx", "onnx_ir", "google.protobuf", "calib8.program") if name in sys.modules])
"""


def test_a_float_part_is_handed_to_onnxruntime_as_it_is(tmp_path: Path) -> None:
    save_plan(compile_program(example("Float")), tmp_path / "f.c8")
    command = [sys.executable, "-c", COLD_FLOAT, str(tmp_path / "f.c8")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_float_part_that_is_no_model(tmp_path: Path) -> None:
    plan = compile_program(example("Float"))
    save_plan(replace(plan, floats=(plan.floats[0]._replace(model=b"nothing"),)), tmp_path / "f.c8")
    session = InferenceSession(tmp_path / "f.c8")
    with pytest.raises(ModelError, match="ONNX Runtime cannot load it"):
        session.run(None, random_feeds(example("Float"), np.random.default_rng(0)))
