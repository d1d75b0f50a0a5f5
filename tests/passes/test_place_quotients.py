"""Placement of quotients and lengths: codes around them for the engine, none before a divisor."""

from __future__ import annotations

import numpy as np
import pytest
from place_nets import CONV, carriers, image, reasons

from calib8.passes.place import calibration_tensors, place
from calib8.passes.quotients import quotient_chains
from calib8.scheme import TARGETS
from small_models import Array, normal

CALIB8 = TARGETS["calib8"]
SMALL = np.array(1e-6, np.float32)
CONSTANTS: dict[str, Array] = {"e": SMALL, "g": normal(1, 4, 1, 1)}
RESPONSE = f"""a = {CONV}(x, w) l = ReduceL2<axes=[2,3]>(a) m = ReduceMean<axes=[1]>(l) s = Add(m, e)
               q = Div(l, s) p = Mul(a, q) y = {CONV}(p, v)"""


def quotient(before: str, divisor: str, end: str = f"y = {CONV}(q, v)") -> str:
    """A layer divided by what is made of another one."""
    return f"a = {CONV}(x, w) b = GlobalAveragePool(a) {before} q = Div(a, {divisor}) {end}"


def test_a_response_normalization_is_codes_throughout() -> None:
    model = image(RESPONSE, {"e": SMALL})
    placement = place(model, CALIB8)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "l", "m", "q", "p", "y"]
    assert placement.chains == (("s", "q"),)
    assert calibration_tensors(model) == ("x", "a", "l", "m", "s", "q", "p", "y")


@pytest.mark.parametrize("target", sorted(TARGETS.keys() - {"calib8"}))
def test_other_targets_compute_it_in_float(target: str) -> None:
    told = reasons(place(image(RESPONSE, {"e": SMALL}), TARGETS[target]))
    assert told["l"] == "the target computes it in float"
    assert told["q"] in ("the target computes it in float", "it is not a function of one tensor")


@pytest.mark.parametrize("before, divisor, inside", [
    ("", "b", []),
    ("s = Add(b, e)", "s", ["s"]),
    ("r = Sqrt(b) s = Max(r, e)", "s", ["r", "s"]),
    ("s = Clip(b, e)", "s", ["s"]),
    ("t = Add(b, e) r = Sqrt(t) s = Max(r, e)", "s", ["t", "r", "s"]),
    ("s = Add(b, g)", "s", []),
    ("s = Add(b, e) t = Relu(s)", "s", []),
    ("s = Exp(b)", "s", []),
])  # fmt: skip
def test_what_stands_before_a_divisor(before: str, divisor: str, inside: list[str]) -> None:
    """Functions with one number that nobody else reads; no codes follow them."""
    end = f"y = {CONV}(q, v)" + (f" z = {CONV}(t, v)" if "Relu" in before else "")
    outputs = "float[A,B,C,D] y, float[E,F,G,H] z" if "Relu" in before else "float[A,B,C,D] y"
    used = {name: array for name, array in CONSTANTS.items() if f", {name})" in before}
    body = quotient(before, divisor, end).replace("GlobalAveragePool(a)", f"{CONV}(a, v)")
    model = image(body, used, outputs)
    placement = place(model, CALIB8)
    assert "q" not in reasons(placement)
    chains = [chain for chain in placement.chains if chain[-1] == "q"]
    assert chains == ([(*inside, "q")] if inside else [])
    assert not set(inside) & set(placement.readers)


def test_a_function_of_one_tensor_stays_one() -> None:
    """x / (1 + exp(−x)) is a table, not a quotient."""
    body = f"a = {CONV}(x, w) n = Neg(a) h = Exp(n) s = Add(h, o) q = Div(a, s) y = {CONV}(q, v)"
    model = image(body, {"o": np.array(1, np.float32)})
    assert quotient_chains(model, CALIB8.computes) == ()
    assert reasons(place(model, CALIB8)) == {}


def test_a_quotient_behind_the_last_layer_stays_float() -> None:
    placement = place(
        image(f"a = {CONV}(x, w) b = {CONV}(x, v) s = Add(b, e) y = Div(a, s)", {"e": SMALL}), CALIB8
    )
    assert reasons(placement)["y"] == "it is post-processing behind the last weighted layer"
