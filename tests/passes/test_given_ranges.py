"""Ranges that the user gave stay as they are through everything that the graph tells; powers of two too."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from calib8.calibration.decide import one_sided_power_of_two
from calib8.errors import TableError
from calib8.passes.place import place
from calib8.passes.resolve_ranges import Rounding, resolve_ranges
from calib8.qparams import activation_qparams
from calib8.scheme import TARGETS, QuantScheme
from calib8.table import GIVEN, CalibrationTable, Range, TableEntry
from small_models import graph, normal

ORT = TARGETS["onnxruntime"]
CONV = "Conv<pads=[1,1,1,1]>"
NUMBERS = {
    "w": normal(4, 4, 3, 3),
    "v": normal(4, 8, 3, 3),
    "zero": np.float32(0),
    "six": np.float32(6),
    "amounts": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
}
Bounds = Mapping[str, tuple[float, float]]


def image(body: str) -> ir.Model:
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    chosen = {name: array for name, array in NUMBERS.items() if name in words}
    return graph("float[N,4,8,8] x", "float[A,B,C,D] y", body, chosen)


def resolved(
    body: str, seen: Bounds, given: Bounds, scheme: QuantScheme = ORT, rounding: Rounding | None = None
) -> dict[str, tuple[float, float]]:
    """Final ranges where every tensor not named in ``seen`` or ``given`` was seen in [−1, 1]."""
    model = image(body)
    placement = place(model, scheme)
    entries = {}
    for name in placement.readers:
        chosen = Range(*(given.get(name) or seen.get(name, (-1.0, 1.0))))
        method = GIVEN if name in given else "minmax"
        entries[name] = TableEntry(chosen, method, 0.0, 1, 0, chosen)
    found = resolve_ranges(model, placement, CalibrationTable("", entries), scheme, rounding)
    return {name: (chosen.min, chosen.max) for name, chosen in found.items()}


def test_fixed_ranges_give_way() -> None:
    body = f"a = {CONV}(x, w) s = Sigmoid(a) y = {CONV}(s, w)"
    assert resolved(body, {}, {"s": (0.0, 0.5)})["s"] == (0.0, 0.5)
    assert resolved(body, {}, {"a": (0.0, 0.5)})["s"] == (0.0, 1 - 1 / 256)


POOL = f"a = {CONV}(x, w) s = Sigmoid(a) m = Mul(a, s) p = MaxPool<kernel_shape=[2,2]>(m) y = {CONV}(p, w)"
TAPPED = POOL.replace("Mul(a, s)", "Mul(x, s)")
"""The result of Sigmoid has codes of its own."""


def test_a_given_range_is_not_replaced_by_the_one_behind_it_and_goes_on_to_it() -> None:
    found = resolved(POOL, {"p": (-3.0, 3.0)}, {"m": (-2.0, 5.0)})
    assert found["m"] == found["p"] == (-2.0, 5.0)


def test_a_given_range_is_handed_up() -> None:
    found = resolved(POOL, {"m": (-9.0, 9.0)}, {"p": (-2.0, 5.0)})
    assert found["m"] == found["p"] == (-2.0, 5.0)


def test_padding_does_not_widen_it() -> None:
    body = f"a = {CONV}(x, w) r = Relu(a) p = Pad(r, amounts, six) y = {CONV}(p, w)"
    assert resolved(body, {}, {"r": (0.0, 3.0)})["p"] == (0.0, 3.0)


def test_two_given_ranges_where_there_is_one_scale_contradict_each_other() -> None:
    same = resolved(POOL, {}, {"m": (-2.0, 5.0), "p": (-2.0, 5.0)})
    assert same["m"] == same["p"] == (-2.0, 5.0)
    with pytest.raises(TableError, match=r"^[mp]: was given \[-2, [45]\], but shares its scale with '[mp]'"):
        resolved(POOL, {}, {"m": (-2.0, 5.0), "p": (-2.0, 4.0)})


def test_given_ranges_that_begin_elsewhere_contradict_each_other_too() -> None:
    with pytest.raises(TableError, match=r"^[mp]: was given \[-[23], 5\], but shares its scale with '[mp]'"):
        resolved(POOL, {}, {"m": (-2.0, 5.0), "p": (-3.0, 5.0)})


JOIN = f"a = {CONV}(x, w) b = {CONV}(x, w) c = Concat<axis=1>(a, b) y = {CONV}(c, v)"


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_concat_does_not_spread_it_where_scales_may_differ(name: str) -> None:
    seen = {"a": (-1.0, 1.0), "b": (-1.5, 1.5), "c": (-1.5, 1.5)}
    found = resolved(JOIN, seen, {name: (-1.2, 1.2)})
    assert found[name] == (-1.2, 1.2)
    others = {found[other] for other in "abc" if other != name}
    assert (-1.2, 1.2) not in others


def test_a_concat_that_must_share_takes_it() -> None:
    found = resolved(JOIN, {"b": (-9.0, 9.0)}, {"a": (-1.2, 1.2)}, TARGETS["tengine"])
    assert found["a"] == found["b"] == found["c"] == (-1.2, 1.2)


ALL = f"""a = {CONV}(x, w) r = Clip(a, zero, six) p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(r)
          b = {CONV}(x, w) s = Sigmoid(b) m = Mul(b, s) c = Concat<axis=1>(p, m) y = {CONV}(c, v)"""


@pytest.mark.parametrize("target", TARGETS)
def test_shared_handed_up_and_fixed_scales_are_powers_of_two(target: str) -> None:
    seen = {"x": (-2.1, 2.6), "a": (-3.0, 7.0), "r": (0.0, 5.3), "p": (0.0, 4.9), "m": (-0.3, 5.1),
            "b": (-4.0, 5.2), "c": (-0.3, 5.1), "y": (-17.0, 3.0)}  # fmt: skip
    scheme = TARGETS[target]
    plain = resolved(ALL, seen, {}, scheme)
    found = resolved(ALL, seen, {}, scheme, one_sided_power_of_two)
    assert set(found) == set(plain)
    for name, (low, high) in found.items():
        q = activation_qparams(low, high, scheme.activations)
        assert math.frexp(q.scale)[0] == 0.5, name
        before = activation_qparams(*plain[name], scheme.activations)
        assert 0.99 * before.scale <= q.scale <= 2.2 * before.scale, name


def test_given_ranges_are_not_rounded() -> None:
    found = resolved(TAPPED, {}, {"p": (-2.0, 5.0), "x": (-3.0, 3.0)}, ORT, one_sided_power_of_two)
    assert found["m"] == found["p"] == (-2.0, 5.0)
    assert found["x"] == (-3.0, 3.0)
    assert found["s"] == (0.0, 255 / 256)
