"""What is drawn of tensors and weights, against the values themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.analysis.tensor_codes import TensorCode
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.model.graph import constant
from calib8.qparams import INT8, UINT8, QuantSpec
from calib8.run_report.tensor_charts import BARS, CHANNELS, channels_of, codes_taken, tensor_shown
from calib8.table import Range, TableEntry
from small_nets import residual


def values(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.laplace(size=20_000).astype(np.float32)
    found[rng.random(found.size) < 0.2] = 0.0
    return found


@pytest.mark.parametrize("code", [
    TensorCode((0.03,), (128,), 0, UINT8), TensorCode((0.01,), (-20,), 0, INT8),
    TensorCode((0.2,), (0,), 0, UINT8),
])  # fmt: skip
def test_codes_are_those_that_quantizing_gives(code: TensorCode) -> None:
    x = values()
    taken, together = codes_taken(TensorStatistics.from_values(x), code)
    rounded = np.rint(x.astype(np.float64) / code.scale[0]) + code.zero_point[0]
    exact = np.bincount(
        (np.clip(rounded, code.spec.qmin, code.spec.qmax) - code.spec.qmin).astype(int), minlength=256
    )
    assert together == 1 and len(taken) == 256
    assert sum(taken) == pytest.approx(x.size)
    width = TensorStatistics.from_values(x).width  # a bin lies on both sides of a border of codes
    most = np.convolve(
        exact - (np.arange(256) == code.zero_point[0] - code.spec.qmin) * (x == 0).sum(), np.ones(3), "same"
    )
    assert np.abs(np.array(taken) - exact).max() <= 2 + 2 * width / code.scale[0] * most.max()
    assert taken[0] == pytest.approx(exact[0], abs=2 + 0.1 * exact[0])


def test_what_is_clipped_stands_at_the_ends() -> None:
    x = np.array([-9, -8, 0, 0.5, 7, 8, 9], np.float32)
    taken, _ = codes_taken(TensorStatistics.from_values(x), TensorCode((1 / 128,), (128,), 0, UINT8))
    assert (taken[0], taken[255], taken[128]) == (2, 3, 1)


def test_sixteen_bits_are_added_up() -> None:
    code = TensorCode((1e-4,), (32768,), 0, QuantSpec(bits=16, signed=False))
    taken, together = codes_taken(TensorStatistics.from_values(values()), code)
    assert (len(taken), together) == (BARS, 65536 // BARS)
    assert sum(taken) == pytest.approx(20_000)


def test_only_zeros_and_only_one_value() -> None:
    code = TensorCode((0.1,), (0,), 0, UINT8)
    taken, _ = codes_taken(TensorStatistics.from_values(np.zeros(5, np.float32)), code)
    assert taken[0] == sum(taken) == 5
    taken, _ = codes_taken(TensorStatistics.from_values(np.full(4, 2.0, np.float32)), code)
    assert sum(taken) == pytest.approx(4) and taken[20] == pytest.approx(4, abs=0.5)


def test_a_tensor_with_all_that_is_known_of_it() -> None:
    x = values()
    shown = tensor_shown("t", TensorStatistics.from_values(x), TensorCode((0.01,), (100,), 0, UINT8), None)
    assert shown.observed == (float(x.min()), float(x.max())) and shown.chosen == pytest.approx((-1.0, 1.55))
    assert shown.clipped == pytest.approx(float(np.mean((x < -1) | (x > 1.55))), abs=2e-3)
    assert shown.histogram is not None and len(shown.histogram.counts) <= BARS
    assert sum(shown.histogram.counts) + shown.zeros == shown.values == x.size
    assert shown.code == "uint8, scale 0.01, zero point 100"


def test_a_tensor_of_which_only_its_range_is_known() -> None:
    entry = TableEntry(Range(-1.0, 2.0), "mse", 0.25, 40, 4, Range(0.5, 3.0))
    shown = tensor_shown("t", None, TensorCode((0.01, 0.02), (0, 0), 1, INT8), entry)
    assert (shown.method, shown.clipped, shown.observed, shown.histogram) == ("mse", 0.25, (0.0, 3.0), None)
    assert shown.code == "int8, 2 scales"
    assert tensor_shown("t", None, None, None).code == ""


def test_weights_by_channel() -> None:
    model = ir.from_proto(residual())
    layers = [node for node in model.graph if node.op_type == "Conv"]
    assert layers
    for node in layers:
        found, weight = channels_of(node), constant(node.inputs[1])
        assert found is not None and weight is not None
        rows = weight.reshape(weight.shape[0], -1)
        assert (found.count, found.together) == (len(rows), 1)
        assert found.low == tuple(rows.min(axis=1).tolist()) and found.high == tuple(
            rows.max(axis=1).tolist()
        )
    assert channels_of(None) is None
    assert all(channels_of(node) is None for node in model.graph if node.op_type == "Relu")


def test_many_channels_are_joined() -> None:
    weight = np.random.default_rng(2).normal(size=(300, 4)).astype(np.float32)
    given = ir.Value(name="w", const_value=ir.tensor(weight))
    node = ir.Node("", "Gemm", [ir.Value(name="x"), given], [ir.AttrInt64("transB", 1)])
    found = channels_of(node)
    assert found is not None and (found.count, found.together) == (300, 3) and len(found.low) <= CHANNELS
    assert found.low[1] == weight[3:6].min() and found.high[-1] == weight[297:].max()
