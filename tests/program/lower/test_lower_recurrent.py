"""Lowering of LSTM, GRU and RNN with weights in codes: one instruction, whose result the engine moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from qdq_nets import lowered, steps
from recurrent_cells import Layer, onnx_model, random_layer, random_sequences

from bits import assert_same_bits
from calib8 import InferenceSession, UnsupportedModelError
from calib8.engine.compile import compile_program
from calib8.program.instructions import Recurrent
from calib8.program.ops.cells import Cell
from calib8.program.program import Program
from calib8.program.reference.executor import run_program

Array = npt.NDArray[Any]
CELLS: tuple[Cell, ...] = ("LSTM", "GRU", "RNN")


def coded(
    model: onnx.ModelProto, layer: Layer, *, concat: bool = True, per_tensor: bool = False
) -> onnx.ModelProto:
    """The model of a layer with W and R behind DequantizeLinear, as ``quantize`` writes them."""
    graph, step = model.graph, layer.step
    kept = [array for array in graph.initializer if array.name not in "WR"]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    nodes: list[onnx.NodeProto] = []
    for name, codes, scales in (
        ("W", step.weight, step.weight_scale),
        ("R", step.recurrent, step.recurrent_scale),
    ):
        parts = []
        for d in range(len(codes)):
            scale = np.array(0.01, np.float32) if per_tensor else scales[d]
            point = np.zeros(scale.shape, np.int8)
            stem = f"{name}{d}"
            for suffix, array in (("codes", codes[d : d + 1]), ("scale", scale), ("point", point)):
                graph.initializer.append(onnx.numpy_helper.from_array(array, f"{stem}/{suffix}"))
            inputs = [f"{stem}/{suffix}" for suffix in ("codes", "scale", "point")]
            out = name if len(codes) == 1 else f"{stem}/float"
            extra = {} if per_tensor else {"axis": 1}
            nodes.append(helper.make_node("DequantizeLinear", inputs, [out], stem, **extra))
            parts.append(out)
        if len(parts) == 2:
            nodes.append(helper.make_node("Concat", parts, [name], f"{name}/joined", axis=0))
    layers = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *layers])
    return model


def moved_out(program: Program) -> list[str]:
    return [name for name in steps(program) if name not in ("Slice", "Reshape")]


def same_step(found: Recurrent, wanted: Recurrent) -> None:
    """All fields but the slots."""
    for field in vars(wanted):
        if field in ("name", "inputs", "outputs"):
            continue
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field), err_msg=field)


def sole(program: Program) -> Recurrent:
    (found,) = (step for step in program.instructions if isinstance(step, Recurrent))
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("seed", range(25))
def test_every_attribute_and_input_arrives(seed: int, cell: Cell) -> None:
    rng = np.random.default_rng((3, seed))
    layer = random_layer(rng, cell, (4, 2, 3, 5))
    program = lowered(coded(onnx_model(layer), layer))
    assert not program.float_instructions
    assert moved_out(program) == ["Recurrent"]
    same_step(sole(program), layer.step)
    feeds = random_sequences(layer.program, rng)
    (rows,) = run_program(layer.program, feeds)
    got = run_program(program, feeds)
    for mine, wanted in zip(got, [rows[:4], *rows[4:]], strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_onnxruntime_runs_the_same_file_in_float() -> None:
    for seed, cell in enumerate(CELLS):
        rng = np.random.default_rng((4, seed))
        layer = random_layer(rng, cell, (9, 2, 12, 16), usual=True)
        proto = coded(onnx_model(layer), layer)
        feeds = random_sequences(layer.program, rng)
        got, wanted = (
            run_program(lowered(proto), feeds)[0],
            np.asarray(ort.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]),
        )
        assert 10 * np.log10(np.square(wanted).sum() / np.square(got - wanted).sum()) > 40


def test_one_scale_for_all_serves_every_row() -> None:
    layer = forward(np.random.default_rng(5), "GRU", (3, 1, 4, 4))
    step = sole(lowered(coded(onnx_model(layer), layer, per_tensor=True)))
    assert (
        step.weight_scale == np.float32(0.01)
    ).all() and step.weight_scale.shape == layer.step.weight_scale.shape


def test_only_what_is_read_is_taken_out() -> None:
    layer = random_layer(np.random.default_rng(6), "LSTM", (3, 1, 4, 4), usual=True)
    proto = coded(onnx_model(layer), layer)
    del proto.graph.output[1:]
    program = lowered(proto)
    assert steps(program) == ["Recurrent", "Slice"]
    assert {row.opcode for row in compile_program(program).rows} == {"recurrent", "copy"}


def stacked(layout: str = "") -> onnx.ModelProto:
    """Two bidirectional layers as PyTorch exports them, Transpose and Reshape between and behind them."""
    rng = np.random.default_rng(7)
    nodes, initializers = [], []
    source, inputs = "x", 6
    for number in range(2):
        while True:
            layer = random_layer(rng, "LSTM", (7, 2, inputs, 4), usual=True)
            if len(layer.step.directions) == 2:
                break
        proto = coded(onnx_model(layer), layer)
        names = {
            name: f"{name}.{number}"
            for node in proto.graph.node
            for name in (*node.input, *node.output)
            if name
        }
        names["x"] = source
        for node in proto.graph.node:
            for side in (node.input, node.output):
                side[:] = [names.get(name, "") for name in side]
            node.name = f"{node.name}.{number}"
            nodes.append(node)
        for array in proto.graph.initializer:
            array.name = names[array.name]
            initializers.append(array)
        shape = f"shape.{number}"
        initializers.append(onnx.numpy_helper.from_array(np.array([0, 0, -1]), shape))
        nodes.append(
            helper.make_node("Transpose", [f"Y.{number}"], [f"t.{number}"], f"t.{number}", perm=[0, 2, 1, 3])
        )
        nodes.append(helper.make_node("Reshape", [f"t.{number}", shape], [f"r.{number}"], f"r.{number}"))
        source, inputs = f"r.{number}", 8
    graph = helper.make_graph(
        nodes,
        "stacked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 2, 6])],
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, [7, 2, 8])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_moves_between_layers_stay_in_the_engine() -> None:
    proto = stacked()
    program = lowered(proto)
    assert not program.float_instructions
    x = np.random.default_rng(8).normal(0, 1, (7, 2, 6)).astype(np.float32)
    (got,) = run_program(program, {"x": x})
    (wanted,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert 10 * np.log10(np.square(wanted).sum() / np.square(got - wanted).sum()) > 35


def behind(*moves: onnx.NodeProto, sizes: tuple[int, ...]) -> onnx.ModelProto:
    """The first layer of ``stacked`` behind moves of the input "image", [2, 7, 6] in another form."""
    proto = stacked()
    graph = proto.graph
    layers = list(graph.node)
    last = next(node for node in layers if node.op_type == "LSTM")
    del graph.node[:]
    graph.node.extend([*moves, *layers[: layers.index(last) + 1]])
    graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.FLOAT, sizes))
    graph.output[0].CopyFrom(helper.make_tensor_value_info(last.output[0], TensorProto.FLOAT, [7, 1, 2, 5]))
    return proto


def test_moves_of_a_float_input_to_a_layer_stay_in_the_engine() -> None:
    turned = helper.make_node("Transpose", ["image"], ["x"], "turned", perm=[1, 0, 2])
    program = lowered(behind(turned, sizes=(2, 7, 6)))
    assert steps(program)[0] == "Transpose"
    assert not program.float_instructions
    x = np.random.default_rng(8).normal(0, 1, (2, 7, 6)).astype(np.float32)
    (got,) = run_program(program, {"image": x})
    first = behind(helper.make_node("Identity", ["image"], ["x"]), sizes=(7, 2, 6))
    (wanted,) = run_program(lowered(first), {"image": x.transpose(1, 0, 2).copy()})
    np.testing.assert_array_equal(got, wanted)


def test_what_computes_before_a_layer_stays_float() -> None:
    """Floats that no layer reads, or not as they are, go to ONNX Runtime as before."""
    program = lowered(behind(helper.make_node("Neg", ["image"], ["x"], "turned"), sizes=(7, 2, 6)))
    assert len(program.float_instructions) == 1


def test_parts_of_the_result_are_read_where_they_are() -> None:
    """A Copy for every Transpose, none for the Slice before it; the last one fills the caller's array."""
    opcodes = [row.opcode for row in compile_program(lowered(stacked())).rows]
    assert opcodes == ["recurrent", "copy", "recurrent", "copy", "copy"]


