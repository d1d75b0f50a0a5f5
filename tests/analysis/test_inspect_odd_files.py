"""``inspect`` of files that no other command takes: told, and no error of NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from calib8.analysis.inspect import inspect_model
from calib8.errors import ModelError
from calib8.model.made_up import made_up_input
from calib8.tensors import TensorSpec
from small_models import onnx_model


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("of", ["x_zero", "w_zero"])
def test_zero_points_that_fit_no_scale_are_passed_over(tmp_path: Path, of: str, count: int) -> None:
    """Other commands refuse such files; that of another tool may still be looked at."""
    zeros = {"x_zero": np.zeros((), np.uint8), "w_zero": np.zeros((), np.int8)}
    zeros[of] = np.zeros(count, zeros[of].dtype)
    model = onnx_model(
        "float[1,3,8,8] x", "float[1,4,6,6] y",
        "q = QuantizeLinear(x, s, x_zero) d = DequantizeLinear(q, s, x_zero)"
        " e = DequantizeLinear(w, s, w_zero) y = Conv(d, e)",
        {"s": np.float32(0.1), "w": np.ones((4, 3, 3, 3), np.int8)} | zeros,
    )  # fmt: skip
    onnx.save(model, tmp_path / "model.onnx")
    assert inspect_model(tmp_path / "model.onnx").layers


@pytest.mark.parametrize("size", [2**31, 2**63 - 1])
def test_inputs_of_sizes_that_no_tensor_has(tmp_path: Path, size: int) -> None:
    with pytest.raises(ModelError, match="more than a tensor can have"):
        made_up_input(TensorSpec("x", np.dtype(np.float32), (1, 3, size, size)))
    proto = onnx_model("float[1,3,8,8] x", "float[N,4,H,W] y", "y = Conv(x, w)", {"w": np.ones((4, 3, 3, 3))})
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = size
    onnx.save(proto, tmp_path / "model.onnx")
    warnings = inspect_model(tmp_path / "model.onnx").warnings
    assert any("more than a tensor can have" in line for line in warnings)
