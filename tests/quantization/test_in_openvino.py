"""Small models in OpenVINO: the int8 form gives there what the float model gives, within its codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from calib8.analysis.runtimes import open_in_runtime
from calib8.analysis.tally import sqnr_db
from calib8.pipeline import quantize
from small_models import Array, normal, onnx_model, run

CONV = "Conv<pads=[1,1,1,1]>"
POOL = "AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"
WEIGHTS: dict[str, Array] = {
    "w": normal(8, 3, 3, 3),
    "b": normal(8, seed=1),
    "u": normal(4, 8, 3, 3, seed=2),
    "k": normal(8, 1, 3, 3, seed=3),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "around": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
    "low": np.float32(-0.5),
    "slope": np.full((8, 1, 1), 0.2, np.float32),
}
BODIES = {
    "residual": f"c = {CONV}(x, w, b) r = Relu(c) d = Conv<pads=[1,1,1,1], group=8>(r, k) s = Add(r, d)",
    "pool of signed values": f"c = {CONV}(x, w, b) s = {POOL}>(c)",
    "pool with counted padding": f"c = {CONV}(x, w, b) s = {POOL}, count_include_pad=1>(c)",
    "pool of unsigned values": f"c = {CONV}(x, w, b) r = Relu(c) s = {POOL}, count_include_pad=1>(r)",
    "padding of signed values": f"c = {CONV}(x, w, b) s = Pad(c, around, low)",
    "silu": f"c = {CONV}(x, w, b) g = Sigmoid(c) s = Mul(c, g)",
    "prelu": f"c = {CONV}(x, w, b) s = PRelu(c, slope)",
    "clip from below": f"c = {CONV}(x, w, b) s = Clip(c, low)",
    "resize": f'c = {CONV}(x, w, b) s = Resize<mode="linear">(c, , twice)',
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", BODIES)
def test_a_small_model_is_right_in_openvino(name: str, target: str, tmp_path: Path) -> None:
    body = f"{BODIES[name]} y = {CONV}(s, u)"
    used = {key: array for key, array in WEIGHTS.items() if key in re.findall(r"\w+", body)}
    proto = onnx_model("float[N,3,12,12] x", "float[A,B,C,D] y", body, used)
    data = [{"x": normal(1, 3, 12, 12, seed=seed)} for seed in range(4)]
    path = tmp_path / "int8.onnx"
    quantize(proto, data, target=target, method="minmax").save(path)
    [expected] = run(proto, data[0])
    [actual] = open_in_runtime(path, "openvino", 1).run(data[0])
    noise = float(np.sum((expected.astype(np.float64) - actual) ** 2))
    found = sqnr_db(float(np.sum(expected.astype(np.float64) ** 2)), noise)
    assert found is not None and found > 25


ENDS: dict[str, Array] = {
    "start": np.array([0], np.int64),
    "end": np.array([16], np.int64),
    "axis": np.array([1], np.int64),
    "loud": np.full((4, 8, 1, 1), 4, np.float32),
    "last": normal(4, 16, 3, 3, seed=5),
    "wide": normal(4, 20, 3, 3, seed=6),
}
DOUBLE_PAIRS = {
    "a slice of everything": f"s = Concat<axis=1>(c, d) t = Slice(s, start, end, axis) y = {CONV}(t, last)",
    "a Concat in a Concat": (
        f"e = Concat<axis=1>(c, d) f = Conv(d, loud) s = Concat<axis=1>(e, f) y = {CONV}(s, wide)"
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", DOUBLE_PAIRS)
def test_codes_behind_a_concat_are_not_coded_again_at_once(name: str, target: str, tmp_path: Path) -> None:
    """OpenVINO crashes on two pairs in a row there: the open_in_runtime below would not come back."""
    body = f"c = {CONV}(x, w, b) d = Conv<pads=[1,1,1,1], group=8>(c, k) {DOUBLE_PAIRS[name]}"
    words = re.findall(r"\w+", body)
    used = {key: taking_turns(array) for key, array in (WEIGHTS | ENDS).items() if key in words}
    proto = onnx_model("float[1,3,12,12] x", "float[A,B,C,D] y", body, used)
    data = [{"x": normal(1, 3, 12, 12, seed=seed)} for seed in range(4)]
    path = tmp_path / "int8.onnx"
    quantize(proto, data, target=target, method="minmax").save(path)
    assert not list(pairs_behind_pairs(onnx.load(path)))
    [expected] = run(proto, data[0])
    [actual] = open_in_runtime(path, "openvino", 1).run(data[0])
    assert float(np.max(np.abs(expected - actual))) < 0.05 * float(np.max(np.abs(expected)))


def taking_turns(array: Array) -> Array:
    """Weights whose signs take turns along the input channels: without VNNI such pairs do not saturate."""
    if array.ndim < 2 or array.shape[1] < 2:
        return array
    signs = np.where(np.arange(array.shape[1]) % 2, -1, 1).astype(array.dtype)
    return np.abs(array) * signs.reshape(-1, *[1] * (array.ndim - 2))


def pairs_behind_pairs(model: onnx.ModelProto) -> Iterator[str]:
    """Names of Concats whose codes have one reader, which codes them once more."""
    makers = {name: node for node in model.graph.node for name in node.output}
    readers = Counter(name for node in model.graph.node for name in node.input)
    for node in model.graph.node:
        steps = [node]
        while len(steps) < 4 and (maker := makers.get(steps[-1].input[0])) is not None:
            steps.append(maker)
        kinds = [step.op_type for step in steps]
        twice = kinds == ["QuantizeLinear", "DequantizeLinear", "QuantizeLinear", "Concat"]
        if twice and readers[steps[1].output[0]] == 1:
            yield steps[3].name