def forward(rng: np.random.Generator, cell: Cell, sizes: tuple[int, int, int, int]) -> Layer:
    """A layer of one direction without anything unusual."""
    while True:
        layer = random_layer(rng, cell, sizes, usual=True)
        if len(layer.step.directions) == 1:
            return layer


def test_what_has_no_form_stays_float_and_says_why() -> None:
    layer = forward(np.random.default_rng(9), "LSTM", (3, 1, 4, 4))
    proto = coded(onnx_model(layer), layer)
    node = proto.graph.node[-1]
    kept = [attribute for attribute in node.attribute if attribute.name != "activations"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("activations", ["Elu", "Tanh", "Tanh"])])
    with pytest.raises(UnsupportedModelError, match="its activation Elu has no form"):
        lowered(proto, integer_only=True)


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
def test_an_activation_without_its_numbers_is_left_to_onnx_runtime(runtime: str) -> None:
    """ONNX has no defaults for the α and β of Affine: nobody here makes some up."""
    layer = forward(np.random.default_rng(9), "RNN", (3, 1, 4, 4))
    proto = coded(onnx_model(layer), layer)
    node = proto.graph.node[-1]
    kept = [one for one in node.attribute if not one.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("activations", ["Affine"])])
    with pytest.raises(UnsupportedModelError, match="Affine without activation_alpha"):
        lowered(proto, integer_only=True)
    feeds = random_sequences(layer.program, np.random.default_rng(1))
    found = InferenceSession(proto, runtime=runtime).run(None, feeds)
    wanted = ort.InferenceSession(proto.SerializeToString()).run(None, feeds)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("cell", "changes", "told"),
    [
        (
            "LSTM",
            {"activations": ["Sigmoid", "Elu", "Tanh"]},
            "its activation Elu has no form beside integers",
        ),
        ("GRU", {"activations": ["Sigmoid", "Relu"]}, "its activation Relu has no form of integers"),
        ("LSTM", {"clip": 2.0}, "it clips what gates read at 2"),
        ("RNN", {}, "RNN has no form of integers throughout"),
        ("GRU", {}, "its weights are not quantized"),
    ],
)
def test_a_float_layer_says_what_keeps_it_from_integers(
    cell: Cell, changes: dict[str, Any], told: str
) -> None:
    """Not that its weights are float, where no codes of them would help."""
    layer = forward(np.random.default_rng(9), cell, (3, 1, 4, 4))
    proto = onnx_model(layer)
    kept = [attribute for attribute in proto.graph.node[-1].attribute if attribute.name != "activations"]
    del proto.graph.node[-1].attribute[:]
    proto.graph.node[-1].attribute.extend(kept)
    proto.graph.node[-1].attribute.extend(helper.make_attribute(*one) for one in changes.items())
    with pytest.raises(UnsupportedModelError) as caught:
        lowered(proto, "single", integer_only=True)
    assert f"({cell}): {told}. Quantize" in str(caught.value)
    hint = "LSTM and GRU with recurrent='integer'" in str(caught.value)
    assert hint == (told == "its weights are not quantized")


