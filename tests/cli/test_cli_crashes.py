"""Models that end the process of a runtime: one line says so, the rest of the table stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load

from calib8.analysis.foreign_process import ForeignProcess
from calib8.errors import CrashError
from small_models import Array, normal, onnx_model

CODES: dict[str, Array] = {
    "s": np.float32(0.03),
    "z": np.uint8(128),
    "w": np.ones((8, 8, 1, 1), np.int8),
    "u": np.float32(0.01),
}
PAIR = "{0}q = QuantizeLinear({1}, s, z) {0} = DequantizeLinear({0}q, s, z)"
LOADS = "OpenVINO crashes when it loads it (openvino, SIGSEGV). Use another --runtime."


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A float model, a file on which OpenVINO crashes (two pairs behind a Concat), samples."""
    paths = tmp_path / "fine.onnx", tmp_path / "crash.onnx", tmp_path / "x.npz"
    begin = f"k = DequantizeLinear(w, u) {PAIR.format('a', 'x')} c = Conv(a, k) d = Concat<axis=1>(a, c)"
    twice = f"{begin} {PAIR.format('e', 'd')} {PAIR.format('y', 'e')}"
    save(paths[0], "y = Concat<axis=1>(x, x)", {})
    save(paths[1], twice, CODES)
    np.savez(paths[2], x=normal(3, 8, 6, 6))
    return paths


def save(path: Path, body: str, constants: dict[str, Array]) -> None:
    onnx.save(onnx_model("float[1,8,6,6] x", "float[1,16,6,6] y", body, constants), path)


def test_evaluate_keeps_the_other_rows(cli, pair: tuple[Path, Path, Path], tmp_path: Path) -> None:
    fine, crash, data = pair
    flags = ("--data", data, "--runtime", "openvino", "--json", tmp_path / "e.json")
    result = cli("evaluate", crash, fine, *flags)
    assert result.exit_code == 1
    assert result.stderr.strip() == f"error: {crash}: {LOADS}"
    rows = [line.split() for line in result.stdout.strip().splitlines()]
    assert rows[1][:3] == [str(crash), "openvino", "0"] and set(rows[1][3:8]) == {"–"}
    assert rows[2][:3] == [str(fine), "openvino", "3"]
    told = load(tmp_path / "e.json")["models"]
    assert [entry["failure"] for entry in told] == [f"{crash}: {LOADS}", None]
    assert [entry["images"] for entry in told] == [0, 3]


@pytest.mark.slow
def test_nothing_but_crashes_is_an_error(cli, refused, pair: tuple[Path, Path, Path]) -> None:
    _, crash, data = pair
    refused(cli("evaluate", crash, "--data", data, "--runtime", "openvino"), 1, f"{crash}: {LOADS}")
    refused(cli("benchmark", crash, "--runtime", "openvino", "--threads", "1"), 1, f"{crash}: {LOADS}")
    refused(cli("run", crash, "--data", data, "--runtime", "openvino"), 1, f"{crash}: {LOADS}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("flags", "exit_code"), [((), 0), (("--runtime", "onnxruntime,openvino"), 1)])
def test_benchmark_keeps_the_other_rows(
    cli, pair: tuple[Path, Path, Path], flags: tuple[str, ...], exit_code: int
) -> None:
    fine, crash, _ = pair
    result = cli("benchmark", crash, fine, "--threads", "1", "--rounds", "1", *flags)
    assert result.exit_code == exit_code, result.output
    assert f"note: {crash}: {LOADS}" in result.stdout
    runtimes = {(line.split()[0], line.split()[1]) for line in result.stdout.splitlines() if "onnx " in line}
    assert {(str(crash), "onnxruntime"), (str(fine), "onnxruntime"), (str(fine), "openvino")} <= runtimes
    assert (str(crash), "openvino") not in runtimes


def test_any_object_can_be_asked_in_another_process() -> None:
    process = ForeignProcess("list", "Python", "python", list, ((3, 1, 2),))
    assert process.ask("index", 1) == 1
    process._process.kill()
    with pytest.raises(CrashError, match=r"list: Python crashes when it runs it \(python, SIGKILL\)"):
        process.ask("index", 1)
    process.close()
