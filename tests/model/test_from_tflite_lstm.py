"""LSTMs of float TFLite files as ONNX's: LiteRT's results, the way to int8, and what is told by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from float_operators import FloatNet
from litert import litert_outputs
from single_op import quantized

import calib8
from calib8.errors import Calib8Error
from calib8.model.from_tflite.translate import float_model
from calib8.model.runtime import open_session
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

STEPS, INPUTS, UNITS = 7, 5, 6


class Layer:
    """A model of one layer while it is put together; ``inputs``: place of an input → tensor."""

    def __init__(self, op: str, seed: int, count: int, samples: int, *, time_major: bool) -> None:
        self.net, self.op = FloatNet(np.random.default_rng(seed)), op
        self.inputs = [-1] * count
        self.samples = samples
        self.shape = (STEPS, samples, INPUTS) if time_major else (samples, STEPS, INPUTS)
        self.inputs[0] = self.net.fed(*self.shape)
        self.options = {"time_major": time_major, "fused_activation_function": "TANH"}

    def direction(self, first: int, *, coupled: bool, peephole: bool, inputs: int = INPUTS) -> None:
        for place in range(first + coupled, first + 4):
            self.inputs[place] = self.net.normal(UNITS, inputs)
            self.inputs[place + 4] = self.net.normal(UNITS, UNITS)
            self.inputs[place + 11] = self.net.normal(UNITS)
        for place in range(first + 8 + coupled, first + 11) if peephole else ():
            self.inputs[place] = self.net.normal(UNITS)

    def states(self, first: int, count: int) -> None:
        for place in range(first, first + count):
            self.inputs[place] = self.net.add(
                Tensor("state", (self.samples, UNITS), "float32", is_variable=True)
            )

    def graph(self, *widths: int, **options: object) -> Graph:
        places = [self.net.add(Tensor("y", (*self.shape[:2], width), "float32")) for width in widths]
        operator = Operator(self.op, tuple(self.inputs), tuple(places), {**self.options, **options})  # type: ignore[arg-type]
        return Graph(tuple(self.net.tensors), (operator,), tuple(self.net.inputs), tuple(places), "net")


def one_way(
    seed: int = 0, *, time_major: bool = False, coupled: bool = False, peephole: bool = False
) -> Graph:
    layer = Layer("UNIDIRECTIONAL_SEQUENCE_LSTM", seed, 24, 2, time_major=time_major)
    layer.direction(1, coupled=coupled, peephole=peephole)
    layer.states(18, 2)
    return layer.graph(UNITS)


def both_ways(
    seed: int = 0, samples: int = 2, *, time_major: bool = False, coupled: bool = False, merged: bool = True
) -> Graph:
    layer = Layer("BIDIRECTIONAL_SEQUENCE_LSTM", seed, 48, samples, time_major=time_major)
    layer.direction(1, coupled=coupled, peephole=False)
    layer.direction(18, coupled=coupled, peephole=False)
    layer.states(35, 4)
    return layer.graph(*((2 * UNITS,) if merged else (UNITS, UNITS)), merge_outputs=merged)


GRAPHS = [
    *(one_way(0, time_major=major, coupled=coupled) for major in (False, True) for coupled in (False, True)),
    one_way(1, peephole=True),
    one_way(2, peephole=True, coupled=True),
    *(both_ways(3, time_major=True, merged=merged) for merged in (False, True)),
    both_ways(3, merged=False),
    both_ways(4, 1, coupled=True),  # of more samples LiteRT takes merged results for states: a fault
]


@pytest.mark.parametrize("graph", GRAPHS)
def test_layers_give_what_litert_gives(graph: Graph) -> None:
    model = serialize(graph)
    x = np.random.default_rng(9).normal(0, 1, graph.tensors[graph.inputs[0]].shape).astype(np.float32)
    session = open_session(float_model(parse(model), "net"))
    names = [spec.name for spec in session.inputs]
    for got, wanted in zip(session.run({names[0]: x}), litert_outputs(model, [x]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def with_layer(graph: Graph) -> Graph:
    """A FULLY_CONNECTED behind it."""
    weight = np.random.default_rng(8).normal(0, 1, (4, UNITS)).astype(np.float32)
    count = len(graph.tensors)
    tensors = (Tensor("w", weight.shape, "float32", weight), Tensor("z", (2, STEPS, 4), "float32"))
    options = {"keep_num_dims": True, "fused_activation_function": "NONE"}
    layer = Operator("FULLY_CONNECTED", (graph.outputs[0], count, -1), (count + 1,), options, 5)
    return replace(
        graph, tensors=graph.tensors + tensors, operators=(*graph.operators, layer), outputs=(count + 1,)
    )


def test_a_layer_is_quantized_like_that_of_any_model(tmp_path: Path) -> None:
    path, graph = tmp_path / "lstm.tflite", with_layer(one_way(5))
    path.write_bytes(serialize(graph))
    x = np.random.default_rng(9).normal(0, 1, (24, 2, STEPS, INPUTS)).astype(np.float32)
    name = graph.tensors[graph.inputs[0]].name
    made = calib8.quantize(path, [{name: each} for each in x], target="calib8", effort="fast")
    made.save(tmp_path / "lstm.onnx")
    session = InferenceSession(tmp_path / "lstm.onnx")
    assert [type(step).__name__ for step in session.program.instructions].count("Recurrent") == 1
    [wanted] = litert_outputs(serialize(graph), [x[0]])
    [got] = session.run(None, {name: x[0]})
    noise = np.sum((got - wanted) ** 2) / np.sum(wanted**2)
    assert 10 * np.log10(noise) < -25


def with_operator(graph: Graph, place: int = 0, shape: tuple[int, ...] = (), **options: object) -> Graph:
    """Other options, and a constant as a further input."""
    [operator] = graph.operators
    inputs, tensors = list(operator.inputs), list(graph.tensors)
    if shape:
        inputs[place] = len(tensors)
        tensors.append(Tensor("further", shape, "float32", np.ones(shape, np.float32)))
    changed = replace(operator, inputs=tuple(inputs), options={**operator.options, **options})  # type: ignore[arg-type]
    return replace(graph, tensors=tuple(tensors), operators=(changed,))


def with_codes(graph: Graph) -> Graph:
    """Weights of 8 bits beside float activations."""
    tensors, [operator] = list(graph.tensors), graph.operators
    for place in range(1, 9):
        tensor = tensors[operator.inputs[place]]
        assert tensor.data is not None
        changed = replace(
            tensor, dtype="int8", data=tensor.data.astype(np.int8), quantization=quantized(1, 0)
        )
        tensors[operator.inputs[place]] = changed
    return replace(graph, tensors=tuple(tensors))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda: with_operator(one_way(), 16, (4, UNITS)),
            "it has a projection, which ONNX's LSTM does not have",
        ),
        (lambda: with_operator(one_way(), 21, (UNITS,)), "it has norms"),
        (lambda: with_operator(one_way(), cell_clip=0.5), "its cell_clip is 0.5; ONNX's LSTM bounds no cell"),
        (lambda: with_operator(one_way(), fused_activation_function="RELU6"), "its activation is RELU6"),
        (
            lambda: with_operator(one_way(), 2, (UNITS + 1, INPUTS)),
            "its gates have weights and biases of shapes",
        ),
        (lambda: with_operator(one_way(), 12, (UNITS, 1)), r"is float32 \[6, 1\]"),
        (lambda: with_operator(both_ways(), 39, (STEPS, 2, INPUTS)), "it has a second input"),
        (lambda: with_operator(both_ways(), merge_outputs=False), "it has 1 outputs, merged: False"),
        (
            lambda: with_codes(one_way()),
            "UNIDIRECTIONAL_SEQUENCE_LSTM. has float activations and 8-bit weights",
        ),
    ],
)
def test_what_onnx_does_not_have_is_told(change: Callable[[], Graph], told: str) -> None:
    with pytest.raises(Calib8Error, match=told):
        float_model(parse(serialize(change())), "net")


def test_a_hybrid_layer_is_told_to_sessions_too() -> None:
    with pytest.raises(Calib8Error, match="dynamic-range"):
        InferenceSession(serialize(with_codes(one_way())))


def test_a_float_layer_between_codes_runs_in_float() -> None:
    """Its input comes from codes; ONNX Runtime runs the layer."""
    graph = one_way(6)
    [operator] = graph.operators
    fed = graph.inputs[0]
    x = graph.tensors[fed]
    codes = Tensor("codes", x.shape, "int8", None, quantized(0.05, 3))
    tensors = (*graph.tensors, codes)
    first = Operator("DEQUANTIZE", (len(graph.tensors),), (fed,))
    mixed = replace(graph, tensors=tensors, operators=(first, operator), inputs=(len(graph.tensors),))
    program = lower_tflite(parse(serialize(mixed)))
    assert len(program.float_instructions) == 1
    fed_codes = np.random.default_rng(1).integers(-128, 128, x.shape).astype(np.int8)
    [wanted] = litert_outputs(serialize(mixed), [fed_codes])
    [got] = InferenceSession(program, runtime="reference").run(None, {codes.name: fed_codes})
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
