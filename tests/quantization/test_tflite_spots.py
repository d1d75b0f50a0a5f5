"""Networks with 16-bit codes in single places as TFLite files: what LiteRT makes of them, and calib8."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from litert import litert_outputs
from quantized_models import seen_ranges
from spot_nets import CALIB8, FEEDS, NETS, sqnr, whole

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import TfliteExport, to_tflite
from calib8.program.lower.lower import lower
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.program.program import Program
from calib8.quantization.quantize import QuantizedGraph, quantize_graph
from calib8.scheme import TARGETS, QuantScheme
from calib8.session import InferenceSession
from calib8.tflite.read import parse
from calib8.tflite.write import serialize
from small_models import Array, run

TFLITE = TARGETS["tflite"]
IMAGE = np.ascontiguousarray(np.moveaxis(FEEDS["x"], 1, 3))


def quantized(name: str, scheme: QuantScheme) -> tuple[QuantizedGraph, Array]:
    prepared, expected = whole(name)
    table = seen_ranges(prepared, FEEDS)
    return quantize_graph(prepared, table, scheme, frozenset(), spots=frozenset(NETS[name][1])), expected


def program_of(graph: QuantizedGraph) -> Program:
    return lower(graph.model, profile="tflite", shapes={"x": (2, 8, 12, 12)})


@cache
def exported(name: str) -> tuple[QuantizedGraph, Array, TfliteExport, Array]:
    """The graph, float outputs, the TFLite model and LiteRT's outputs of it, NCHW."""
    graph, expected = quantized(name, TFLITE)
    export = to_tflite(program_of(graph))
    [found] = litert_outputs(serialize(export.graph), [IMAGE])
    return graph, expected, export, np.moveaxis(found, 3, 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NETS)
def test_calib8_runs_the_file_as_litert_does(name: str) -> None:
    """Bit for bit, in the reference and in the engine, and no part of it in float."""
    _, _, export, wanted = exported(name)
    program = lower_tflite(parse(serialize(export.graph)))
    assert program.float_reasons == {} and any(slot.is_wide for slot in program.slots)
    for runtime in ("reference", "calib8"):
        session = InferenceSession(program, runtime=runtime)
        [found] = session.run(None, {program.inputs[0].name: IMAGE})
        np.testing.assert_array_equal(np.moveaxis(found, 3, 1), wanted, err_msg=runtime)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NETS)
def test_it_is_as_near_to_float_as_in_onnx_runtime(name: str) -> None:
    graph, expected, _, found = exported(name)
    assert set(NETS[name][1]) == graph.spots.taken & set(NETS[name][1]) | graph.spots.refused.keys()
    assert sqnr(expected, found) > sqnr(expected, run(graph.model, FEEDS)[0]) - 0.7
    before = quantize_graph(*_without_spots(name)).model
    assert sqnr(expected, found) > sqnr(expected, run(before, FEEDS)[0]) - 0.7


def _without_spots(name: str) -> tuple:  # type: ignore[type-arg]
    prepared, _ = whole(name)
    return prepared, seen_ranges(prepared, FEEDS), TFLITE, frozenset()


REFUSED = {"windows beside": {"r"}}
"""An AveragePool has one scale on both sides in TFLite, and so one width."""


@pytest.mark.parametrize("name", NETS)
def test_spots_are_int16_without_zero_points(name: str) -> None:
    graph, _, export, _ = exported(name)
    wide = [tensor for tensor in export.graph.tensors if tensor.dtype == "int16" and tensor.quantization]
    assert not any(tensor.quantization.zero_points.any() for tensor in wide if tensor.quantization)
    scales = {float(tensor.quantization.scales[0]) for tensor in wide if tensor.quantization}
    assert graph.spots.refused.keys() == REFUSED.get(name, set())
    for spot in graph.spots.taken:
        assert graph.qparams[spot].zero_point == 0
        assert float(np.float32(graph.qparams[spot].scale)) in scales
    assert export.notes == ()


CURVED = ("silu", "two in a row", "product", "concat of scales", "leaky")
PLAIN = [name for name in NETS if name not in CURVED]
"""Without a curve behind a layer, which the target calib8 has and TFLite has not."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PLAIN)
def test_codes_of_another_target_lose_their_zero_points(name: str) -> None:
    """A note says what it costs; the outputs stay as near, for a step of 16 bits is at most doubled."""
    graph, expected = quantized(name, CALIB8)
    program = program_of(graph)
    export = to_tflite(program)
    moved = {slot.name for slot in program.slots if slot.is_wide and slot.zero_point}
    told = [note for note in export.notes if "without a zero point" in note]
    assert len(told) == len(moved)
    model = serialize(export.graph)
    [found] = litert_outputs(model, [IMAGE])
    read = lower_tflite(parse(model))
    [own] = InferenceSession(read, runtime="calib8").run(None, {read.inputs[0].name: IMAGE})
    np.testing.assert_array_equal(own, found)
    near = sqnr(expected, run(graph.model, FEEDS)[0])
    assert sqnr(expected, np.moveaxis(found, 3, 1)) > near - 0.7


@pytest.mark.parametrize("name", CURVED)
def test_curves_of_another_target_are_refused(name: str) -> None:
    graph, _ = quantized(name, CALIB8)
    with pytest.raises(UnsupportedModelError, match=r"\(Conv\): a function follows it without codes between"):
        to_tflite(program_of(graph))


@pytest.mark.parametrize("name", ["relu", "function", "residual"])
def test_the_uint8_inputs_of_a_spot_can_be_given(name: str) -> None:
    """8-bit codes are fed as they are; they become int16 inside."""
    graph, _ = quantized(name, TFLITE)
    export = to_tflite(program_of(graph), inputs="uint8")
    codes = np.random.default_rng(0).integers(0, 256, IMAGE.shape, np.uint8)
    model = serialize(export.graph)
    program = lower_tflite(parse(model))
    [wanted] = litert_outputs(model, [codes])
    [found] = InferenceSession(program, runtime="calib8").run(None, {program.inputs[0].name: codes})
    np.testing.assert_array_equal(found, wanted)


def test_borders_of_16_bits_are_no_bytes() -> None:
    graph, _ = quantized("input", TFLITE)
    program = program_of(graph)
    with pytest.raises(UnsupportedModelError, match="the input 'x' has 16-bit codes, so it can be float32"):
        to_tflite(program, inputs="int8")
    graph, _ = quantized("output", TFLITE)
    with pytest.raises(UnsupportedModelError, match="the output 'y' has 16-bit codes, so it can be float32"):
        to_tflite(program_of(graph), outputs="uint8")


def test_a_file_with_16_bit_ports_is_written_again() -> None:
    """Its inputs and outputs are int16 codes, as in the file."""
    _, _, export, _ = exported("relu")
    program = lower_tflite(parse(serialize(_all_int16(export))))
    again = to_tflite(program)
    codes = np.random.default_rng(1).integers(-(1 << 15), 1 << 15, IMAGE.shape).astype(np.int16)
    [wanted] = litert_outputs(serialize(_all_int16(export)), [codes])
    [found] = litert_outputs(serialize(again.graph), [codes])
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, wanted)


def _all_int16(export: TfliteExport):  # type: ignore[no-untyped-def]
    """The 16-bit part of the model alone: from the first tensor of int16 to the last."""
    graph = export.graph
    operators = [each for each in graph.operators if each.op == "CONV_2D"]
    first, last = operators[0].inputs[0], operators[-1].outputs[0]
    assert graph.tensors[first].dtype == graph.tensors[last].dtype == "int16"
    return replace(graph, operators=tuple(operators), inputs=(first,), outputs=(last,))
