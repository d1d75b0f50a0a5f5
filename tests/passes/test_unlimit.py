"""ReLU6 becomes Relu where its limit was never reached, or everywhere on request."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.passes.unlimit import remove_limits, remove_unreached_limits
from small_models import graph, ops, run

LIMITS = {"zero": np.float32(0), "six": np.float32(6), "one": np.float32(1)}


def net() -> ir.Model:
    body = "a = Clip(x, zero, six) b = Clip(x, one, six) c = Clip(x, zero) d = Clip(x, , six)"
    constants = {name: np.asarray(value) for name, value in LIMITS.items()}
    return graph("float[4] x", "float a, float b, float c, float d", body, constants)


def test_only_where_calibration_stayed_below() -> None:
    model = net()
    assert remove_unreached_limits(model, {"b": 1.0, "d": 1.0, "x": 1.0}) == ()
    assert remove_unreached_limits(model, {"a": 6.0}) == ()
    assert remove_unreached_limits(model, {"a": 5.9}) == ("a",)
    assert ops(model) == {"Clip": 3, "Relu": 1}
    x = np.array([-1, 0, 3, 9], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], [0, 0, 3, 9])


def test_any_on_request() -> None:
    model = net()
    assert remove_limits(model, {"b", "d", "x"}) == ()
    assert remove_limits(model, {"a", "b", "c", "d"}) == ("a", "c")
    assert ops(model) == {"Clip": 2, "Relu": 2}
