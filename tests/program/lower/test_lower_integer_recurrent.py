"""LSTM and GRU of ONNX in integers throughout, beside the float layers that they were made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper
from recurrent_cells import Layer, onnx_model, random_layer, random_sequences

from calib8.calibration.cells import with_cells
from calib8.errors import UnsupportedModelError
from calib8.model.load import load_model
from calib8.model.taps import tapped_model
from calib8.passes.integer_cells import CELL_SCALE, cells_of, power_of
from calib8.passes.place import place
from calib8.program.instructions import IntegerGru, IntegerLstm, Recurrent
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from calib8.quantization.insert import insert_quantizers
from calib8.quantization.own_quantizers import restore_own_quantizers
from calib8.scheme import TARGETS
from calib8.table import Range

Array = npt.NDArray[Any]
SCHEME = TARGETS["calib8"].with_recurrent("integer")
SIZES = (12, 3, 10, 14)
STATES: dict[str, list[Any]] = {"LSTM": [(), ("h",), ("c",), ("h", "c")], "GRU": [(), ("h",)]}


def usual_layer(seed: int, cell: Any) -> Layer:
    """A layer with the standard's activations, without clip; everything else is drawn."""
    rng = np.random.default_rng((40, seed))
    while True:
        extras = STATES[cell][seed % len(STATES[cell])]
        layer = random_layer(rng, cell, SIZES, extras=extras)
        step = layer.step
        names = ("Sigmoid", "Tanh", "Tanh") if cell == "LSTM" else ("Sigmoid", "Tanh")
        if not step.clip and [f.name for f in step.functions] == [*names] * len(step.directions):
            return layer


