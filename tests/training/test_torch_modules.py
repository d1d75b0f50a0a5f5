"""Torch modules where models are taken: the same bytes as by way of a file, names of the traced graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from networks import example, network
from torch import nn

import calib8
from calib8.errors import UsageError
from calib8.modules.export import export_module
from calib8.modules.tracing import trace

NAME = "functional"
DATA = [{"x": example(NAME, batch=4, seed=seed)[0].numpy()} for seed in range(3)]


def test_a_module_gives_the_same_bytes_as_its_exported_file(tmp_path: Path) -> None:
    module = network(NAME).train()
    onnx.save(export_module(module, example(NAME)), tmp_path / "float.onnx")
    straight = calib8.quantize(module, DATA, example_inputs=example(NAME), effort="fast")
    by_file = calib8.quantize(tmp_path / "float.onnx", DATA, effort="fast")
    straight.save(tmp_path / "straight.onnx")
    by_file.save(tmp_path / "by_file.onnx")
    assert (tmp_path / "straight.onnx").read_bytes() == (tmp_path / "by_file.onnx").read_bytes()
    assert straight.table == by_file.table and module.training
    assert set(straight.table.entries) <= {node.name for node in trace(module).graph.nodes}
    assert {"conv2d", "linear"} <= set(straight.placement.quantized_nodes())
    x = torch.from_numpy(DATA[0]["x"])
    expected = module.eval()(x).detach().numpy()
    session = calib8.InferenceSession(tmp_path / "straight.onnx")
    [actual] = session.run(None, {"x": DATA[0]["x"]})
    assert np.abs(actual - expected).max() < 0.1 * np.abs(expected).max()


def test_tables_and_statistics_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = network(NAME)
    model = export_module(module, example(NAME))
    exports = []

    def export_once(given: nn.Module, inputs: object) -> onnx.ModelProto:
        exports.append((given, inputs))
        return model

    monkeypatch.setattr("calib8.modules.export.export_module", export_once)
    collected = calib8.collect_statistics(module, DATA, example_inputs=example(NAME))
    statistics = collected.statistics
    table = calib8.calibrate(module, statistics=statistics, example_inputs=example(NAME)).table
    assert table == calib8.calibrate(model, DATA, method="mse").table
    quantized = calib8.quantize(module, table=table, example_inputs=example(NAME)).model
    again = calib8.quantize(model, table=table).model
    assert ir.to_proto(quantized).SerializeToString() == ir.to_proto(again).SerializeToString()
    assert len(exports) == 3 and all(given is module for given, _ in exports)


@pytest.mark.parametrize("call", [calib8.quantize, calib8.calibrate, calib8.collect_statistics])
def test_modules_need_example_inputs_and_nothing_else_takes_them(call: object) -> None:
    with pytest.raises(UsageError, match="Functional: is a torch module, and example_inputs were not given"):
        call(network(NAME), DATA)  # type: ignore[operator]
    with pytest.raises(UsageError, match="example_inputs: are for torch modules only"):
        call("model.onnx", DATA, example_inputs=example(NAME))  # type: ignore[operator]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_torch_the_training_room_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import calib8.pipeline\n"
        "try: import calib8.training\n"
        "except calib8.Calib8Error as error: print(type(error).__name__, error)"
    )
    expected = "UsageError training: the package torch is not installed. Run: pip install 'calib8[qat]'."
    assert python(code) == expected


def test_nothing_else_imports_torch() -> None:
    code = (
        "import sys, calib8.pipeline, calib8.cli\n"
        "try: calib8.quantize('missing.onnx', [])\n"
        "except calib8.Calib8Error: print('torch' in sys.modules)"
    )
    assert python(code) == "False"