@pytest.mark.parametrize("cell", CELLS)
def test_its_gates_are_no_integers(cell: Cell, tmp_path: Path) -> None:
    """Who asks for integers alone is told of the float32 inside: by the model, a program and a plan."""
    layer = random_layer(np.random.default_rng(11), cell, (3, 1, 4, 4), usual=True)
    proto = coded(onnx_model(layer), layer)
    assert not lowered(proto).float_instructions
    with pytest.raises(UnsupportedModelError, match=rf"\({cell}: its gates and states are float32\)"):
        lowered(proto, integer_only=True)
    program, plan = lowered(proto, "single"), tmp_path / "cell.c8"
    InferenceSession(program).save(plan)
    for held in (program, plan):
        with pytest.raises(UnsupportedModelError, match="is not integer only, it has nodes without"):
            InferenceSession(held, integer_only=True)


def test_float_weights_stay_float() -> None:
    layer = random_layer(np.random.default_rng(10), "GRU", (3, 1, 4, 4), usual=True)
    program = lowered(onnx_model(layer))
    assert len(program.float_instructions) == 1
    assert list(program.float_reasons.values()) == ["its weights are not quantized"]


def test_first_states_of_zeros_and_full_lengths_need_no_input() -> None:
    layer = random_layer(
        np.random.default_rng(11), "LSTM", (3, 2, 4, 4), extras=("h", "c", "lengths"), usual=True
    )
    proto = coded(onnx_model(layer), layer)
    count = len(layer.step.directions)
    for name, array in (
        ("h", np.zeros((count, 2, 4), np.float32)),
        ("c", np.zeros((count, 2, 4), np.float32)),
        ("lengths", np.full(2, 3, np.int32)),
    ):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del proto.graph.input[1:]
    assert sole(lowered(proto)).extras == ()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layout", [0, 1])
