"""Bias correction in sequence: each layer's mean error behind the int8 layers before it, those corrected.

    e[c, i] = mean over pixels of y_q − mean over pixels of y          run i, before the activation
    m[c]    = median over i of e[c, i]
    v[c]    = (1.4826 · median of |e[c, i] − m[c]|)² · (π / 2) / n      square of the standard error of m
    b'[c]   = b[c] − m[c] · max(0, 1 − t² · v[c] / m[c]²)               t = 3

y is the layer's output in the float model, y_q in the int8 graph whose earlier layers have their new biases.
So it sees what the codes of activations do as well, and what earlier layers hand on. These errors depend on
the picture: without the last factor, which takes only what is certain, a network gets worse by it as often
as better. The int8 graph is cut behind every layer; each piece runs once for every run, on what the pieces
before it left. Layers before a Sigmoid and the like keep their bias: most of their values are settled, so the
mean over pixels tells nothing of those that count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant
from calib8.model.runtime import Arrays, keep_quantizers, open_session
from calib8.progress import SampleCounter
from calib8.repair.biases import NewBias, current_bias, put_biases, without_error
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, coded_layers
from calib8.repair.layer_means import channel_means, output_model, settling_function

SEQUENCE_RUNS: Final = 32
"""Errors differ more between runs than those of the weights alone."""

FLOAT64_TINY: Final = float(np.finfo(np.float64).tiny)

CERTAINTY: Final = 3.0
"""Standard errors within which an error may be chance."""


def correct_biases_in_sequence(
    candidate: Candidate, data: RepairData, *, certainty: float = CERTAINTY, most_runs: int = SEQUENCE_RUNS
) -> tuple[Candidate, RepairReport]:
    """Takes the typical error of every layer out of its bias, in the order of the graph.

    It starts from the biases that the candidate has, best those of ``correct_biases``. Keep the result only
    if runs that it has not seen agree. What lies between two layers is kept in memory for all runs.

    Args:
        candidate: what to correct.
        data: what to look at; without runs nothing is done.
        certainty: t: so many standard errors are taken off each error first; 0 takes all of it.
        most_runs: only the first so many runs are looked at, ≥ 1.

    Returns:
        The corrected candidate and a report, as of ``correct_biases``.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model or a piece of it.
    """
    graph = candidate.quantized()
    layers = coded_layers(candidate, graph)
    runs = data.runs[:most_runs]
    with_bias = [
        layer for layer in layers if layer.layer.takes_bias and runs and settling_function(layer.node) is None
    ]
    counter = SampleCounter("correcting biases in sequence", len(with_bias) * len(runs), data.progress)
    expected = _float_means(candidate.model, with_bias, runs, data.threads)
    pieces = _pieces(graph.model.graph, with_bias)
    live: list[dict[str, Any]] = [dict(feeds) for feeds in runs]
    biases = []
    for piece, means in zip(pieces, expected, strict=True):
        found = _run(graph.model, piece, live, data.threads)
        old = current_bias(candidate, piece.layer)
        biases.append(without_error(piece.layer, old, certain_part(found - means, certainty)))
        _shift(piece, biases[-1], old, live)
        counter(len(runs))
    return put_biases(candidate, layers, biases)


def certain_part(errors: Doubles, certainty: float) -> Doubles:
    """m · max(0, 1 − t² v / m²) of float64 [runs, channels]; float64 [channels].

    A single run is as certain as can be.
    """
    middle: Doubles = np.median(errors, axis=0)
    spread = 1.4826 * np.median(np.abs(errors - middle), axis=0)
    variance = spread * spread * (math.pi / 2.0) / len(errors)
    share = np.maximum(0.0, 1.0 - certainty**2 * variance / np.maximum(middle * middle, FLOAT64_TINY))
    return middle * share


@dataclass(frozen=True)
class _Piece:
    """What must be computed to get a layer's output, of what no piece before has computed.

    Attributes:
        layer: the layer that it ends with.
        inputs: names of inputs of the graph and values of earlier pieces that it reads.
        outputs: names of the layer's output and of all that later pieces read.
        unused: names of values that nobody reads behind it.
    """

    layer: CodedLayer
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    unused: frozenset[str]


def _pieces(graph: ir.Graph, layers: Sequence[CodedLayer]) -> list[_Piece]:
    """The graph in pieces, one per layer, in order; nodes that read only constants belong to all readers."""
    computed: set[ir.Value] = set(graph.inputs)
    bounds: list[tuple[dict[str, None], dict[str, None]]] = []
    for layer in layers:
        nodes = _needed(layer.coded, computed)
        values = [value for node in nodes for value in node.inputs if value is not None]
        read = {value.name or "": None for value in values if value in computed}
        made = [value for node in nodes if not _is_constant(node) for value in node.outputs]
        computed.update(made)
        bounds.append((read, {value.name or "": None for value in made}))
    found: list[_Piece] = []
    later: set[str] = set()
    for layer, (read, yielded) in zip(reversed(layers), reversed(bounds), strict=True):
        output = layer.coded.outputs[0].name or ""
        kept = [name for name in yielded if name in later and name != output]
        unused = frozenset({*read, output} - later)
        found.append(_Piece(layer, tuple(read), (output, *kept), unused))
        later.update(read)
    return found[::-1]


def _needed(layer: ir.Node, computed: set[ir.Value]) -> list[ir.Node]:
    """The layer and all nodes before it up to values that are computed already."""
    found: dict[ir.Node, None] = {}
    waiting: list[ir.Node | None] = [layer]
    while waiting:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found[node] = None
        waiting += [value.producer() for value in node.inputs if value is not None and value not in computed]
    return list(found)


def _is_constant(node: ir.Node) -> bool:
    return all(value is None or constant(value) is not None for value in node.inputs)


def _run(model: ir.Model, piece: _Piece, live: Sequence[dict[str, Any]], threads: int) -> Doubles:
    """Runs a piece, puts what it yields into ``live``; the layer's means, float64 [runs, output channels]."""
    graph = ir.convenience.extract(model.graph, piece.inputs, piece.outputs)
    part = ir.Model(graph, ir_version=model.ir_version)
    session = open_session(part, threads=threads, name=piece.layer.name, configure=keep_quantizers)
    means = []
    for values in live:
        outputs = session.run({name: values[name] for name in piece.inputs})
        values.update(zip(piece.outputs, outputs, strict=True))
        for name in piece.unused:
            values.pop(name, None)
        means.append(channel_means(outputs[0]))
    return np.array(means)


def _shift(piece: _Piece, new: NewBias, old: Any, live: Sequence[dict[str, Any]]) -> None:
    """What the new bias does to the layer's output."""
    change = (piece.layer.rounded(new.bias) - piece.layer.rounded(old)).astype(np.float32)
    name = piece.outputs[0]
    for values in live:
        if name in values:
            values[name] = values[name] + change.reshape(-1, *[1] * (values[name].ndim - 2))


def _float_means(
    prepared: ir.Model, layers: Sequence[CodedLayer], runs: Sequence[Arrays], threads: int
) -> list[Doubles]:
    """Means of the layers' outputs in the float model, float64 [runs, output channels] each."""
    if not layers:
        return []
    session = open_session(output_model(prepared, layers), threads=threads)
    rows = [[channel_means(array) for array in session.run(feeds)] for feeds in runs]
    return [np.array([row[index] for row in rows]) for index in range(len(layers))]
