"""The inputs of a benchmark: sizes, values, multiplications, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from calib8.analysis.workloads import open_workload
from calib8.errors import ModelError, UsageError
from calib8.program.file import save_program
from calib8.session import InferenceSession

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
CODED = """
    scale = Constant <value = float {0.5}> ()
    zero = Constant <value = uint8 {20}> ()
    weight_scale = Constant <value = float {0.25}> ()
    weight = Constant <value = int8[2,3,1,1] {1, 2, 3, -4, 5, 6}> ()
    weight_real = DequantizeLinear (weight, weight_scale)
    code = QuantizeLinear (x, scale, zero)
    real = DequantizeLinear (code, scale, zero)
    sums = Conv (real, weight_real)
    result = QuantizeLinear (sums, scale, zero)
    y = DequantizeLinear (result, scale, zero)
"""


def saved(folder: Path, inputs: str, outputs: str, nodes: str) -> Path:
    path = folder / "net.onnx"
    onnx.save(onnx.parser.parse_model(f"{HEAD} net ({inputs}) => ({outputs}) {{{nodes}}}"), path)
    return path


@pytest.fixture
def coded(tmp_path: Path) -> Path:
    return saved(tmp_path, "float[N,3,8,8] x", "float[N,2,8,8] y", CODED)


def test_a_quantized_model(coded: Path) -> None:
    workload = open_workload(coded, 4)
    assert (workload.path, workload.form, workload.batch) == (str(coded), "quantized", 4)
    assert workload.macs == 4 * 2 * 64 * 3
    array = workload.feeds["x"]
    assert (array.shape, array.dtype) == ((4, 3, 8, 8), np.float32)
    # codes 0 … 255 stand for −10 … 117.5
    assert -10 <= array.min() < -5 and 110 < array.max() <= 117.5
    again = open_workload(coded, 4).feeds["x"]
    assert np.array_equal(array, again), "every run measures the same"


def test_a_saved_program_counts_like_its_model(coded: Path, tmp_path: Path) -> None:
    program = InferenceSession(coded, runtime="reference", shapes={"x": (2, 3, 8, 8)}).program
    save_program(program, tmp_path / "net.c8p")
    workload = open_workload(tmp_path / "net.c8p")
    assert (workload.form, workload.batch, workload.macs) == ("program", 2, 2 * 2 * 64 * 3)
    assert workload.feeds["x"].shape == (2, 3, 8, 8)
    with pytest.raises(UsageError, match="batch=3"):
        open_workload(tmp_path / "net.c8p", 3)


def test_a_float_model_with_integer_inputs(tmp_path: Path) -> None:
    nodes = "f = Cast <to = 1> (x) g = Cast <to = 1> (s) h = Mul (f, g) y = Relu (h)"
    path = saved(tmp_path, "uint8[N,100] x, int8[1,100] s, float[7] unused", "float[N,100] y", nodes)
    workload = open_workload(path)
    assert (workload.form, workload.batch, workload.macs) == ("float", 1, 0)
    pixels, codes = workload.feeds["x"], workload.feeds["s"]
    assert (pixels.dtype, codes.dtype, workload.feeds["unused"].shape) == (np.uint8, np.int8, (7,))
    assert pixels.max() > 200 and codes.min() < -100 and codes.max() > 100


def test_free_axes_need_a_shape(tmp_path: Path) -> None:
    path = saved(tmp_path, "float[N,3,H,W] x", "float[N,3,H,W] y", "y = Relu (x)")
    with pytest.raises(UsageError, match=r"x: float32 N×3×H×W' has free axes.*shapes={'x': ") as error:
        open_workload(path)
    assert error.value.exit_code == 2
    assert open_workload(path, shapes={"x": (2, 3, 5, 7)}).feeds["x"].shape == (2, 3, 5, 7)
    with pytest.raises(UsageError, match="shape of 'x': 2×4×5×7 does not fit"):
        open_workload(path, shapes={"x": (2, 4, 5, 7)})
    with pytest.raises(UsageError, match=r"shape of 'image': .* has no such input"):
        open_workload(path, shapes={"image": (2, 3, 5, 7)})


def test_nothing_is_made_that_is_too_large(coded: Path, tmp_path: Path) -> None:
    for batch, shapes in (10**8, {}), (10**30, {}), (None, {"x": (10**8, 3, 8, 8)}):
        with pytest.raises(UsageError, match=r"more than 2,147,483,647 elements. Give a smaller batch"):
            open_workload(coded, batch, shapes)


def test_memory_that_is_not_there(coded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("calib8.analysis.workloads._values", full)
    with pytest.raises(UsageError, match=r"its inputs 'x: float32 1×3×8×8' do not fit in memory"):
        open_workload(coded)


def test_a_fixed_batch_stays(tmp_path: Path) -> None:
    path = saved(tmp_path, "float[2,3] x", "float[2,3] y", "y = Relu (x)")
    assert open_workload(path).batch == open_workload(path, 2).batch == 2
    with pytest.raises(UsageError, match=r"batch=4: .* takes x: float32 2×3"):
        open_workload(path, 4)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        open_workload(tmp_path / "none.onnx")


def test_a_batch_and_a_shape_that_differ(coded: Path) -> None:
    with pytest.raises(UsageError, match=r"batch=2: shapes gives 'x' 3 samples"):
        open_workload(coded, 2, {"x": (3, 3, 8, 8)})
    assert open_workload(coded, 3, {"x": (3, 3, 8, 8)}).batch == 3


def test_inputs_are_bounded_before_they_are_drawn(coded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object) -> None:
        pytest.fail("values were drawn")

    monkeypatch.setattr("calib8.analysis.workloads._values", drawn)
    with pytest.raises(UsageError, match=r"take 768,000,000 bytes, .* 536,870,912 at most\. Give a smaller"):
        open_workload(coded, 10**6)


def test_an_input_without_axes(tmp_path: Path) -> None:
    path = saved(tmp_path, "float[N,3] x, float s", "float[N,3] y", "y = Mul (x, s)")
    workload = open_workload(path, 2)
    assert (workload.feeds["s"].shape, workload.feeds["x"].shape) == ((), (2, 3))