def run(model: ir.Model | onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    proto = ir.to_proto(model) if isinstance(model, ir.Model) else model
    session = ort.InferenceSession(proto.SerializeToString())
    return [np.asarray(array) for array in session.run(None, feeds)]


def coded(proto: onnx.ModelProto, feeds: dict[str, Array]) -> ir.Model:
    """The QDQ form with ranges of what the float model computes."""
    proto.opset_import[0].version = 17
    model = load_model(proto)
    placement, cells = place(model, SCHEME), cells_of(model)
    names = [name for name in placement.readers if name not in feeds]
    values = dict(zip([*names, *cells], run_tapped(model, [*names, *cells], feeds), strict=True)) | feeds
    ranges = {
        name: Range(min(0.0, float(values[name].min())), max(0.0, float(values[name].max())))
        for name in placement.readers
    }
    powers = {node.name or "": power_of(float(np.abs(values[name]).max())) for name, node in cells.items()}
    return insert_quantizers(model, placement, ranges, SCHEME, cell_powers=powers).model


def run_tapped(model: ir.Model, names: list[str], feeds: dict[str, Array]) -> list[Array]:
    return run(tapped_model(with_cells(model, names), names), feeds)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize("seed", range(16))
def test_integers_follow_the_float_layer(seed: int, cell: Any) -> None:
    """Directions, first states, peepholes, coupled gates, both resets: all results near ONNX Runtime's.

    It runs the same file, whose weights, sequence, first and last states are codes, with float gates and an h
    that no code rounds between two steps.
    """
    layer = usual_layer(seed, cell)
    proto, feeds = onnx_model(layer), random_sequences(layer.program, np.random.default_rng(seed))
    for name in {"h", "c"} & feeds.keys():
        feeds[name] = np.tanh(feeds[name])
    model = coded(proto, feeds)
    program = lower(model, profile="single", integer_only=True)
    restore_own_quantizers(model)
    kinds = [type(step) for step in program.instructions]
    assert kinds.count(IntegerLstm if cell == "LSTM" else IntegerGru) == len(layer.step.directions)
    for got, wanted in zip(run_program(program, feeds), run(model, feeds), strict=True):
        assert got.shape == wanted.shape
        error, size = np.abs(got - wanted), max(1.0, np.abs(wanted).max())
        assert error.max() < 0.03 * size and np.sqrt(np.square(error).mean()) < 0.004 * size


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize("seed", range(4))
def test_samples_may_come_first(seed: int, cell: Any) -> None:
    """Layout 1 gives the bits of layout 0 (ONNX Runtime has the latter alone)."""
    layer = usual_layer(seed, cell)
    proto, feeds = onnx_model(layer), random_sequences(layer.program, np.random.default_rng(seed))
    model = coded(proto, feeds)
    wanted = run_program(lower(model, profile="single", integer_only=True), feeds)
    [node] = [node for node in model.graph if node.op_type == cell]
    node.attributes["layout"] = ir.AttrInt64("layout", 1)
    for value in (*model.graph.inputs, *node.outputs, *model.graph.outputs):
        value.shape = (
            None if value.shape is None else ir.Shape(list(value.shape)[1::-1] + list(value.shape)[2:])
        )
    for value in (*(v for n in model.graph for v in n.outputs), *model.graph.outputs):
        value.shape = None
    turned_feeds = {name: array.swapaxes(0, 1).copy() for name, array in feeds.items()}
    got = run_program(lower(model, profile="single", integer_only=True), turned_feeds)
    np.testing.assert_array_equal(got[0].transpose(1, 2, 0, 3), wanted[0])
    for mine, other in zip(got[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(mine.swapaxes(0, 1), other)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_cells_of_all_steps_are_those_of_the_layer(direction: str) -> None:
    """The last c of every direction is the one that the layer gives, and no step before it is left out."""
    rng = np.random.default_rng(3)
    layer = usual_layer(3, "LSTM")
    while len(layer.step.directions) != 1 + (direction == "bidirectional"):
        layer = usual_layer(int(rng.integers(1 << 30)), "LSTM")
    proto, feeds = onnx_model(layer), random_sequences(layer.program, rng)
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "direction":
            attribute.s = direction.encode()
    model = load_model(proto)
    [name] = cells_of(model)
    [cells] = run_tapped(model, [name], feeds)
    last, units = run(proto, feeds)[2], layer.step.units
    assert cells.shape == (SIZES[0], SIZES[1], len(last) * units)
    for d, ending in enumerate(last):
        backwards = direction == "reverse" or d == 1
        part = cells[0 if backwards else -1, :, d * units : (d + 1) * units]
        np.testing.assert_allclose(part, ending, atol=1e-6)


def test_profile_onnx_keeps_float_gates() -> None:
    """The same file computes as ONNX Runtime does unless integers are asked for."""
    layer = usual_layer(0, "LSTM")
    proto, feeds = onnx_model(layer), random_sequences(layer.program, np.random.default_rng(0))
    program = lower(coded(proto, feeds), profile="onnx")
    assert any(isinstance(step, Recurrent) for step in program.instructions)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "its activation Relu has no form of integers"),
        ({"clip": 3.0}, "it clips what gates read at 3"),
        ({"lengths": True}, "its sequences have lengths"),
        ({"cell": "RNN"}, "RNN has no form of integers throughout"),
    ],
)
def test_what_has_no_form_of_integers_is_told_by_name(change: dict[str, Any], told: str) -> None:
    rng, cell = np.random.default_rng(5), change.get("cell", "LSTM")
    extras = ["lengths"] if "lengths" in change else []
    layer = random_layer(rng, cell, SIZES, extras=extras, usual=True)
    proto = onnx_model(layer)
    [node] = proto.graph.node
    kept = [one for one in node.attribute if one.name not in change]
    del node.attribute[:]
    count = len(layer.step.directions)
    own = {key: value for key, value in change.items() if key in ("activations", "clip")}
    if "activations" in own:
        own["activations"] = own["activations"] * count
    node.attribute.extend([*kept, *(helper.make_attribute(key, value) for key, value in own.items())])
    [decision] = place(load_model(proto), SCHEME).decisions
    assert (decision.quantized, decision.reason) == (False, told)


def test_a_file_without_the_scale_of_a_cell_is_refused_by_name() -> None:
    layer = usual_layer(0, "LSTM")
    proto, feeds = onnx_model(layer), random_sequences(layer.program, np.random.default_rng(0))
    model = coded(proto, feeds)
    for node in model.graph:
        node.metadata_props.pop(CELL_SCALE, None)
    with pytest.raises(UnsupportedModelError, match="nothing states the scale of its cell"):
        lower(model, profile="single", integer_only=True)
