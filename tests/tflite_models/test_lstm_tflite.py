"""UNIDIRECTIONAL_SEQUENCE_LSTM of 8-bit codes, bit for bit as LiteRT's kernel has it; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases_lstm import Sizes, Traits, lstm, random_lstm
from single_op import CASES, assert_same_bits, random_codes

from calib8.analysis.litert import LiteRtModel
from calib8.errors import UnsupportedModelError
from calib8.program.instructions import IntegerLstm
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize

SIZES = Sizes(4, 2, 5, 6, 6)


@pytest.mark.parametrize("part", range(4))
def test_random_layers(part: int) -> None:
    for seed in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = np.random.default_rng((28, seed))
        assert_same_bits(rng, random_lstm(rng, 10), runs=1)


def test_a_hundred_steps() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, random_lstm(rng, 100), runs=1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_two_hundred_layers_of_a_hundred_steps(part: int) -> None:
    for seed in range(10 * part, 10 * part + 10):
        rng = np.random.default_rng((29, seed))
        assert_same_bits(rng, random_lstm(rng, 100), runs=1)


@pytest.mark.parametrize(
    "traits",
    [
        Traits(),
        Traits(time_major=True),
        Traits(coupled=True),
        Traits(peephole=True, cell_clip=0.3),
        Traits(norm=True),
        Traits(projection=True, proj_clip=0.2),
        Traits(projection=True, projection_bias=False),
    ],
)
def test_everything_alone(traits: Traits) -> None:
    rng = np.random.default_rng(5)
    assert_same_bits(rng, lstm(rng, replace(SIZES, width=4), traits))


def test_one_instruction_and_what_the_file_says_of_intermediates_comes_back() -> None:
    graph = parse(serialize(lstm(np.random.default_rng(0), SIZES)))
    assert len(graph.operators[0].intermediates) == 5
    [step] = lower_tflite(graph).instructions
    assert isinstance(step, IntegerLstm)
    assert serialize(graph) == serialize(parse(serialize(graph)))


def with_tensor(graph: Graph, place: int, **changes: object) -> Graph:
    """Another tensor as an input of the operator."""
    tensors = list(graph.tensors)
    number = graph.operators[0].inputs[place]
    tensors[number] = replace(tensors[number], **changes)  # type: ignore[arg-type]
    return replace(graph, tensors=tuple(tensors))


def with_operator(graph: Graph, **changes: object) -> Graph:
    return replace(graph, operators=(replace(graph.operators[0], **changes),))  # type: ignore[arg-type]


def without_input(place: int) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        inputs = list(graph.operators[0].inputs)
        inputs[place] = -1
        return with_operator(graph, inputs=tuple(inputs))

    return change


def with_scale(place: int, scale: float) -> Callable[[Graph], Graph]:
    def change(graph: Graph) -> Graph:
        kind = graph.tensors[graph.operators[0].inputs[place]].quantization
        assert kind is not None
        return with_tensor(graph, place, quantization=replace(kind, scales=np.array([scale], np.float32)))

    return change


def with_option(**options: object) -> Callable[[Graph], Graph]:
    return lambda graph: with_operator(graph, options={**graph.operators[0].options, **options})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda graph: with_operator(graph, intermediates=()), "it has 0 intermediate tensors, not 5"),
        (without_input(18), "its input 18 is left out"),
        (without_input(0), "its input 0 is left out"),
        (without_input(14), "its input 14 is left out"),
        (with_scale(19, 0.003), "no power of two"),
        (with_scale(19, 2.0**-8), r"its cell has the scale 2\^-8; LiteRT has 2\^-15 … 2\^-9"),
        (with_scale(18, 0.5), "its state and 'y[0-9]+' differ in scale or zero point"),
        (with_option(cell_clip=-1.0), "its cell_clip is -1.0"),
        (with_option(diagonal_recurrent_tensors=True), "its recurrent weights are diagonals"),
        (
            lambda graph: with_tensor(graph, 2, data=np.zeros((6, 4), np.int8), shape=(6, 4)),
            r"its gates have weights or biases of shapes \[6, 4\] and \[6, 5\]",
        ),
        (
            lambda graph: with_tensor(graph, 12, data=np.zeros(6, np.int16), dtype="int16"),
            "is int16 .* not int32",
        ),
        (
            lambda graph: with_tensor(graph, 6, data=np.full((6, 6), -128, np.int8)),
            "has the recurrent weight -128",
        ),
        (lambda graph: with_operator(graph, version=9), "it is of version 9; known is 1 to"),
    ],
)
def test_what_is_refused(change: Callable[[Graph], Graph], told: str) -> None:
    graph = change(lstm(np.random.default_rng(1), SIZES))
    with pytest.raises(UnsupportedModelError, match=told):
        lower_tflite(graph)


def test_peepholes_beside_a_narrower_projection_are_refused_where_litert_mixes_samples() -> None:
    rng = np.random.default_rng(2)
    sizes = Sizes(3, 2, 4, 6, 5)
    traits = Traits(peephole=True, projection=True)
    assert_same_bits(rng, lstm(rng, sizes, traits), runs=1)
    with pytest.raises(UnsupportedModelError, match="peepholes of 6 units and a projection to 5"):
        lower_tflite(lstm(rng, sizes, replace(traits, time_major=True)))


def test_every_sample_begins_with_states_of_zero(tmp_path: Path) -> None:
    """Also in LiteRT, whose interpreter would carry them on from call to call."""
    graph = lstm(np.random.default_rng(3), SIZES)
    path = tmp_path / "net.tflite"
    path.write_bytes(serialize(graph))
    x, y = (graph.tensors[place].name for place in (graph.inputs[0], graph.outputs[0]))
    feeds = {x: random_codes(np.random.default_rng(4), (2, 4, 5), "int8")}
    runs = [LiteRtModel(path, "litert-reference", 1, [x], [y]), InferenceSession(path)]
    found = [run.run([y], feeds)[0] for run in runs for _ in range(2)]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_any_batch_where_the_file_leaves_it_free() -> None:
    graph = lstm(np.random.default_rng(6), replace(SIZES, samples=1))
    tensors = [
        replace(tensor, signature=(-1, *tensor.shape[1:]))
        if place in (*graph.inputs, *graph.outputs)
        else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    session = InferenceSession(serialize(replace(graph, tensors=tuple(tensors))))
    [name] = [tensor.name for tensor in session.get_inputs()]
    codes = random_codes(np.random.default_rng(7), (3, 4, 5), "int8")
    [together] = session.run(None, {name: codes})
    for sample in range(3):
        [alone] = session.run(None, {name: codes[sample : sample + 1]})
        np.testing.assert_array_equal(together[sample : sample + 1], alone)


def test_the_float_and_the_dynamic_range_form_are_told_by_name() -> None:
    graph = lstm(np.random.default_rng(8), SIZES)
    tensors = [
        replace(tensor, dtype="float32", quantization=None)
        if place in (*graph.inputs, *graph.outputs)
        else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    with pytest.raises(UnsupportedModelError, match=r"dynamic-range.*UNIDIRECTIONAL_SEQUENCE_LSTM"):
        lower_tflite(replace(graph, tensors=tuple(tensors)))
