"""The axis of an input that recurrent layers read as samples, through the ops in front of them."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.tensors import UNTOLD, TensorSpec
from small_models import onnx_model

H, I = 3, 4  # noqa: E741
LSTM = "y, yh, yc = LSTM<hidden_size=3>({}, w, r)"


def weights(inputs: int = I) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "w": rng.standard_normal((1, 4 * H, inputs), np.float32),
        "r": rng.standard_normal((1, 4 * H, H), np.float32),
        "m": rng.standard_normal((I, I), np.float32),
        "k": rng.standard_normal((I, 2, 3, 3), np.float32),
        "two": np.array([2]),
        "three": np.array([0, 0, I]),
        "other": np.array([-1, 1, I]),
        "one": np.array(1.5, np.float32),
        "zero": np.array([0]),
        "five": np.array([5]),
        "halves": np.array([2, 2]),
        "order": np.array([3, 1, 0, 2]),
    }


@pytest.mark.parametrize(
    ("shape", "body", "axis"),
    [
        ("T,N,4", LSTM.format("x"), 1),
        ("5,M,4", LSTM.format("x"), 1),
        ("N,T,4", f"a = Transpose<perm=[1,0,2]>(x) {LSTM.format('a')}", 0),
        ("4,B,T", f"a = Transpose(x) {LSTM.format('a')}", 1),
        ("T,N,4", f"a = MatMul(x, m) b = Tanh(a) c = Mul(b, one) {LSTM.format('c')}", 1),
        ("T,N,4", f"a = Mul(one, x) {LSTM.format('a')}", 1),
        ("T,N,4", f"a = Reshape(x, three) {LSTM.format('a')}", 1),
        ("T,N,4", f"a = Unsqueeze(x, two) b = Squeeze(a, two) {LSTM.format('b')}", 1),
        ("N,2,3,T", f"a = Conv<pads=[0,1,0,1]>(x, k) b = Squeeze(a, two) c = Transpose<perm=[2,0,1]>(b) "
         f"{LSTM.format('c')}", 0),
        ("P,Q,4", f"a = Slice(x, zero, five, zero) b = Concat<axis=2>(a, a) {LSTM.format('b')}", 1),
        ("P,Q,4", f"a, c = Split<axis=2>(x, halves) b = Concat<axis=-1>(c, a) {LSTM.format('b')}", 1),
        ("P,Q,4", f"b = Gather<axis=2>(x, order) {LSTM.format('b')}", 1),
        ("P,Q,2,4", f"i = Constant<value = int64 {{1}}>() b = Gather<axis=2>(x, i) {LSTM.format('b')}", 1),
        ("T,4", f"a = Reshape(x, other) {LSTM.format('a')}", UNTOLD),
        ("P,Q,4", f"a = Reshape(x, other) {LSTM.format('a')}", UNTOLD),
        ("N,4", "y = Relu(x)", None),
    ],
)  # fmt: skip
def test_recurrent_layers_tell_which_axis_counts_samples(shape: str, body: str, axis: int | None) -> None:
    used = {name: array for name, array in weights().items() if f"{name})" in body or f"{name}," in body}
    rank = 2 if body.startswith("y = ") else 4
    dims = ",".join("ABCD"[:rank])
    model = load_model(onnx_model(f"float[{shape}] x", f"float[{dims}] y", body, used))
    (spec,) = graph_inputs(model)
    assert spec.counted == axis
    told = axis != UNTOLD or shape.count(",") == 2
    assert spec.batch_axis == ((axis or 0) if told else 0)


def test_an_embedding_states_and_lengths_have_their_samples() -> None:
    constants = {name: array for name, array in weights().items() if name in ("w", "r")}
    constants["table"] = np.zeros((9, I), np.float32)
    model = load_model(
        onnx_model(
            "int64[A,B] x, int32[C] lens, float[D,E,3] h, float[F,G,3] c", "float[P,Q,R,S] y",
            "a = Gather(table, x) y, yh, yc = LSTM<hidden_size=3>(a, w, r, , lens, h, c)", constants,
        )
    )  # fmt: skip
    assert [spec.batch_axis for spec in graph_inputs(model)] == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        (("N", 3, "H", "W"), 0),
        (("batch_size", "N", 4), 0),
        (("seq", "batch_size", 4), 1),
        (("T", "N", 4), 1),
        ((5, "b", 4), 1),
        ((1, "n", 3), 0),  # points of one cloud
        ((None, "N", 4), 0),
        (("unk__12", "N", 4), 0),
        ((5, 6, 4), 0),
        (("T", 1, 4), 1),
        (("num_frames", 1, 4), 1),
        (("T", 1, 1), 0),
        ((), 0),
        (None, 0),
    ],
)
def test_names_tell_where_no_layer_does(shape: tuple[int | str | None, ...] | None, axis: int) -> None:
    assert TensorSpec("x", np.dtype(np.float32), shape).batch_axis == axis
