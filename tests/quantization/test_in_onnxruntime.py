"""In ONNX Runtime's own optimized graph: integer kernels everywhere, no float layer left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from quantized_models import quantized

from calib8.model.runtime import open_session
from calib8.scheme import TARGETS
from small_models import Array, normal, onnx_model, ops_in_file, proto_of, relative_difference, run

UINT8 = TARGETS["onnxruntime"]
INT8 = UINT8.with_activations("int8")
FLOAT_LAYERS = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul", "ConvTranspose"}
CONV = "Conv<pads=[1,1,1,1]>"
IMAGE, ANY, ROWS = "float[N,3,16,16] x", "float[A,B,C,D] y", "float[A,B] y"

ARRAYS: dict[str, Array] = {
    "w": normal(8, 3, 3, 3),
    "b": normal(8),
    "w2": normal(8, 8, 3, 3, seed=1),
    "w3": normal(8, 3, 3, 3, seed=2),
    "b3": normal(8, seed=3),
    "joint": normal(8, 16, 3, 3, seed=4),
    "single": normal(8, 1, 3, 3, seed=5),
    "up": normal(8, 8, 2, 2, seed=6),
    "squeeze": np.abs(normal(4, 8, 1, 1, seed=7)),
    "excite": normal(8, 4, 1, 1, seed=8),
    "g": normal(8, seed=9) + np.float32(2),
    "m": normal(8, seed=10),
    "v": np.abs(normal(8, seed=11)) + np.float32(0.5),
    "head": normal(10, 8, seed=12),
    "bias": normal(10, seed=13),
    "left": normal(16, 8, seed=14),
    "right": normal(8, 4, seed=15),
    "row": normal(8, seed=16),
    "zero": np.float32(0),
    "minus": np.float32(-1),
    "one": np.float32(1),
    "three": np.float32(3),
    "six": np.float32(6),
    "double": np.array([1, 1, 2, 2], np.float32),
    "halves": np.array([4, 4], np.int64),
    "frame": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
    "k": normal(8, 1, 1, seed=17),
}

CHAINS: dict[str, tuple[str, str, str]] = {
    "conv-bn-relu": (IMAGE, ANY, f"c = {CONV}(x, w, b) n = BatchNormalization(c, g, b, m, v) y = Relu(n)"),
    "relu6": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = Clip(c, zero, six) y = {CONV}(r, w2)"),
    "relu6 at the end": (IMAGE, ANY, f"c = {CONV}(x, w, b) y = Clip(c, zero, six)"),
    "hard tanh": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = Clip(c, minus, one) y = {CONV}(r, w2)"),
    "depthwise": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = Relu(c) y = Conv<group=8>(r, single, b)"),
    "max pool": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) r = Relu(c) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r)
            y = {CONV}(p, w2)""",
    ),
    "average pool": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w) r = Relu(c) p = AveragePool<kernel_shape=[2,2], strides=[2,2]>(r)
            y = {CONV}(p, w2)""",
    ),
    "classifier": (
        IMAGE,
        ROWS,
        f"""c = {CONV}(x, w, b) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p)
            y = Gemm<transB=1>(f, head, bias)""",
    ),
    "classifier of a mean": (
        IMAGE,
        ROWS,
        f"""c = {CONV}(x, w, b) r = Relu(c) f = ReduceMean<axes=[2,3], keepdims=0>(r)
            l = Gemm<transB=1>(f, head, bias) y = Softmax(l)""",
    ),
    "gemm": ("float[N,16] x", ROWS, "h = Gemm(x, left, row) r = Relu(h) y = Gemm(r, right)"),
    "matmul": ("float[N,16] x", ROWS, "h = MatMul(x, left) r = Relu(h) y = MatMul(r, right)"),
    "resize": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) r = Relu(c)
            p = Resize<mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric">(r, , double)
            y = {CONV}(p, w2)""",
    ),
    "pad": (
        IMAGE,
        ANY,
        f"c = {CONV}(x, w, b) r = Relu(c) s = Sigmoid(r) p = Pad(s, frame) y = {CONV}(p, w2)",
    ),
    "hard swish": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) a = Add(c, three) k6 = Clip(a, zero, six) p = Mul(c, k6) h = Div(p, six)
            y = {CONV}(h, w2)""",
    ),
    "leaky relu": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = LeakyRelu<alpha=0.1>(c) y = {CONV}(r, w2)"),
    "output convolution": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = Relu(c) y = {CONV}(r, w2)"),
    "split": (
        IMAGE,
        ANY,
        f"c = {CONV}(x, w, b) s, t = Split<axis=1>(c, halves) a = Concat<axis=1>(t, s) y = {CONV}(a, w2)",
    ),
    "scale and shift": (IMAGE, ANY, f"c = {CONV}(x, w, b) r = Relu(c) a = Mul(r, k) y = {CONV}(a, w2)"),
}

BRANCHES: dict[str, tuple[str, str, str]] = {
    "residual": (IMAGE, ANY, f"c = {CONV}(x, w, b) d = {CONV}(x, w3) a = Add(c, d) y = {CONV}(a, w2)"),
    "residual-relu": (
        IMAGE,
        ANY,
        f"c = {CONV}(x, w, b) r = Relu(c) d = {CONV}(r, w2, b) a = Add(r, d) y = Relu(a)",
    ),
    "sum of three": (
        IMAGE,
        ANY,
        f"c = {CONV}(x, w, b) d = {CONV}(x, w3) e = {CONV}(x, w3, b) a = Sum(c, d, e) y = {CONV}(a, w2)",
    ),
    "concat": (
        IMAGE,
        ANY,
        f"c = {CONV}(x, w, b) d = {CONV}(x, w3, b3) a = Concat<axis=1>(c, d) y = {CONV}(a, joint)",
    ),
    "concat of relu and linear": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) r = Relu(c) d = {CONV}(x, w3, b3) a = Concat<axis=1>(r, d)
            y = {CONV}(a, joint)""",
    ),
    "concat of relu6 and relu": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) r = Clip(c, zero, six) d = {CONV}(x, w3, b3) e = Relu(d)
            a = Concat<axis=1>(r, e) y = {CONV}(a, joint)""",
    ),
    "squeeze-excite": (
        IMAGE,
        ANY,
        f"""c = {CONV}(x, w, b) r = Relu(c) p = GlobalAveragePool(r) q = Conv(p, squeeze) s = Relu(q)
            t = Conv(s, excite, b) e = Sigmoid(t) a = Mul(r, e) y = {CONV}(a, w2)""",
    ),
    "silu": (IMAGE, ANY, f"c = {CONV}(x, w, b) s = Sigmoid(c) a = Mul(c, s) y = {CONV}(a, w2)"),
    "product with a bias": (
        "float[N,5,16] x",
        "float[A,B,C] y",
        "h = MatMul(x, left) a = Add(h, row) r = Relu(a) y = MatMul(r, right)",
    ),
}

NETWORKS = CHAINS | BRANCHES


def network(name: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    inputs, outputs, body = NETWORKS[name]
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    used = {key: array for key, array in ARRAYS.items() if key in words}
    proto = onnx_model(inputs, outputs, body, used)
    shape = [2 if dim.dim_param else dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    return proto, {"x": normal(*shape, seed=40)}


def optimized(model: onnx.ModelProto, path: Path, options: dict[str, str] | None = None) -> Counter[str]:
    """Ops of the graph as ONNX Runtime's optimizer leaves it."""
    settings = onnxruntime.SessionOptions()
    settings.optimized_model_filepath = str(path)
    settings.log_severity_level = 3
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    for key, value in (options or {}).items():
        settings.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return ops_in_file(path)


