"""``export --to qoperator`` and ``--to program``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from json_output import load

from calib8 import InferenceSession
from calib8.model.metadata import read_metadata
from calib8.program.file import load_program


def test_a_qoperator_model_computes_what_the_qdq_model_does(cli, int8: Path, out: Path) -> None:
    result = cli("export", int8, "--to", "qoperator", "-o", out / "q.onnx", "--json", out / "q.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert (
        "operators on codes: 1 Flatten, 1 QGemm, 2 QLinearConv, 1 QLinearGlobalAveragePool" in result.stdout
    )
    assert "0 nodes in float" in result.stdout
    document = load(out / "q.json")
    assert document["operators"]["QLinearConv"] == 2 and document["kept"] == []
    onnx.checker.check_model(str(out / "q.onnx"), full_check=True)
    assert read_metadata(out / "q.onnx") == read_metadata(int8)
    images = np.random.default_rng(0).normal(size=(3, 3, 16, 16)).astype(np.float32)
    expected, actual = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"image": images})
        for path in (int8, out / "q.onnx")
    )
    np.testing.assert_array_equal(actual[0], expected[0])


def test_what_stays_float_is_listed(cli, int8: Path, out: Path) -> None:
    model = onnx.load(int8)
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "Tanh"
    onnx.save(model, out / "tanh.onnx")
    result = cli(
        "export", out / "tanh.onnx", "--to", "qoperator", "-o", out / "q.onnx", "--json", out / "q.json"
    )
    assert result.exit_code == 0, result.output
    assert "1 Tanh in float: there is no Tanh on codes" in result.stdout
    assert load(out / "q.json")["kept"] == [
        {"node": "relu1", "op_type": "Tanh", "reason": "there is no Tanh on codes"}
    ]


def test_the_same_model_gives_the_same_bytes(cli, int8: Path, out: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        assert cli("export", int8, "--to", "qoperator", "-o", out / name, "--quiet").output == ""
    assert (out / "a.onnx").read_bytes() == (out / "b.onnx").read_bytes()


def test_an_exported_program_is_that_of_inspect(cli, int8: Path, out: Path) -> None:
    flags = ("--profile", "single", "--integer-only", "--shape", "image=2,3,16,16")
    result = cli("export", int8, "--to", "program", "-o", out / "p.c8p", *flags, "--json", out / "p.json")
    assert result.exit_code == 0, result.output
    assert "profile single" in result.stdout and "0 nodes without an integer form" in result.stdout
    cli("inspect", int8, "--program", "--save", out / "i.c8p", *flags)
    assert (out / "p.c8p").read_bytes() == (out / "i.c8p").read_bytes()
    assert load(out / "p.json")["instructions"]["Conv"] == 2
    assert InferenceSession(load_program(out / "p.c8p")).get_inputs()[0].shape == [2, 3, 16, 16]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--to", "qoperator", "--profile", "onnx"), "--profile: does not go with --to qoperator"),
        (("--to", "qoperator", "--shape", "image=1,3,16,16"), "--shape: does not go with --to qoperator"),
        (("--to", "program", "--inputs", "int8"), "--inputs: does not go with --to program"),
        (("--to", "program"), "does not end in .c8p"),
        (("--to", "qdq"), "--to qdq: unknown form"),
    ],
)
def test_options_of_other_forms_are_refused(
    cli, int8: Path, out: Path, flags: tuple[str, ...], message: str
) -> None:
    name = "r.c8p" if "--inputs" in flags else "r.onnx"
    result = cli("export", int8, *flags, "-o", out / name)
    assert result.exit_code == 2 and message in result.stderr
    assert not (out / name).exists()


def test_models_that_cannot_become_qoperator_are_refused(cli, model: Path, int8: Path, out: Path) -> None:
    cli("export", int8, "--to", "qoperator", "-o", out / "q.onnx")
    cli("export", int8, "--to", "program", "-o", out / "p.c8p")
    for source, message in (
        (model, "is a float model"),
        (out / "q.onnx", "computes on codes already"),
        (out / "p.c8p", "is a saved program"),
    ):
        result = cli("export", source, "--to", "qoperator", "-o", out / "r.onnx")
        assert result.exit_code == 1 and f"{source}: {message}" in result.stderr
        assert not (out / "r.onnx").exists()
