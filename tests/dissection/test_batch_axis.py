"""What goes through a node together comes out as it does alone; what may mix is refused."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.dissection.batch_axis import with_rows
from calib8.model.graph import Names
from small_models import Array, normal, run
from untyped_nets import untyped

ROWS = 3
INTS = {
    "one": np.int64([1]), "two": np.int64([2]), "zero": np.int64([0]), "last": np.int64([-1]),
    "shape": np.int64([1, 8, 8]), "flat": np.int64([-1, 64]), "apart": np.int64([2, 4, 8]),
    "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "batch_pads": np.int64([1, 0, 0, 0, 0, 0, 0, 0]),
    "sizes": np.int64([1, 4, 8, 8]), "indices": np.int64([0, 2]),
    "halves": np.int64([1, 3]), "none_and_all": np.int64([0, 1]),
}  # fmt: skip
FLOATS = {
    "w": normal(6, 4, 3, 3), "b": normal(6, seed=1), "matrix": normal(4, 5, seed=2),
    "gemm": normal(7, 64, seed=3), "row": normal(1, 4, 1, 1, seed=4), "scales": np.float32([1, 1, 2, 2]),
    "tall": normal(3, 4, 4, 4, seed=5), "square": normal(4, 4, seed=6), "whole": normal(1, 4, 4, 4, seed=7),
}  # fmt: skip
FINE = {
    "Conv": "y = Conv<pads=[1,1,1,1]>(x, w, b)",
    "Sigmoid": "y = Sigmoid(x)",
    "pool": "y = MaxPool<kernel_shape=[2,2]>(x)",
    "constant operand": "y = Mul(x, row)",
    "two operands": "a = Relu(x) y = Add(x, a)",
    "Concat": "a = Relu(x) y = Concat<axis=-3>(x, a)",
    "Softmax": "y = Softmax(x)",
    "LayerNormalization": "y = LayerNormalization<axis=2>(x, square)",
    "Transpose": "y = Transpose<perm=[0,2,3,1]>(x)",
    "Flatten": "f = Flatten(x) y = Gemm<transB=1>(f, gemm)",
    "Flatten of two axes": "y = Flatten<axis=2>(x)",
    "Reshape": "y = Reshape(x, shape)",
    "Reshape with a free size": "y = Reshape(x, flat)",
    "Reshape apart": "y = Reshape(x, apart)",
    "MatMul": "y = MatMul(x, matrix)",
    "product": "a = Transpose<perm=[0,1,3,2]>(x) y = MatMul(x, a)",
    "ReduceMean": "y = ReduceMean<axes=[2,3]>(x)",
    "Unsqueeze": "y = Unsqueeze(x, last)",
    "Resize": 'y = Resize<mode="nearest">(x, , scales)',
    "Resize to a size": 'y = Resize<mode="nearest">(x, , , sizes)',
    "Pad": "y = Pad(x, pads)",
    "Slice": "y = Slice(x, zero, two, one)",
    "Gather": "y = Gather<axis=1>(x, indices)",
    "Split": "y, other = Split<axis=1>(x, halves)",
}
MIXING = {
    "Transpose": "y = Transpose<perm=[1,0,2,3]>(x)",
    "Concat": "a = Relu(x) y = Concat<axis=0>(x, a)",
    "Softmax": "y = Softmax<axis=0>(x)",
    "LayerNormalization": "y = LayerNormalization<axis=0>(x, whole)",
    "ReduceMean": "y = ReduceMean<axes=[0]>(x)",
    "ReduceMean of all": "y = ReduceMean(x)",
    "Pad": "y = Pad(x, batch_pads)",
    "Slice": "y = Slice(x, zero, one, zero)",
    "Gather": "y = Gather(x, zero)",
    "Unsqueeze": "y = Unsqueeze(x, zero)",
    "operand along axis 0": "y = Add(x, tall)",
    "CumSum": "axis = Constant<value = int64 {0}>() y = CumSum(x, axis)",
    "Split": "y, other = Split<axis=-4>(x, none_and_all)",
    "two outputs": "y, indices_of_it = MaxPool<kernel_shape=[2,2]>(x)",
}


def net(body: str) -> ir.Model:
    return untyped("float[1,4,4,4] x", body, {**INTS, **FLOATS})


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_rows_come_out_as_alone(body: str) -> None:
    values = [normal(1, 4, 4, 4, seed=10 + row) for row in range(ROWS)]
    alone: list[Array] = [run(net(body), {"x": value})[0] for value in values]
    model = net(body)
    changing, names = set(model.graph.inputs), Names(model.graph)
    for node in model.graph:
        stated = with_rows(node, ROWS, {value for value in node.inputs if value in changing})
        assert stated is not None
        for index, array in stated.items():
            node.replace_input_with(index, names.constant("rows", array))
        changing |= set(node.outputs)
    for value in (*model.graph.inputs, *(out for node in model.graph for out in node.outputs)):
        value.shape = None
    together = run(model, {"x": np.concatenate(values)})[0]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", MIXING.values(), ids=MIXING)
def test_what_may_mix_is_refused(body: str) -> None:
    model = net(body)
    changing, answers = set(model.graph.inputs), []
    for node in model.graph:
        inputs = {value for value in node.inputs if value in changing}
        answers.append(with_rows(node, ROWS, inputs) if inputs else {})
        changing |= set(node.outputs) if inputs else set()
    assert None in answers