def float_layers(found: Counter[str]) -> dict[str, int]:
    return {op: count for op, count in found.items() if op in FLOAT_LAYERS}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_layer_runs_in_float_with_unsigned_codes(name: str, tmp_path: Path) -> None:
    proto, feeds = network(name)
    _, placement, result = quantized(proto, feeds, UINT8)
    assert {d.op_type for d in placement.decisions if not d.quantized} <= {"Softmax"}
    path = tmp_path / "optimized.onnx"
    session = open_session(result.model, threads=1, save_optimized=str(path))
    assert float_layers(ops_in_file(path)) == {}
    assert relative_difference(run(proto, feeds), session.run(feeds)) < 0.05


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CHAINS)
def test_no_layer_of_a_chain_runs_in_float_with_signed_codes(name: str, tmp_path: Path) -> None:
    proto, feeds = network(name)
    _, _, result = quantized(proto, feeds, INT8)
    assert float_layers(optimized(proto_of(result.model), tmp_path / "optimized.onnx")) == {}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", BRANCHES)
def test_no_layer_of_a_branching_net_runs_in_float_where_the_session_allows_signed_codes(
    name: str, tmp_path: Path
) -> None:
    """Left to itself, ONNX Runtime turns signed codes into unsigned ones on x86, but not behind a branch."""
    proto, feeds = network(name)
    _, _, result = quantized(proto, feeds, INT8)
    allowed = {"session.qdqisint8allowed": "1"}
    assert float_layers(optimized(proto_of(result.model), tmp_path / "optimized.onnx", allowed)) == {}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_a_layer_that_yields_only_zeros_is_fused_all_the_same(kind: str, tmp_path: Path) -> None:
    body = f"c = {CONV}(x, w, dead) r = Relu(c) y = {CONV}(r, w2)"
    constants = {"w": ARRAYS["w"], "w2": ARRAYS["w2"], "dead": np.full(8, -99, np.float32)}
    proto = onnx_model(IMAGE, ANY, body, constants)
    feeds = {"x": normal(2, 3, 16, 16, seed=40)}
    _, _, result = quantized(proto, feeds, UINT8.with_activations(kind))
    assert float_layers(optimized(proto_of(result.model), tmp_path / "optimized.onnx")) == {}
    np.testing.assert_array_equal(run(result.model, feeds)[0], 0.0)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_a_transposed_convolution_is_float_in_this_runtime_but_its_neighbours_are_not(
    kind: str, tmp_path: Path
) -> None:
    body = f"c = {CONV}(x, w, b) r = Relu(c) t = ConvTranspose<strides=[2,2]>(r, up) y = {CONV}(t, w2)"
    constants = {key: ARRAYS[key] for key in ("w", "b", "up", "w2")}
    proto = onnx_model(IMAGE, ANY, body, constants)
    feeds = {"x": normal(2, 3, 16, 16, seed=40)}
    _, _, result = quantized(proto, feeds, UINT8.with_activations(kind))
    path = tmp_path / "optimized.onnx"
    session = open_session(result.model, threads=1, save_optimized=str(path))
    found = ops_in_file(path)
    assert float_layers(found) == {"ConvTranspose": 1} and found["QLinearConv"] == 2
    assert relative_difference(run(proto, feeds), session.run(feeds)) < 0.05


