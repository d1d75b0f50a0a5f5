"""What a command loads: SymPy waits for its first use, onnxscript for a graph that it could rewrite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, run
from sys import executable

import onnx
import pytest
from onnx import helper
from tiny_models import FLAGS, cnn, save

Process = Callable[..., "CompletedProcess[str]"]

REPORT = """
import atexit, sys
atexit.register(lambda: print([n for n in ("sympy.core", "onnxscript") if n in sys.modules]))
"""


def loaded(process: Process, model: Path, images: Path, out: Path) -> str:
    command = ("calibrate", model, "--data", images, *FLAGS, "--method", "mse", "-o", out / "t.json")
    result = process(*command, before=REPORT)
    assert result.returncode == 0, result.stderr
    return str(result.stdout.splitlines()[-1])


def test_a_network_of_layers_needs_neither(process: Process, model: Path, images: Path, out: Path) -> None:
    assert loaded(process, model, images, out) == "[]"


@pytest.mark.slow
def test_what_can_be_rewritten_needs_onnxscript(
    process: Process, images: Path, out: Path, tmp_path: Path
) -> None:
    extra = [helper.make_node("Identity", ["features"], ["extra"], name="nothing")]
    model = save(cnn(extra), tmp_path / "more.onnx")
    assert onnx.load(model).graph.node[2].op_type == "Identity"
    assert loaded(process, model, images, out) == "['onnxscript']"


def test_a_late_module_is_the_one_that_was_asked_for() -> None:
    code = """
import sys
from calib8.cli.late_modules import load_late
load_late(); load_late()
import onnx_ir
assert "sympy" in sys.modules and "sympy.core" not in sys.modules
sizes = onnx_ir.SymbolicDim("N") * 2 + 1
assert sizes.evaluate({"N": 3}) == 7
assert "sympy.core" in sys.modules
import sympy
assert onnx_ir._core.sympy is sympy and sympy.Integer(3) == 3
import json.tool
try:
    import no_such_module
except ModuleNotFoundError:
    print("done")
"""
    result = run([executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "done\n", result.stderr
