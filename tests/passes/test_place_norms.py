"""Placement of LayerNormalization: codes around it for the engine, float for runtimes that compute it so."""

from __future__ import annotations

import numpy as np
import pytest
from place_nets import CONV, ORT, carriers, image, reasons

from calib8.model.infer_shapes import infer_shapes
from calib8.ops.groups import PAIR_OPS, TARGET_OPS
from calib8.passes.place import calibration_tensors, place
from calib8.scheme import TARGETS
from small_models import Array, graph, normal

CALIB8 = TARGETS["calib8"]
ROWS = """a = {conv}(x, w) t = Transpose<perm=[0,2,3,1]>(a) {norm}
          b = Transpose<perm=[0,3,1,2]>(n) y = {conv}(b, v)"""
PARAMETERS: dict[str, Array] = {"g": normal(4, seed=3), "h": normal(4, seed=4)}


def rows(norm: str = "n = LayerNormalization(t, g, h)") -> str:
    return ROWS.format(conv=CONV, norm=norm)


def test_the_engine_gets_codes_on_both_sides_and_moves_them() -> None:
    model = image(rows(), PARAMETERS)
    placement = place(model, CALIB8)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "t", "n", "b", "y"]


@pytest.mark.parametrize("target", sorted(TARGETS.keys() - {"calib8"}))
def test_other_targets_compute_it_in_float(target: str) -> None:
    told = reasons(place(image(rows(), PARAMETERS), TARGETS[target]))
    assert told["n"] == "the target computes it in float"
    assert TARGETS[target].computes == frozenset()


def test_what_only_moves_floats_for_it_stays_float_there() -> None:
    model = image(rows(), PARAMETERS)
    assert reasons(place(model, ORT))["t"] == "only float nodes read it"
    assert carriers(model, place(model, ORT)) == ["x", "a", "n", "b", "y"]


def test_a_table_has_the_ranges_that_the_engine_needs() -> None:
    model = image(rows(), PARAMETERS)
    assert calibration_tensors(model) == ("x", "a", "t", "n", "b", "y")


def test_the_engine_computes_all_ops_that_some_targets_compute() -> None:
    rows = {"LayerNormalization", "RMSNormalization", "LpNormalization"}
    assert rows | {"InstanceNormalization", "GroupNormalization", "ReduceL2"} == TARGET_OPS
    assert CALIB8.computes == TARGET_OPS | PAIR_OPS and "Div" in PAIR_OPS


FLOATS: dict[str, tuple[str, dict[str, Array], str]] = {
    "two axes": (
        "n = LayerNormalization<axis=2>(t, m)", {"m": normal(2, 4)},
        "its scale or its bias is float32 of shape [2, 4]",
    ),
    "its mean": (
        "n, k = LayerNormalization(t, g) z = Relu(k)", {"g": normal(4)}, "its mean or its spread is read"
    ),
    "computed": (
        "s = ReduceMax<axes=[0,1,2],keepdims=0>(t) n = LayerNormalization(t, s)", {},
        "its scale or its bias is computed",
    ),
    "a scale of another type": (
        "n = LayerNormalization(t, g, h)", {"g": np.ones((1, 4), np.float32)[..., None], "h": normal(4)},
        r"its scale or its bias is float32 of shape [1, 4, 1]",
    ),
    "NaN": (
        "n = LayerNormalization(t, g, h)", {"g": np.full(4, np.nan, np.float32), "h": normal(4)},
        "its scale or its bias holds NaN or Inf",
    ),
    "infinite bias": (
        "n = LayerNormalization(t, g, h)", {"g": normal(4), "h": np.full(4, np.inf, np.float32)},
        "its scale or its bias holds NaN or Inf",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_what_stays_float_says_why(name: str) -> None:
    norm, constants, reason = FLOATS[name]
    outputs = "float[A,B,C,D] y, float[E,F,G,H] z" if "z = " in norm else "float[A,B,C,D] y"
    assert reasons(place(image(rows(norm), constants, outputs), CALIB8))["n"] == reason


@pytest.mark.parametrize("norm", ["<axis=1>(t, m)", "<axis=-3>(t, m, m)", "<axis=2>(t, k)"])
def test_several_axes_have_codes_too(norm: str) -> None:
    constants: dict[str, Array] = {"m": normal(8, 8, 4)} if "m" in norm else {"k": normal(8, 4)}
    model = image(rows(f"n = LayerNormalization{norm}"), constants)
    assert reasons(place(model, CALIB8)) == {}


@pytest.mark.parametrize(
    ("norm", "reason"),
    [
        ("RMSNormalization(t, g)", None),
        ("LpNormalization(t)", None),
        ("LpNormalization<axis=1>(t)", None),
        ("LpNormalization<p=1>(t)", "it adds up magnitudes, not squares"),
        ("RMSNormalization<axis=2>(t, m)", "its scale or its bias is float32 of shape [3, 4]"),
    ],
)
def test_rows_around_0(norm: str, reason: str | None) -> None:
    constants: dict[str, Array] = {"w": normal(4, 4, 3, 3), "v": normal(4, 4, 3, 3, seed=1)}
    constants |= {"g": normal(4)} if "g)" in norm else {"m": normal(3, 4)} if "m)" in norm else {}
    model = graph("float[N,4,8,8] x", "float[A,B,C,D] y", rows(f"n = {norm}"), constants, opset=23)
    infer_shapes(model)
    assert reasons(place(model, CALIB8)).get("n") == reason


def test_rows_longer_than_sums_may_be_stay_float() -> None:
    body = f"a = {CONV}(x, w) n = LayerNormalization<axis=1>(a, g) y = {CONV}(n, v)"
    weights = {"w": normal(2, 1, 3, 3), "v": normal(1, 2, 3, 3), "g": normal(1)}
    model = graph("float[1,1,200,200] x", "float[A,B,C,D] y", body, weights)
    assert reasons(place(model, CALIB8))["n"] == "it normalizes 80000 values at once"


def test_the_user_may_keep_it_in_float() -> None:
    told = reasons(place(image(rows(), PARAMETERS), CALIB8, frozenset({"n"})))
    assert told["n"] == "the user keeps it in float"
    assert told["t"] == "only float nodes read it"