@pytest.mark.one_in(3)
@pytest.mark.parametrize("limit", [6.0, 1.3, 1.9, 4.7, 6.1, 7.7, 8.9])
@pytest.mark.parametrize("share", [1.0, 0.83, 0.31])
def test_a_clip_is_dropped_whatever_its_limit_and_its_range(
    limit: float, share: float, tmp_path: Path
) -> None:
    body = f"c = {CONV}(x, w, b) r = Clip(c, zero, limit) y = {CONV}(r, w2)"
    constants = {key: ARRAYS[key] for key in ("w", "b", "w2", "zero")}
    proto = onnx_model(IMAGE, ANY, body, {**constants, "limit": np.float32(limit)})
    feeds = {"x": normal(2, 3, 16, 16, seed=40) * np.float32(3)}
    top = float(np.float32(limit)) * share
    _, _, result = quantized(proto, feeds, UINT8, {"r": (0.0, top)})
    found = optimized(proto_of(result.model), tmp_path / "optimized.onnx")
    assert float_layers(found) == {} and found["Clip"] == 0
    assert result.qparams["r"].scale == pytest.approx(top / 255, rel=1e-6)


@pytest.mark.parametrize("name", ["residual-relu", "classifier", "concat", "silu"])
def test_the_fused_graph_computes_what_the_graph_says(name: str) -> None:
    """Integer kernels and the plain reading of Q/DQ may differ by one step of the output's code."""
    proto, feeds = network(name)
    _, _, result = quantized(proto, feeds, UINT8)
    [plain] = run(result.model, feeds)
    [fused] = open_session(result.model, threads=1).run(feeds)
    step = result.qparams["y"].scale if "y" in result.qparams else 1e-3 * float(np.max(np.abs(plain)))
    assert np.max(np.abs(plain - fused)) <= 2.001 * step
    assert np.mean(np.abs(plain - fused) > 0.5 * step) < 0.02
