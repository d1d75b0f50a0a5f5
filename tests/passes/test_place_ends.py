"""Placement at the end of a graph: what leaves it, what is decoded there, what only moves on its way out."""

from __future__ import annotations

import numpy as np
import pytest
from place_nets import ANY, CONV, IMAGE, ORT, TFLITE, carriers, image, reasons

from calib8.passes.place import (
    calibration_tensors,
    place,
)
from calib8.scheme import TARGETS
from small_models import graph, normal

SIZES = {"sizes": [2, -1], "one": [1], "four": [4], "halves": [2, 2]}


def test_a_gemm_at_the_end_gives_floats_directly() -> None:
    body = "f = Flatten(x) g = Gemm(f, a) r = Relu(g) y = Gemm(r, b)"
    constants = {"a": normal(256, 8), "b": normal(8, 4)}
    model = graph(IMAGE, "float[A,B] y", body, constants)
    assert carriers(model, place(model, ORT)) == ["x", "f", "r"]
    assert carriers(model, place(model, TFLITE)) == ["x", "f", "r", "y"]
    assert calibration_tensors(model) == ("x", "f", "r", "y")


def test_a_gemm_that_codes_are_made_of_gives_codes() -> None:
    body = "f = Flatten(x) g = Gemm(f, a) h = Sigmoid(g) y = Gemm(h, b)"
    model = graph(IMAGE, "float[A,B] y", body, {"a": normal(256, 8), "b": normal(8, 4)})
    assert carriers(model, place(model, ORT)) == ["x", "f", "g", "h"]


def test_a_pool_with_the_scale_of_its_input_fuses_no_activation() -> None:
    """Where the two sides may differ, the codes behind the Relu are those of the pool."""
    model = image(f"a = {CONV}(x, w) p = AveragePool<kernel_shape=[2,2]>(a) r = Relu(p) y = {CONV}(r, v)")
    assert carriers(model, place(model, ORT)) == ["x", "a", "r", "y"]
    assert carriers(model, place(model, TFLITE)) == ["x", "a", "p", "r", "y"]


def test_a_convolution_at_the_end_gives_codes() -> None:
    model = image(f"y = {CONV}(x, w)")
    assert carriers(model, place(model, ORT)) == ["x", "y"]


def test_softmax_at_the_end_stays_float_unless_outputs_are_coded() -> None:
    model = graph(
        IMAGE, "float[A,B] y", "f = Flatten(x) g = Gemm(f, a) y = Softmax(g)", {"a": normal(256, 4)}
    )
    assert reasons(place(model, ORT)) == {"y": "it yields the graph's class probabilities"}
    assert "g" not in place(model, ORT).readers
    assert reasons(place(model, TARGETS["tflite"])) == {}
    assert {"g", "y"} <= set(place(model, TARGETS["tflite"]).readers)


@pytest.mark.parametrize(
    "moves",
    [
        "y = Reshape(s, sizes)",
        "y = Slice(s, one, four, one)",
        "t = Transpose<perm=[1,0]>(s) y = Reshape(t, sizes)",
        "left, y = Split<axis=1>(s, halves)",
    ],
)
def test_softmax_whose_result_is_moved_to_the_end_stays_float_too(moves: str) -> None:
    body = f"f = Flatten(x) g = Gemm(f, a) s = Softmax(g) {moves}"
    constants = {"a": normal(256, 4), **{name: np.int64(of) for name, of in SIZES.items()}}
    outputs = "float[A,B] left, float[C,D] y" if "left" in moves else "float y"
    model = graph(IMAGE, outputs, body, constants)
    told = reasons(place(model, TARGETS["calib8"]))
    assert told["s"] == "it yields the graph's class probabilities"
    assert carriers(model, place(model, TARGETS["calib8"])) == ["x", "f"]
    assert "s" not in reasons(place(model, TARGETS["tflite"]))


def test_softmax_that_something_else_reads_as_well_gives_codes() -> None:
    body = "f = Flatten(x) g = Gemm(f, a) s = Softmax(g) y = Reshape(s, sizes) z = Gemm(s, b)"
    constants = {"a": normal(256, 4), "b": normal(4, 3), "sizes": np.int64([2, -1])}
    model = graph(IMAGE, "float[A,B] y, float[C,D] z", body, constants)
    assert "s" in place(model, TARGETS["calib8"]).readers


def test_softmax_between_layers_gives_codes() -> None:
    model = image(f"a = {CONV}(x, w) s = Softmax<axis=1>(a) y = {CONV}(s, v)")
    assert reasons(place(model, ORT)) == {}
    assert carriers(model, place(model, ORT)) == ["x", "a", "s", "y"]


def test_the_input_of_the_model_may_be_added_behind_the_last_layer() -> None:
    """It has codes, as it is what the first layer reads."""
    model = image(f"a = {CONV}(x, w) y = Add(a, x)")
    assert reasons(place(model, ORT)) == {}
    assert carriers(model, place(model, ORT)) == ["x", "a", "y"]