def test_first_states_and_lengths_that_never_change(cell: Cell, layout: int) -> None:
    """The bits of a layer that reads them as inputs, in NumPy and natively; integers throughout have none."""
    rng = np.random.default_rng(21)
    extras = ("h", "c", "lengths") if cell == "LSTM" else ("h", "lengths")
    layer = random_layer(rng, cell, (5, 3, 4, 6), extras=extras, usual=True)
    feeds = random_sequences(layer.program, rng) | {"lengths": np.array([5, 2, 0], np.int32)}
    proto = coded(onnx_model(layer), layer)
    for port in proto.graph.output:
        port.type.tensor_type.ClearField("shape")
    del proto.graph.input[1:]
    swap = (lambda array: array.swapaxes(0, 1).copy()) if layout else (lambda array: array)
    for name in extras:
        array = feeds[name] if name == "lengths" else swap(feeds[name])
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    if layout:
        proto.graph.node[-1].attribute.append(helper.make_attribute("layout", 1))
        sizes = proto.graph.input[0].type.tensor_type.shape.dim
        sizes[0].dim_value, sizes[1].dim_value = 3, 5
    program = lowered(proto)
    assert not program.float_instructions and sole(program).extras == extras
    (rows,) = run_program(layer.program, feeds)
    y, y_h, *_ = run_program(program, {"x": swap(feeds["x"])})
    np.testing.assert_array_equal(y, rows[:5].transpose(2, 0, 1, 3) if layout else rows[:5])
    np.testing.assert_array_equal(y_h, swap(rows[5]))
    assert_same_bits(program, {"x": swap(feeds["x"])})
    text = "RNN has no form" if cell == "RNN" else "its first states are constants that are not 0"
    with pytest.raises(UnsupportedModelError, match=text):
        lowered(proto, "single", integer_only=True)


def test_first_states_that_are_no_numbers_stay_float() -> None:
    layer = random_layer(np.random.default_rng(22), "GRU", (3, 2, 4, 4), extras=("h",), usual=True)
    proto = coded(onnx_model(layer), layer)
    lost = np.full((len(layer.step.directions), 2, 4), np.inf, np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(lost, "h"))
    del proto.graph.input[1:]
    assert list(lowered(proto).float_reasons.values())[-1] == "its first states hold NaN or Inf"


def test_layout_1_has_samples_first() -> None:
    """x [N, T, I], Y [N, T, D, H] and states [N, D, H], which ONNX Runtime does not run."""
    rng = np.random.default_rng(12)
    layer = random_layer(rng, "LSTM", (4, 2, 3, 5), extras=("h", "c"), usual=True)
    proto = coded(onnx_model(layer), layer)
    proto.graph.node[-1].attribute.append(helper.make_attribute("layout", 1))
    for port in proto.graph.input:
        sizes = port.type.tensor_type.shape.dim
        sizes[0].dim_value, sizes[1].dim_value = sizes[1].dim_value, sizes[0].dim_value
    count = len(layer.step.directions)
    for port, shape in zip(proto.graph.output, ((2, 4, count, 5), (2, count, 5), (2, count, 5)), strict=True):
        port.CopyFrom(helper.make_tensor_value_info(port.name, TensorProto.FLOAT, shape))
    program = lowered(proto)
    assert not program.float_instructions
    feeds = random_sequences(layer.program, rng)
    (rows,) = run_program(layer.program, feeds)
    y, y_h, y_c = run_program(program, {name: array.swapaxes(0, 1).copy() for name, array in feeds.items()})
    np.testing.assert_array_equal(y, rows[:4].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(y_h, rows[4].swapaxes(0, 1))
    np.testing.assert_array_equal(y_c, rows[5].swapaxes(0, 1))
