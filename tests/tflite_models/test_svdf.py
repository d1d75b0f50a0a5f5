"""SVDF of 8-bit codes, bit for bit as LiteRT's kernels have it, its state carried; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases_svdf import random_svdf, svdf
from single_op import CASES, quantized, random_codes
from test_variables import assert_same_stream

from calib8.analysis.tflite_sessions import open_in_litert, open_in_own
from calib8.errors import Calib8Error
from calib8.program.instructions import FullyConnected, TimeFilter
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.session import InferenceSession
from calib8.tflite.graph import Graph
from calib8.tflite.read import parse
from calib8.tflite.write import serialize


def frames(rng: np.random.Generator, graph: Graph, count: int) -> np.ndarray:
    return random_codes(rng, (count, *graph.tensors[graph.inputs[0]].shape), "int8")


@pytest.mark.parametrize("part", range(4))
def test_random_layers(part: int) -> None:
    for seed in range(part * CASES // 4, (part + 1) * CASES // 4):
        rng = np.random.default_rng((34, seed))
        graph = random_svdf(rng)
        assert_same_stream(serialize(graph), frames(rng, graph, 15))


def test_sums_beyond_32_bits_wrap_as_those_of_litert() -> None:
    rng = np.random.default_rng(1)
    graph = svdf(rng, 1, 40, 6, 2, 10, wide=True)
    fed = np.repeat(frames(rng, graph, 1), 15, axis=0)  # the state grows to ten times one value
    assert_same_stream(serialize(graph), fed, least=5)


def test_a_thousand_frames() -> None:
    rng = np.random.default_rng(2)
    graph = svdf(rng, 1, 12, 4, 2, 8)
    assert_same_stream(serialize(graph), frames(rng, graph, 1000), least=800)


def test_a_layer_of_codes_and_a_filter_over_time() -> None:
    program = lower_tflite(parse(serialize(svdf(np.random.default_rng(0), 2, 5, 3, 2, 4))))
    kinds = [type(step) for step in program.instructions]
    assert kinds.count(FullyConnected) == kinds.count(TimeFilter) == len(program.states) == 1
    assert not program.float_instructions


def test_a_reset_begins_with_zeros() -> None:
    rng = np.random.default_rng(3)
    graph = svdf(rng, 1, 6, 4, 1, 5)
    session, fed = InferenceSession(serialize(graph)), frames(rng, graph, 8)
    name = session.inputs[0].name
    first = [session.run(None, {name: frame})[0] for frame in fed]
    session.reset()
    again = [session.run(None, {name: frame})[0] for frame in fed]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[4], InferenceSession(serialize(graph)).run(None, {name: fed[4]})[0])


def test_both_runtimes_of_an_evaluation_keep_the_state(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    graph = svdf(rng, 1, 6, 4, 1, 5)
    path = tmp_path / "svdf.tflite"
    path.write_bytes(serialize(graph))
    reals = rng.normal(0, 2, (6, 1, 6)).astype(np.float32)
    here, there = open_in_own(path, "calib8", 1, None, False), open_in_litert(path, "litert-reference", 1)
    [name] = [spec.name for spec in here.inputs]
    for frame in reals:
        np.testing.assert_array_equal(here.run({name: frame})[0], there.run({name: frame})[0])


def with_tensor(graph: Graph, place: int, **changes: object) -> Graph:
    tensors, number = list(graph.tensors), graph.operators[0].inputs[place]
    tensors[number] = replace(tensors[number], **changes)  # type: ignore[arg-type]
    return replace(graph, tensors=tuple(tensors))


def with_options(graph: Graph, **options: object) -> Graph:
    [operator] = graph.operators
    return replace(graph, operators=(replace(operator, options={**operator.options, **options}),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda g: with_tensor(g, 4, is_variable=False), "before it is computed"),
        (lambda g: with_tensor(g, 4, dtype="int8"), "its state is int8, not int16"),
        (lambda g: with_tensor(g, 4, shape=(1, 21)), r"its state has shape \[1, 21\], not \[1, 24\]"),
        (lambda g: with_tensor(g, 4, quantization=quantized(0.001, 3)), "has the zero point 3"),
        (lambda g: with_tensor(g, 2, quantization=quantized(0.001, 3)), "has the zero point 3"),
        (lambda g: with_tensor(g, 1, quantization=quantized(0.001, 3)), "the zero point 0"),
        (
            lambda g: with_tensor(g, 2, dtype="int8", data=np.ones((6, 4), np.int8)),
            "its weights over time are int8",
        ),
        (lambda g: with_options(g, rank=4), "it has 6 and 6 filters of rank 4"),
        (lambda g: with_options(g, rank=0), "it has 6 and 6 filters of rank 0"),
        (lambda g: with_options(g, fused_activation_function="NONE"), "LiteRT's kernel takes RELU alone"),
        (lambda g: with_tensor(g, 3, data=np.zeros(3, np.float32), dtype="float32"), "its bias is float32"),
    ],
)
def test_what_the_kernel_does_not_have_is_told(change: Callable[[Graph], Graph], told: str) -> None:
    graph = change(svdf(np.random.default_rng(0), 1, 5, 3, 2, 4))
    with pytest.raises(Calib8Error, match=told):
        lower_tflite(parse(serialize(graph)))
