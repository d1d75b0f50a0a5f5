"""The scoring graph: errors behind the readers of a tensor equal those of running each reader by itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from outlier_nets import activations, coded

from calib8.autorange import probe as module
from calib8.autorange.probe import probe_model
from calib8.model.runtime import open_session
from calib8.qparams import INT8_SYMMETRIC, UINT8, QParams, dequantize, quantize
from calib8.scheme import TARGETS
from small_models import graph, normal, run

FINE, COARSE, NARROW = QParams(0.02, 128), QParams(0.1, 128), QParams(0.005, 100)
CANDIDATES = [FINE, COARSE, NARROW]

READERS = {
    "layer and its relu": ("float[1,6,5,5] y", "c = Conv(x, w) y = Relu(c)", ["y"]),
    "two readers": ("float[1,6,3,3] y, float[1,4,5,5] z", "y = Conv(x, w3) z = Sigmoid(x)", ["y", "z"]),
    "addition": ("float[1,4,5,5] y", "s = Sigmoid(x) y = Add(s, x)", ["s", "y"]),
    "square": ("float[1,4,5,5] y", "y = Mul(x, x)", ["y"]),
    "scaled by a pool": (
        "float[1,4,5,5] y", "p = GlobalAveragePool(x) y = Mul(x, p)", ["p", "y"],
    ),
    "concat": ("float[1,8,5,5] y", "s = Sigmoid(x) y = Concat<axis = 1>(x, s)", ["s", "y"]),
    "reshape": ("float[1,100] y", "y = Reshape(x, shape)", ["y"]),
    "per-channel constant": ("float[1,4,5,5] y", "y = Mul(x, k)", ["y"]),
    "padding": ("float[1,4,7,7] y", "y = Pad(x, pads)", ["y"]),
    "an output alone": ("float[1,4,5,5] x_", "x_ = Identity(x)", ["x_"]),
}  # fmt: skip
CONSTANTS = {
    "w": normal(6, 4, 1, 1, seed=1),
    "w3": normal(6, 4, 3, 3, seed=2),
    "shape": np.array([1, 100], np.int64),
    "k": normal(1, 4, 1, 1, seed=3),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
}


def net(case: str) -> ir.Model:
    outputs, body, _ = READERS[case]
    used = {name: array for name, array in CONSTANTS.items() if name in body.replace("(", " ").replace(
        ")", " ").replace(",", " ").split()}  # fmt: skip
    return graph("float[1,4,5,5] x", outputs, body, used)


def expected_errors(model: ir.Model, feeds: dict, compared: list[str]) -> tuple[list[float], list[float]]:
    """Per compared tensor and candidate: the error when x is coded and everything else it reads is not."""
    plain = activations(model, feeds)
    errors, signals = [], []
    for name in compared:
        node = next(node for node in model.graph if node.outputs[0].name == name)
        reader = node
        while all(value is None or value.name != "x" for value in reader.inputs):
            reader = reader.inputs[0].producer()  # type: ignore[union-attr, assignment]
        for q in CANDIDATES:
            values = {**plain, "x": coded(feeds["x"], q)}
            step = reader
            while True:
                values[step.outputs[0].name or ""] = _computed(model, step, values)
                if step is node:
                    break
                step = step.outputs[0].uses()[0].node
            difference = values[name].astype(np.float64) - plain[name]
            errors.append(float(np.sum(difference**2)))
        signals.append(float(np.sum(plain[name].astype(np.float64) ** 2)))
    return errors, signals


def _computed(model: ir.Model, node: ir.Node, values: dict) -> np.ndarray:
    """One node run by itself."""
    copy = model.clone()
    twin = next(other for other in copy.graph if other.name == node.name)
    inputs = [value for value in twin.inputs if value is not None and value.const_value is None]
    copy.graph.outputs.clear()
    copy.graph.outputs.append(twin.outputs[0])
    copy.graph.inputs.clear()
    for value in dict.fromkeys(inputs):
        fresh = ir.Value(name=f"fed_{value.name}", type=value.type, shape=value.shape)
        copy.graph.inputs.append(fresh)
        for index, old in enumerate(twin.inputs):
            if old is value:
                twin.replace_input_with(index, fresh)
    for other in list(copy.graph):
        if other is not twin:
            copy.graph.remove(other, safe=False)
    feeds = {f"fed_{value.name}": values[value.name] for value in dict.fromkeys(inputs)}
    return run(copy, feeds)[0]


@pytest.mark.parametrize("case", READERS)
def test_errors_are_those_of_each_reader_alone(case: str) -> None:
    model, feeds = net(case), {"x": normal(1, 4, 5, 5)}
    probe = probe_model(model, {"x": CANDIDATES}, UINT8)
    errors, signals = open_session(probe.model).run(feeds)
    wanted, energy = expected_errors(model, feeds, READERS[case][2])
    order = np.argsort([r.first for r in probe.readings])
    assert [probe.readings[i].tensor for i in order] == ["x"] * len(READERS[case][2])
    assert sorted(signals) == pytest.approx(sorted(energy), rel=1e-4)
    assert sorted(errors) == pytest.approx(sorted(wanted), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("together", [1, 250])
@pytest.mark.parametrize("case", READERS)
def test_splitting_the_candidates_changes_no_error(
    case: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, feeds = net(case), {"x": normal(1, 4, 5, 5)}
    whole = open_session(probe_model(model, {"x": CANDIDATES}, UINT8).model).run(feeds)
    monkeypatch.setattr(module, "TOGETHER", together)
    probe = probe_model(model, {"x": CANDIDATES}, UINT8)
    for found, expected in zip(open_session(probe.model).run(feeds), whole, strict=True):
        assert found == pytest.approx(expected, rel=1e-5)


def joined(model: ir.Model) -> list[int]:
    """How many copies go through each copy of the layer at once."""
    convolutions = [node for node in model.graph if node.op_type == "Conv" and node.name.startswith("calib8")]
    makers = [node.inputs[0].producer() for node in convolutions]  # type: ignore[union-attr]
    return [len(maker.inputs) if maker.op_type == "Concat" else 1 for maker in makers]  # type: ignore[union-attr]


def test_large_tensors_and_those_of_unknown_size_are_never_joined() -> None:
    outputs, body = "float[N,6,H,W] y", "y = Conv(x, w)"
    sizes = {"float[N,4,5,5] x": [3], "float[N,4,300,200] x": [1] * 3, "float[N,4,100,200] x": [2, 1]}
    for inputs, expected in {**sizes, "float[N,4,H,W] x": [1] * 3}.items():
        shape = inputs.removesuffix(" x").replace("4,", "6,")
        model = graph(inputs, f"{shape} y" if "H" not in shape else outputs, body, {"w": CONSTANTS["w"]})
        assert joined(probe_model(model, {"x": CANDIDATES}, UINT8).model) == expected, inputs


def test_a_tensor_without_reader_is_compared_itself() -> None:
    model = graph("float[1,4,5,5] x", "float[1,6,5,5] y", "y = Conv(x, w)", {"w": CONSTANTS["w"]})
    feeds = {"x": normal(1, 4, 5, 5)}
    errors, _ = open_session(probe_model(model, {"y": CANDIDATES}, UINT8).model).run(feeds)
    [plain] = run(model, feeds)
    wanted = [float(np.sum((coded(plain, q).astype(np.float64) - plain) ** 2)) for q in CANDIDATES]
    assert errors == pytest.approx(wanted, rel=1e-3)


def test_symmetric_codes_are_signed() -> None:
    model = graph("float[1,4,5,5] x", "float[1,6,5,5] y", "y = Conv(x, w)", {"w": CONSTANTS["w"]})
    feeds = {"x": normal(1, 4, 5, 5)}
    candidates = [QParams(0.05, 0), QParams(0.01, 0)]
    errors, _ = open_session(probe_model(model, {"x": candidates}, INT8_SYMMETRIC).model).run(feeds)
    [plain] = run(model, feeds)
    for error, q in zip(errors, candidates, strict=True):
        values = dequantize(quantize(feeds["x"], q.scale, 0, INT8_SYMMETRIC), q.scale, 0)  # type: ignore[arg-type]
        [other] = run(model, {"x": values})
        assert error == pytest.approx(float(np.sum((other.astype(np.float64) - plain) ** 2)), rel=1e-3)


def test_a_batch_that_a_model_fixes_is_scored_as_one_run() -> None:
    body, weights = "c = Conv(x, w) y = Relu(c)", {"w": CONSTANTS["w"]}
    model = graph("float[3,4,5,5] x", "float[3,6,5,5] y", body, weights)
    feeds = {"x": normal(3, 4, 5, 5)}
    errors, signals = open_session(probe_model(model, {"x": CANDIDATES}, UINT8).model).run(feeds)
    [plain] = run(model, feeds)
    others = [run(model, {"x": coded(feeds["x"], q)})[0] for q in CANDIDATES]
    assert signals[0] == pytest.approx(float(np.sum(plain.astype(np.float64) ** 2)), rel=1e-4)
    wanted = [float(np.sum((other.astype(np.float64) - plain) ** 2)) for other in others]
    assert errors == pytest.approx(wanted, rel=1e-3)


def test_the_model_is_left_as_it_was() -> None:
    model = net("two readers")
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    probe_model(model, {"x": CANDIDATES}, UINT8)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


CHAINS = {
    "one after the other": "h = HardSwish(x) m = Mul(h, k) n = Add(m, k) y = Conv(n, w)",
    "SiLU": "h = Sigmoid(x) n = Mul(x, h) y = Conv(n, w)",
    "Mish": "h = Softplus(x) m = Tanh(h) n = Mul(x, m) y = Conv(n, w)",
    "GELU": "d = Div(x, k) h = Erf(d) a = Add(h, k) m = Mul(x, a) n = Mul(m, k) y = Conv(n, w)",
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("together", [1, 250, module.TOGETHER])
def test_functions_computed_as_one_are_compared_behind_the_last(
    name: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOGETHER", together)
    constants = {key: CONSTANTS[key] for key in "wk" if f", {key})" in CHAINS[name]}
    model = graph("float[1,4,5,5] x", "float[1,6,5,5] y", CHAINS[name], constants)
    feeds = {"x": normal(1, 4, 5, 5)}
    values = [activations(model, {"x": coded(feeds["x"], q)}) for q in CANDIDATES]
    plain = activations(model, feeds)
    probe = probe_model(model, {"x": CANDIDATES}, UINT8, target=TARGETS["onnxruntime"])
    errors, signals = open_session(probe.model).run(feeds)
    wanted = [float(np.sum(np.square(found["n"].astype(np.float64) - plain["n"]))) for found in values]
    assert errors == pytest.approx(wanted, rel=1e-3)
    assert signals == pytest.approx([float(np.sum(np.square(plain["n"])))], rel=1e-4)


def test_targets_with_codes_beside_every_op_compare_each_reader() -> None:
    model = graph("float[1,4,5,5] x", "float[1,6,5,5] y", CHAINS["SiLU"], {"w": CONSTANTS["w"]})
    for target, readers in (("onnxruntime", 1), ("tflite", 2)):
        probe = probe_model(model, {"x": CANDIDATES}, UINT8, target=TARGETS[target])
        assert len(probe.readings) == readers
