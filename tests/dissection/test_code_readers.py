"""The nodes that compute from codes, not those that only hand them on; in float they read none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.dissection.partly_coded import code_readers, coded_layer_names, coded_tensors, partly_coded
from calib8.quantization.qdq import label, readable_copy
from small_models import graph, normal, run

BODY = """
q = QuantizeLinear(x, fine, zero)
d = DequantizeLinear(q, fine, zero)
sealed = Sum(d)
a = Conv(sealed, w)
q2 = QuantizeLinear(d, coarse, zero)
d2 = DequantizeLinear(q2, coarse, zero)
b = Relu(d2)
c = Sigmoid(d)
e = Add(a, b)
y = Add(e, c)
"""


def net() -> ir.Model:
    """A layer behind a seal, a reader of codes of codes and a plain one; nodes without names."""
    constants = {
        "fine": np.float32(0.25), "coarse": np.float32(1.0), "zero": np.uint8(128),
        "w": normal(3, 3, 1, 1, seed=1),
    }  # fmt: skip
    model = graph("float[1,3,4,4] x", "float[1,3,4,4] y", BODY, constants)
    for node in model.graph:
        node.name = ""
    return readable_copy(model)


def test_readers_behind_other_scales_and_seals_are_found() -> None:
    assert code_readers(net(), "x") == ("Conv of 'a'", "Relu of 'b'", "Sigmoid of 'c'")
    assert code_readers(net(), "a") == ()


@pytest.mark.parametrize(
    ("floats", "reads"),
    [(["Conv of 'a'"], "a"), (["Relu of 'b'"], "b"), (["Sigmoid of 'c'"], "c")],
)
def test_a_reader_in_float_reads_what_there_was_before_all_codes(floats: list[str], reads: str) -> None:
    model = net()
    found = partly_coded(
        model, {}, tensors=coded_tensors(model), layers=coded_layer_names(model), floats=floats
    )
    node = next(one for one in found.graph if label(one) == floats[0])
    assert node.inputs[0] is not None and node.inputs[0].name == "x"
    feeds = {"x": normal(1, 3, 4, 4, seed=2)}
    assert not np.array_equal(run(found, feeds)[0], run(model, feeds)[0])


def test_all_readers_in_float_leave_no_codes() -> None:
    model = net()
    found = partly_coded(model, {}, tensors=coded_tensors(model), layers=(), floats=code_readers(model, "x"))
    assert "QuantizeLinear" not in {node.op_type for node in found.graph}
