"""From the table to the quantizers: fixed, handed up, shared, widened ranges, and what keeps its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from calib8.errors import TableError
from calib8.passes.place import place
from calib8.passes.resolve_ranges import fixed_range, resolve_ranges
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.scheme import TARGETS, QuantScheme
from calib8.table import CalibrationTable, Range, TableEntry
from small_models import Array, graph, normal

ORT = TARGETS["onnxruntime"]
OPENVINO = TARGETS["openvino"]
TFLITE = TARGETS["tflite"]
IMAGE = "float[N,4,8,8] x"
ANY = "float[A,B,C,D] y"
CONV = "Conv<pads=[1,1,1,1]>"
NUMBERS: dict[str, Array] = {
    "w": normal(4, 4, 3, 3),
    "v": normal(4, 8, 3, 3),
    "u": normal(4, 12, 3, 3),
    "zero": np.float32(0),
    "six": np.float32(6),
    "minus": np.float32(-2),
    "nothing": np.float32(-np.inf),
    "amounts": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
    "sizes": np.array([2, 2], np.int64),
    "double": np.array([1, 1, 2, 2], np.float32),
    "flat": np.array([0, -1], np.int64),
}


def image(body: str) -> ir.Model:
    words = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return graph(IMAGE, ANY, body, {name: array for name, array in NUMBERS.items() if name in words})


def table_of(ranges: Mapping[str, tuple[float, float]]) -> CalibrationTable:
    found = {name: Range(*bounds) for name, bounds in ranges.items()}
    entries = {name: TableEntry(seen, "minmax", 0.0, 1, 0, seen) for name, seen in found.items()}
    return CalibrationTable("", entries)


def resolved(
    model: ir.Model, known: Mapping[str, tuple[float, float]], scheme: QuantScheme = ORT
) -> dict[str, tuple[float, float]]:
    """Final ranges where every tensor not named in ``known`` was seen in [−1, 1]."""
    placement = place(model, scheme)
    table = table_of({name: known.get(name, (-1.0, 1.0)) for name in placement.readers})
    ranges = resolve_ranges(model, placement, table, scheme)
    assert list(ranges) == list(placement.readers)
    return {name: (found.min, found.max) for name, found in ranges.items()}


def test_ranges_are_widened_to_zero_and_otherwise_taken_from_the_table() -> None:
    model = image(f"a = {CONV}(x, w) y = {CONV}(a, w)")
    found = resolved(model, {"x": (0.5, 2.0), "a": (-3.0, -1.0), "y": (-1.0, 4.0)})
    assert found == {"x": (0.0, 2.0), "a": (-3.0, 0.0), "y": (-1.0, 4.0)}


def test_missing_tensors_are_a_table_error_with_their_number() -> None:
    model = image(f"a = {CONV}(x, w) y = {CONV}(a, w)")
    with pytest.raises(TableError, match=r"^a: the table lacks 2 of 3 tensors"):
        resolve_ranges(model, place(model, ORT), table_of({"x": (0.0, 1.0)}), ORT)


@pytest.mark.parametrize(
    ("op", "spec", "scale", "zero_point"),
    [
        ("Softmax", UINT8, 1 / 256, 0),
        ("Sigmoid", UINT8, 1 / 256, 0),
        ("Tanh", UINT8, 1 / 128, 128),
        ("Softmax", INT8, 1 / 256, -128),
        ("Sigmoid", INT8, 1 / 256, -128),
        ("Tanh", INT8, 1 / 128, 0),
        ("Softmax", INT8_SYMMETRIC, 1 / 127, 0),
        ("Sigmoid", INT8_SYMMETRIC, 1 / 127, 0),
        ("Tanh", INT8_SYMMETRIC, 1 / 127, 0),
    ],
)
def test_fixed_ranges_give_the_exact_scales(op: str, spec: QuantSpec, scale: float, zero_point: int) -> None:
    found = fixed_range(op, spec)
    qparams = activation_qparams(found.min, found.max, spec)
    assert np.float32(qparams.scale) == np.float32(scale)
    assert qparams.zero_point == zero_point


def test_ops_with_known_limits_need_no_data() -> None:
    model = image(f"a = {CONV}(x, w) s = Sigmoid(a) t = Tanh(x) m = Mul(s, t) y = {CONV}(m, w)")
    found = resolved(model, {"s": (0.3, 0.4), "t": (0.0, 0.0)})
    assert found["s"] == (0.0, 1 - 1 / 256)
    assert found["t"] == (-1.0, 1 - 1 / 128)
    assert found["m"] == (-1.0, 1.0)


def test_residual_additions_keep_separate_scales() -> None:
    model = image(f"a = {CONV}(x, w) b = {CONV}(x, w) s = Add(a, b) y = {CONV}(s, w)")
    known = {"a": (-1.0, 1.0), "b": (-5.0, 5.0), "s": (-6.0, 6.0)}
    found = resolved(model, known)
    assert {name: found[name] for name in known} == known


def test_a_chain_of_clipping_ops_hands_its_last_range_all_the_way_up() -> None:
    body = f"""s = Sigmoid(x) a = Mul(x, s) r = Relu(a) p = MaxPool<kernel_shape=[2,2]>(r)
               t = Transpose<perm=[0,1,3,2]>(p) y = {CONV}(t, w)"""
    found = resolved(image(body), {"r": (0.0, 9.0), "p": (0.0, 8.0), "t": (0.0, 3.0)})
    assert found["r"] == found["p"] == found["t"] == (0.0, 3.0)


def test_the_value_before_a_relu_takes_the_range_behind_it_unless_others_read_it() -> None:
    alone = image(f"c = Concat<axis=1>(x, x) r = Relu(c) y = {CONV}(r, v)")
    found = resolved(alone, {"x": (0.0, 4.0), "c": (0.0, 4.0), "r": (0.0, 2.0)})
    assert found["r"] == (0.0, 2.0)
    known = {"a": (-8.0, 8.0), "r": (0.0, 2.0), "s": (0.0, 1.0)}
    shared = image(f"a = {CONV}(x, w) r = Relu(a) s = Sigmoid(a) m = Mul(r, s) y = {CONV}(m, w)")
    assert resolved(shared, known)["a"] == (-8.0, 8.0)


@pytest.mark.parametrize(
    ("seen", "handed"), [((-1.5, 5.0), True), ((-2.0, 6.0), True), ((-3.0, 5.0), False), ((-1.0, 7.0), False)]
)
def test_a_clip_hands_its_range_up_only_within_its_limits(seen: tuple[float, float], handed: bool) -> None:
    model = image(f"a = {CONV}(x, w) c = Clip(a, minus, six) y = {CONV}(c, w)")
    found = resolved(model, {"a": (-9.0, 9.0), "c": seen})
    assert found["a"] == (seen if handed else (-9.0, 9.0))


@pytest.mark.parametrize("op", ["DepthToSpace<blocksize=2>", "SpaceToDepth<blocksize=2>", "GlobalMaxPool"])
def test_other_orders_and_the_largest_value_hand_their_range_up(op: str) -> None:
    found = resolved(
        image(f"a = {CONV}(x, w) d = {op}(a) y = Sigmoid(d)"), {"a": (-9.0, 9.0), "d": (-1.0, 5.0)}
    )
    assert found["a"] == found["d"] == (-1.0, 5.0)


def test_a_node_in_float_hands_nothing_up() -> None:
    """What it reads is no longer clipped by the codes behind it."""
    model = image(f"a = {CONV}(x, w) p = MaxPool<kernel_shape=[2,2]>(a) y = {CONV}(p, w)")
    table = table_of({"x": (-1.0, 1.0), "a": (-4.0, 4.0), "p": (-1.0, 3.0), "y": (-1.0, 1.0)})
    for keep, wanted in ((frozenset[str](), Range(-1.0, 3.0)), (frozenset({"p"}), Range(-4.0, 4.0))):
        placement = place(model, ORT, keep)
        assert resolve_ranges(model, placement, table, ORT)["a"] == wanted


def test_fixed_ranges_are_not_overwritten_from_behind() -> None:
    body = f"a = {CONV}(x, w) s = Sigmoid(a) p = MaxPool<kernel_shape=[2,2]>(s) y = {CONV}(p, w)"
    found = resolved(image(body), {"p": (0.2, 0.5)})
    assert found["s"] == found["p"] == (0.0, 1 - 1 / 256)


@pytest.mark.parametrize(
    "move",
    [
        "p = MaxPool<kernel_shape=[2,2]>(a)",
        "p = GlobalMaxPool(a)",
        "p = Transpose<perm=[0,1,3,2]>(a)",
        "p = Pad(a, amounts)",
        'p = Resize<mode="nearest">(a, , double)',
        'p = Resize<mode="linear">(a, , double)',
        'p = DepthToSpace<blocksize=2, mode="DCR">(a)',
        "p = Gather<axis=1>(a, sizes)",
    ],
)
def test_ops_that_move_codes_share_one_scale(move: str) -> None:
    body = f"a = {CONV}(x, w) {move} s = Sigmoid(a) y = Erf(p)"
    model = image(body + " q = Mul(p, p) g = GlobalMaxPool(q) z = GlobalMaxPool(a) e = Mul(g, z)")
    found = resolved(model, {"a": (-2.0, 3.0), "p": (-1.0, 5.0)}, TFLITE)
    assert found["a"] == found["p"] == (-2.0, 5.0)


def test_a_cubic_resize_overshoots_and_keeps_two_scales() -> None:
    model = image(f'a = {CONV}(x, w) r = Relu(a) p = Resize<mode="cubic">(r, , double) y = {CONV}(p, w)')
    found = resolved(model, {"r": (0.0, 3.0), "p": (-0.5, 3.5)})
    assert found["r"] == (0.0, 3.0) and found["p"] == (-0.5, 3.5)


def test_averages_keep_two_scales_except_for_tflite() -> None:
    model = image(f"a = {CONV}(x, w) p = AveragePool<kernel_shape=[2,2]>(a) y = {CONV}(p, w)")
    known = {"a": (-4.0, 4.0), "p": (-1.0, 1.0)}
    assert {name: resolved(model, known)[name] for name in known} == known
    assert resolved(model, known, TFLITE)["p"] == (-4.0, 4.0)


def test_all_parts_of_a_split_share_one_scale() -> None:
    body = f"a = {CONV}(x, w) b, c = Split<axis=1>(a, sizes) d = Concat<axis=1>(c, b) y = {CONV}(d, w)"
    found = resolved(image(body), {"a": (-2.0, 2.0), "b": (-1.0, 3.0), "c": (-5.0, 0.0), "d": (-90.0, 0.0)})
    assert found["a"] == found["b"] == found["c"] == (-5.0, 3.0)
    assert found["d"] == (-90.0, 0.0)


@pytest.mark.parametrize(
    ("fill", "expected"), [("", (0.0, 3.0)), ("six", (0.0, 6.0)), ("minus", (-2.0, 3.0))]
)
def test_padding_widens_the_range_by_its_value(fill: str, expected: tuple[float, float]) -> None:
    operands = f"r, amounts, {fill}" if fill else "r, amounts"
    model = image(f"a = {CONV}(x, w) r = Relu(a) p = Pad({operands}) y = {CONV}(p, w)")
    found = resolved(model, {"r": (0.0, 3.0), "p": (0.0, 3.0)})
    assert found["r"] == found["p"] == expected


@pytest.mark.parametrize(("seen", "held"), [(0.997, True), (1.0, True), (1.01, False)])
def test_a_fixed_range_holds_what_lies_a_step_beyond_its_last_code(seen: float, held: bool) -> None:
    """That of Sigmoid ends at 255/256, its values at 1."""
    model = image(f"a = {CONV}(x, w) s = Sigmoid(a) p = MaxPool<kernel_shape=[2,2]>(s) y = {CONV}(p, w)")
    found = resolved(model, {"p": (0.0, seen)})
    assert found["s"] == found["p"] == (0.0, 1 - 1 / 256 if held else seen)


def test_padding_with_minus_infinity_widens_nothing() -> None:
    """It stands before a MaxPool, which never takes it."""
    body = f"""a = {CONV}(x, w) r = Relu(a) p = Pad(r, amounts, nothing) m = MaxPool<kernel_shape=[3,3]>(p)
               y = {CONV}(m, w)"""
    found = resolved(image(body), {"r": (0.0, 3.0), "p": (0.0, 3.0), "m": (0.0, 3.0)})
    assert all(np.isfinite(bounds).all() for bounds in found.values())
    assert found["m"] == (0.0, 3.0)


def test_padding_beyond_a_fixed_range_gives_the_fixed_range_up() -> None:
    model = image(f"a = {CONV}(x, w) s = Sigmoid(a) p = Pad(s, amounts, six) y = {CONV}(p, w)")
    found = resolved(model, {"p": (0.0, 6.0)})
    assert found["s"] == found["p"] == (0.0, 6.0)


SUB_SHARES = QuantScheme("mine", shared_scale_ops=frozenset({"Sub"}))


def test_a_fixed_range_does_not_clip_its_partners() -> None:
    model = image(f"a = {CONV}(x, w) s = Sigmoid(a) d = Sub(s, a) y = {CONV}(d, w)")
    found = resolved(model, {"a": (-8.0, 8.0), "d": (-7.0, 9.0)}, SUB_SHARES)
    assert found["a"] == found["s"] == found["d"] == (-8.0, 9.0)


TWO_LAYERS = f"a = {CONV}(x, w) b = {CONV}(x, w) c = Concat<axis=1>(a, b) y = {CONV}(c, v)"
JOINED = {"a": (-1.0, 1.0), "b": (-2.0, 2.0), "c": (-2.0, 2.0)}
APART = {"a": (-1.0, 1.0), "b": (-2.1, 2.1), "c": (-2.1, 2.1)}


def test_inputs_of_a_concat_share_one_scale_while_they_are_alike() -> None:
    found = resolved(image(TWO_LAYERS), JOINED)
    assert found["a"] == found["b"] == found["c"] == (-2.0, 2.0)
    found = resolved(image(TWO_LAYERS), APART)
    assert {name: found[name] for name in APART} == APART


def test_an_input_of_zeros_keeps_no_others_from_sharing() -> None:
    """Zero has a code in every scale."""
    found = resolved(image(TWO_LAYERS), {"a": (0.0, 0.0), "b": (-2.0, 2.0), "c": (-2.0, 2.0)})
    assert found["a"] == found["b"] == found["c"] == (-2.0, 2.0)


def test_some_targets_share_around_every_concat_and_a_scheme_may_never() -> None:
    found = resolved(image(TWO_LAYERS), {**APART, "b": (-99.0, 3.0)}, TARGETS["tengine"])
    assert found["a"] == found["b"] == found["c"] == (-99.0, 3.0)
    never = QuantScheme("mine", concat_share_ratio=0.0)
    equal = {name: (-1.0, 1.5 + k) for k, name in enumerate(("a", "b", "c"))}
    found = resolved(image(TWO_LAYERS), equal, never)
    assert {name: found[name] for name in equal} == equal


@pytest.mark.parametrize(("low", "high"), [(-7.0, 0.5), (-0.5, 9.0), (-7.0, 9.0)])
def test_one_scale_around_a_concat_has_room_for_its_constants(low: float, high: float) -> None:
    beside = np.linspace(low, high, 8 * 8, dtype=np.float32).reshape(1, 1, 8, 8)
    constants = {"w": NUMBERS["w"], "k": beside, "u": normal(4, 5, 1, 1)}
    model = graph(
        "float[1,4,8,8] x", ANY, f"a = {CONV}(x, w) c = Concat<axis=1>(a, k) y = Conv(c, u)", constants
    )
    found = resolved(model, {"a": (-1.0, 1.0), "c": (-1.0, 1.0)}, TFLITE)
    assert found["a"] == found["c"] == (min(low, -1.0), max(high, 1.0))


def test_the_ratio_holds_for_a_chain_of_concats_as_a_whole() -> None:
    body = f"""a = {CONV}(x, w) b = {CONV}(x, w) c = Concat<axis=1>(a, b) d = {CONV}(x, w)
               e = Concat<axis=1>(c, d) y = {CONV}(e, u)"""
    known = {"a": (-1.0, 1.0), "b": (-2.0, 2.0), "c": (-2.0, 2.0), "d": (-3.9, 3.9), "e": (-3.9, 3.9)}
    found = resolved(image(body), known)
    assert found["a"] == found["b"] == found["c"] == (-2.0, 2.0)
    assert found["d"] == found["e"] == (-3.9, 3.9)


@pytest.mark.parametrize("through", ["", "pool"])
def test_a_relu_does_not_share_with_negative_values(through: str) -> None:
    """Its quantizer would no longer clip at zero and the runtime could not fuse the layer."""
    pool = "p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(r)" if through else ""
    left = "p" if through else "r"
    body = f"""a = {CONV}(x, w) r = Relu(a) {pool} b = {CONV}(x, w) c = Concat<axis=1>({left}, b)
               y = {CONV}(c, v)"""
    known = {"r": (0.0, 2.0), left: (0.0, 2.0), "b": (-2.0, 2.0), "c": (-2.0, 2.0)}
    found = resolved(image(body), known)
    assert {name: found[name] for name in known} == known


def test_a_clip_does_not_share_with_values_beyond_its_limit() -> None:
    body = f"""a = {CONV}(x, w) r = Clip(a, zero, six) b = {CONV}(x, w) s = Relu(b)
               c = Concat<axis=1>(r, s) y = {CONV}(c, v)"""
    known = {"r": (0.0, 6.0), "s": (0.0, 8.0), "c": (0.0, 8.0)}
    found = resolved(image(body), known)
    assert {name: found[name] for name in known} == known
    found = resolved(image(body), {"r": (0.0, 5.0), "s": (0.0, 5.5), "c": (0.0, 5.5)})
    assert found["r"] == found["s"] == found["c"] == (0.0, 5.5)


def test_a_clip_behind_two_concats_keeps_its_limit() -> None:
    """What it shares a scale with already may not exceed the limit either."""
    body = f"""a = {CONV}(x, w) r = Clip(a, zero, six) b = {CONV}(x, w) s = Relu(b)
               c = Concat<axis=1>(r, s) d = {CONV}(x, w) t = Relu(d) e = Concat<axis=1>(c, t)
               y = {CONV}(e, u)"""
    known = {"r": (0.0, 6.0), "s": (0.0, 5.0), "c": (0.0, 6.0), "t": (0.0, 9.0), "e": (0.0, 9.0)}
    found = resolved(image(body), known)
    assert found["r"] == found["s"] == found["c"] == (0.0, 6.0)
    assert found["t"] == found["e"] == (0.0, 9.0)
    within = {**known, "t": (0.0, 5.5), "e": (0.0, 5.5)}
    found = resolved(image(body), within)
    assert {found[name] for name in known} == {(0.0, 6.0)}


def test_fixed_inputs_of_a_concat_keep_their_scale() -> None:
    model = image(f"a = {CONV}(x, w) s = Sigmoid(a) c = Concat<axis=1>(s, a) y = {CONV}(c, v)")
    for scheme in (ORT, OPENVINO, TFLITE):
        found = resolved(model, {"a": (-3.0, 3.0), "c": (-3.0, 3.0)}, scheme)
        assert found["s"] == (0.0, 1 - 1 / 256)
        assert found["a"] == found["c"] == (-3.0, 3.0)
