"""Placement of InstanceNormalization and GroupNormalization, and of the latter spelled out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from place_nets import CONV, ORT, carriers, image, reasons

from bits import assert_same_bits
from calib8.model.infer_shapes import infer_shapes
from calib8.model.load import load_model
from calib8.passes.norm_chains import norm_chain, norm_chains
from calib8.passes.place import calibration_tensors, place
from calib8.program.lower import lower
from calib8.scheme import TARGETS
from small_models import Array, graph, normal, run
from small_nets import Net, int8_forms

CALIB8 = TARGETS["calib8"]
SPELLED = f"""a = {CONV}(x, w) s = Reshape(a, split) i = InstanceNormalization(s, one, none)
              j = Reshape(i, join) m = Mul(j, g) n = Add(m, h) y = {CONV}(n, v)"""
SHAPES: dict[str, Array] = {"split": np.array([0, 2, -1]), "join": np.array([0, 4, 8, 8])}
PARAMETERS: dict[str, Array] = {
    **SHAPES,
    "one": np.ones(2, np.float32),
    "none": np.zeros(2, np.float32),
    "g": normal(4, 1, 1, seed=3),
    "h": normal(4, 1, 1, seed=4),
}


def test_between_its_nodes_there_are_no_codes() -> None:
    model = image(SPELLED, PARAMETERS)
    placement = place(model, CALIB8)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "s", "n", "y"]
    assert placement.chains == (("i", "j", "m", "n"),)


def test_other_targets_have_codes_wherever_they_had() -> None:
    model = image(SPELLED, PARAMETERS)
    told = reasons(place(model, ORT))
    assert told["i"] == "the target computes it in float"
    assert norm_chains(model, ORT.computes) == ()
    assert "m" not in told or "n" not in told


def test_a_table_has_the_ranges_that_all_targets_need() -> None:
    model = image(SPELLED, PARAMETERS)
    tensors = calibration_tensors(model)
    for target in TARGETS.values():
        assert set(place(model, target).readers) <= set(tensors)


def test_a_node_in_float_takes_the_others_along() -> None:
    told = reasons(place(image(SPELLED, PARAMETERS), CALIB8, frozenset({"m"})))
    assert told["m"] == "the user keeps it in float"
    assert all(told[name].startswith("computed as one with") for name in ("i", "n"))


def test_a_function_behind_it_is_one_of_its_own() -> None:
    body = SPELLED.replace(f"y = {CONV}(n, v)", f"p = Sigmoid(n) q = Mul(n, p) y = {CONV}(q, v)")
    model = image(body, PARAMETERS)
    placement = place(model, CALIB8)
    assert placement.chains == (("i", "j", "m", "n"), ("p", "q"))
    assert carriers(model, placement) == ["x", "a", "s", "n", "q", "y"]


def test_scales_and_biases_become_those_of_channels() -> None:
    constants = {**PARAMETERS, "one": np.float32([2, 3]), "none": np.float32([-1, 5])}
    model = image(SPELLED, constants)
    (chain,) = norm_chains(model, CALIB8.computes)
    scale, bias = constants["g"].reshape(-1), constants["h"].reshape(-1)
    np.testing.assert_allclose(chain.scale, np.float64([2, 2, 3, 3]) * scale)
    np.testing.assert_allclose(chain.bias, np.float64([-1, -1, 5, 5]) * scale + bias)
    assert chain.groups == 2 and chain.whole.name == "a"


@pytest.mark.parametrize(
    "changes",
    [
        {"split": np.array([0, 4, -1])},
        {"join": np.array([0, 8, 4, 8])},
        {"g": normal(4, 8, 8), "h": normal(4, 8, 8)},
        {"g": normal(8), "h": normal(8, 8)},
    ],
)
def test_what_only_looks_like_it_is_none(changes: dict[str, Array]) -> None:
    constants = {**PARAMETERS, **changes}
    groups = int(np.asarray(constants["split"])[1])
    constants |= {"one": np.ones(groups, np.float32), "none": np.zeros(groups, np.float32)}
    body = SPELLED.replace(f"y = {CONV}(n, v)", "y = Relu(n)")
    model = graph("float[2,4,8,8] x", "float[A,B,C,D] y", body, {"w": normal(4, 4, 3, 3), **constants})
    found = [norm_chain(node) for node in model.graph]
    looks = groups == 4  # one channel in each group
    assert all(chain is None for chain in found) is not looks


@pytest.mark.parametrize(
    "op", ["InstanceNormalization(a, g, h)", "GroupNormalization<num_groups=2>(a, g, h)"]
)
def test_codes_are_on_both_sides(op: str) -> None:
    body = f"a = {CONV}(x, w) n = {op} y = {CONV}(n, v)"
    constants = {"w": normal(4, 4, 3, 3), "v": normal(4, 4, 3, 3), "g": normal(4), "h": normal(4)}
    model = graph("float[N,4,8,8] x", "float[A,B,C,D] y", body, constants, opset=21)
    infer_shapes(model)
    placement = place(model, CALIB8)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "n", "y"]
    for name in TARGETS.keys() - {"calib8"}:
        assert reasons(place(model, TARGETS[name]))["n"] == "the target computes it in float"


FLOATS: dict[str, tuple[dict[str, Array], str]] = {
    "NaN": ({"g": np.full(4, np.nan, np.float32)}, "its scale or its bias holds NaN or Inf"),
    "too few": ({"g": normal(3)}, "its scale or its bias is float32 of shape [3]"),
    "doubles": ({"g": np.ones(4)}, "its scale or its bias is float64 of shape [4]"),
}


@pytest.mark.parametrize("name", FLOATS)
def test_what_stays_float_says_why(name: str) -> None:
    changes, reason = FLOATS[name]
    body = f"a = {CONV}(x, w) n = InstanceNormalization(a, g, h) y = {CONV}(n, v)"
    model = image(body, {"g": normal(4), "h": normal(4)})
    for constant, array in changes.items():
        model.graph.initializers[constant].const_value = ir.Tensor(np.asarray(array))
    assert reasons(place(model, CALIB8))["n"] == reason


def test_images_larger_than_sums_may_be_stay_float() -> None:
    body = "a = Conv(x, w) n = InstanceNormalization(a, g, h) y = Conv(n, w)"
    constants = {"w": normal(1, 1, 1, 1), "g": normal(1), "h": normal(1)}
    model = graph("float[N,1,4096,2049] x", "float[A,B,C,D] y", body, constants)
    assert reasons(place(model, CALIB8))["n"] == "it normalizes 8392704 values at once"


def net_of(spelled: bool) -> onnx.ModelProto:
    """A layer, a GroupNormalization of two groups or an InstanceNormalization, SiLU, a layer."""
    net = Net()
    y = net.conv("x", 4, 8, name="stem")
    if spelled:
        y = net.op("Reshape", y, net.const([0, 2, -1], np.int64), name="split")
        y = net.op("InstanceNormalization", y, net.const(np.ones(2)), net.const(np.zeros(2)), name="norm")
        y = net.op("Reshape", y, net.const([0, 8, 8, 8], np.int64), name="join")
        y = net.op("Add", net.op("Mul", y, net.weight(8, 1, 1)), net.weight(8, 1, 1), name="shift")
    else:
        y = net.op("InstanceNormalization", y, net.weight(8), net.weight(8), name="norm")
    return net.model(net.conv(net.op("Mul", y, net.op("Sigmoid", y)), 8, 2, name="last"))


@pytest.mark.parametrize("spelled", [True, False])
def test_a_network_has_no_float_part_and_is_near_the_float_model(spelled: bool) -> None:
    proto, x = net_of(spelled), normal(1, 4, 8, 8)
    (wanted,) = run(proto, {"x": x})
    for target, coded in int8_forms(proto, ("calib8", "onnxruntime", "tflite", "tensorrt")).items():
        assert np.abs(run(coded, {"x": x})[0] - wanted).max() < 0.05 * np.ptp(wanted)
        if target == "calib8":
            program = lower(load_model(coded))
            kinds = Counter(type(step).__name__ for step in program.instructions)
            assert kinds["GroupNorm"] == 1 and kinds["Float"] == kinds["Transpose"] == 0
            assert_same_bits(program)
