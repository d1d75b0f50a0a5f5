"""What data show inside of a model: exact shares of what is cut, the same for every batch and thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from one_layer_models import coded

from calib8.analysis.observed import observe
from calib8.demo import MODEL_PATH
from calib8.errors import Calib8Error, UsageError
from small_nets import Net, clean


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


def test_the_share_that_is_cut_is_counted_exactly(tmp_path: Path) -> None:
    """Scale 0.5, zero point 3: codes hold −1.5 … 126, more than a quarter beyond is cut."""
    proto = coded("MatMul", np.ones((5, 1), np.int8), ("N", 5))
    rows = np.float32([[-1.75, -1.76, 126.25, 126.26, 0.0], [500.0, 1.0, 2.0, 3.0, 4.0]])
    found = observe(saved(proto, tmp_path), [{"x": row[None]} for row in rows])
    [tensor] = found.tensors
    assert (tensor.tensor, tensor.values, tensor.saturated) == ("x", 10, 0.3)
    assert tensor.observed == (pytest.approx(-1.76), 500.0) and tensor.representable == (-1.5, 126.0)
    assert (found.samples, found.skipped, found.batch_norms, found.pairs) == (2, 0, (), None)


def test_neither_batch_nor_threads_nor_order_change_anything(tmp_path: Path) -> None:
    path = saved(clean("residual", "onnxruntime"), tmp_path)
    rng = np.random.default_rng(3)
    data = [{"x": rng.normal(0, 2, (1, 4, 8, 8)).astype(np.float32)} for _ in range(6)]
    first = observe(path, data, pairs=True, threads=1)
    assert first.samples == 6 and any(tensor.saturated > 0 for tensor in first.tensors)
    assert observe(path, data, pairs=True, batch=4, threads=2) == first
    assert observe(path, data[::-1], pairs=True, batch=2) == first


def test_the_worst_tensor_comes_first(tmp_path: Path) -> None:
    found = observe(
        saved(clean("classifier", "onnxruntime"), tmp_path),
        [{"x": np.full((1, 4, 8, 8), 3.0, np.float32)}],
    )
    shares = [tensor.saturated for tensor in found.tensors]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) > 1
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_a_float_model_shows_its_normalizations_only(tmp_path: Path) -> None:
    data = [{"input": np.zeros((1, 1, 16, 16), np.float32)}]
    found = observe(MODEL_PATH, data)
    assert len(found.batch_norms) == 7 and found.tensors == () and found.pairs is None
    net = Net()
    plain = saved(net.model(net.conv("x", 4, 4)), tmp_path)
    assert observe(plain, [{"x": np.zeros((1, 4, 8, 8), np.float32)}]).batch_norms == ()


def test_bad_options_and_data_are_refused(tmp_path: Path) -> None:
    path = saved(clean("residual", "onnxruntime"), tmp_path)
    data = [{"x": np.zeros((1, 4, 8, 8), np.float32)}]
    for options in ({"threads": 0}, {"batch": 0}, {"samples": 0}):
        with pytest.raises(UsageError):
            observe(path, data, **options)
    with pytest.raises(Calib8Error, match="x"):
        observe(path, [{"x": np.zeros((1, 3, 8, 8), np.float32)}])