def test_box_decoding_behind_the_last_layer_stays_float() -> None:
    body = f"""c = {CONV}(x, w) s = Sigmoid(c) two = Mul(s, k) shifted = Sub(two, k) e = Exp(shifted)
               m = Mul(e, shifted) y = Concat<axis=1>(m, shifted)"""
    placement = place(image(body, {"k": np.float32(2)}), ORT)
    arithmetic = "it is arithmetic with constants behind the last weighted layer"
    assert reasons(placement) == {
        "two": arithmetic,
        "shifted": "it is post-processing of float values",
        "e": "it is post-processing behind the last weighted layer",
        "m": "it is post-processing of float values",
        "y": "it is post-processing of float values",
    }
    assert "s" in placement.readers and "two" not in placement.readers


def test_the_same_arithmetic_before_a_layer_is_quantized() -> None:
    model = image(f"a = Mul(x, k) b = Add(a, k) y = {CONV}(b, w)", {"k": np.float32(2)})
    assert reasons(place(model, ORT)) == {}


def test_a_residual_addition_behind_the_last_layer_is_quantized() -> None:
    model = image(f"a = {CONV}(x, w) b = {CONV}(x, v) s = Add(a, b) y = Relu(s)")
    placement = place(model, ORT)
    assert reasons(placement) == {}
    assert carriers(model, placement) == ["x", "a", "b", "y"]


def test_moves_that_only_float_nodes_read_stay_float_as_a_whole_chain() -> None:
    constants = {"s": np.array([0, -1], np.int64)}
    body = f"c = {CONV}(x, w) t = Transpose<perm=[0,2,3,1]>(c) r = Reshape(t, s) y = Erf(r)"
    model = image(body, constants, outputs="float[A,B] y")
    placement = place(model, ORT)
    assert reasons(placement) == {
        "t": "only float nodes read it",
        "r": "only float nodes read it",
        "y": "it is post-processing behind the last weighted layer",
    }
    assert carriers(model, placement) == ["x", "c"]


def test_moves_to_an_output_or_to_one_quantized_reader_stay_quantized() -> None:
    body = f"c = {CONV}(x, w) y = Transpose<perm=[0,2,3,1]>(c)"
    assert reasons(place(image(body), ORT)) == {}
    body = f"c = {CONV}(x, w) t = Transpose<perm=[0,1,3,2]>(c) e = Erf(t) y = {CONV}(t, v)"
    model = image(body, outputs=f"{ANY}, float[A,B2,C2,D2] e")
    assert reasons(place(model, ORT)) == {"e": "it is post-processing behind the last weighted layer"}


def test_a_move_that_is_an_output_stays_quantized_whoever_else_reads_it() -> None:
    body = f"c = {CONV}(x, w) t = Transpose<perm=[0,2,3,1]>(c) y = Erf(t)"
    model = image(body, outputs=f"{ANY}, float[A,B2,C2,D2] t")
    placement = place(model, ORT)
    assert reasons(placement) == {"y": "it is post-processing behind the last weighted layer"}
    assert carriers(model, placement) == ["x", "c", "t"]


OUTWARDS = "it arranges what leaves the graph"


def test_what_a_concat_joins_on_its_way_out_keeps_the_codes_of_its_parts() -> None:
    constants = {"s": np.array([0, 256], np.int64)}
    joined = f"a = {CONV}(x, w) b = {CONV}(x, v) t = Transpose<perm=[0,1,3,2]>(b) j = Concat<axis=1>(a, t)"
    model = image(f"{joined} y = Reshape(j, s)", constants, outputs="float[A,B] y")
    moved = {"t": "only float nodes read it", "j": "only float nodes read it", "y": OUTWARDS}
    assert reasons(place(model, ORT)) == moved
    assert carriers(model, place(model, ORT)) == ["x", "a", "b"]
    assert reasons(place(model, TARGETS["tflite"])) == reasons(place(model, TARGETS["openvino"])) == {}
    used = image(
        f"{joined} u = Conv(j, p) y = Reshape(u, s)", {**constants, "p": normal(4, 8, 1, 1)}, "float[A,B] y"
    )
    assert reasons(place(used, ORT)) == {}


def test_a_concat_before_a_layer_keeps_its_codes_whoever_reads_it() -> None:
    joined = f"a = {CONV}(x, w) b = {CONV}(x, v) j = Concat<axis=1>(a, b) n = LRN<size=3>(j)"
    model = image(f"{joined} y = Conv(n, p)", {"p": normal(4, 8, 1, 1)})
    assert reasons(place(model, ORT)) == {"n": "the op has no integer form"}
    behind = image(f"{joined} y = Neg(n)")
    assert reasons(place(behind, ORT))["j"] == "only float nodes read it"


def test_sums_of_a_gemm_leave_the_graph_without_codes() -> None:
    constants = {"s": np.array([0, 256], np.int64), "m": normal(256, 6), "r": np.array([-1, 2, 3], np.int64)}
    body = f"c = {CONV}(x, w) f = Reshape(c, s) g = Gemm(f, m) y = Reshape(g, r)"
    model = image(body, constants, outputs="float[A,B,C] y")
    assert reasons(place(model, ORT)) == {"y": OUTWARDS}
    assert carriers(model, place(model, ORT)) == ["x", "c", "f"]
