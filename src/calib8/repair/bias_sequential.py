"""Bias correction in sequence: each layer's mean error behind the int8 layers before it, those corrected.

    e[c, i] = mean over pixels of y_q − mean over pixels of y          run i, before the activation
    m[c]    = median over i of e[c, i]
    v[c]    = (1.4826 · median of |e[c, i] − m[c]|)² · (π / 2) / n      square of the standard error of m
    b'[c]   = b[c] − m[c] · max(0, 1 − t² · v[c] / m[c]²)               t = 3

y is the layer's output in the float model, y_q in the int8 graph whose earlier layers have their new biases.
So it sees what the codes of activations do as well, and what earlier layers hand on. These errors depend on
the picture: without the last factor, which takes only what is certain, a network gets worse by it as often
as better. The int8 graph is cut behind every layer (``bias_pieces.py``); each piece runs for every run, on
what the pieces before it left. Layers before a Sigmoid and the like keep their bias: most of their values are
settled, so the mean over pixels tells nothing of those that count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from calib8.model.runtime import Arrays, Session, keep_quantizers, open_session
from calib8.progress import SampleCounter
from calib8.repair.bias_pieces import Piece, pieces
from calib8.repair.biases import current_bias, put_biases, without_error
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import CodedLayer, Doubles, Floats, coded_layers
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
    if runs that it has not seen agree. What lies between two layers is kept in memory for all runs, as codes
    where it is much.

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
    parts = pieces(graph.model, with_bias, runs)
    live: list[dict[str, Any]] = [dict(feeds) for feeds in runs]
    biases = []
    for piece, means in zip(parts, expected, strict=True):
        found = _means(graph.model, piece, live, data.threads)
        old = current_bias(candidate, piece.layer)
        new = without_error(piece.layer, old, certain_part(found - means, certainty))
        biases.append(new)
        change = (piece.layer.rounded(new.bias) - piece.layer.rounded(old)).astype(np.float32)
        if piece.codes:
            _codes(graph.model, piece, change, live, data.threads)
        else:
            _shift(piece, change, live)
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


def _means(model: ir.Model, piece: Piece, live: Sequence[dict[str, Any]], threads: int) -> Doubles:
    """Runs a piece, puts what it yields into ``live``; the layer's means, float64 [runs, output channels].

    What a wide layer yields is left out.
    """
    session = _session(model, piece, piece.inputs, piece.outputs, threads)
    output, *others = piece.outputs
    means = []
    for values in live:
        yielded, *rest = session.run({name: values[name] for name in piece.inputs})
        values.update(zip(others, rest, strict=True))
        if not piece.codes:
            values[output] = yielded
            _forget(piece, values)
        means.append(channel_means(yielded))
    return np.array(means)


def _shift(piece: Piece, change: Floats, live: Sequence[dict[str, Any]]) -> None:
    """What a change of the bias, float32 [output channels], does to the output of a plain layer."""
    name = piece.outputs[0]
    for values in live:
        if name in values:
            values[name] = values[name] + _per_channel(change, values[name].ndim)


def _codes(
    model: ir.Model, piece: Piece, change: Floats, live: Sequence[dict[str, Any]], threads: int
) -> None:
    """Runs a wide layer once more, for the codes behind its changed bias."""
    session = _session(model, piece, (*piece.inputs, piece.shift), piece.codes, threads)
    shift = _per_channel(change, piece.layer.weight.values.ndim)
    for values in live:
        yielded = session.run({**{name: values[name] for name in piece.inputs}, piece.shift: shift})
        values.update(zip(piece.codes, yielded, strict=True))
        _forget(piece, values)


def _per_channel(change: Floats, axes: int) -> Floats:
    """In a shape that is added to [N, channels, …] of so many axes."""
    return change.reshape(-1, *[1] * (axes - 2))


def _forget(piece: Piece, values: dict[str, Any]) -> None:
    for name in piece.unused:
        values.pop(name, None)


def _session(
    model: ir.Model, piece: Piece, inputs: Sequence[str], outputs: Sequence[str], threads: int
) -> Session:
    """What a piece makes of some values."""
    graph = ir.convenience.extract(model.graph, inputs, outputs)
    part = ir.Model(graph, ir_version=model.ir_version)
    return open_session(part, threads=threads, name=piece.layer.name, configure=keep_quantizers)


def _float_means(
    prepared: ir.Model, layers: Sequence[CodedLayer], runs: Sequence[Arrays], threads: int
) -> list[Doubles]:
    """Means of the layers' outputs in the float model, float64 [runs, output channels] each."""
    if not layers:
        return []
    session = open_session(output_model(prepared, layers), threads=threads)
    rows = [[channel_means(array) for array in session.run(feeds)] for feeds in runs]
    return [np.array([row[index] for row in rows]) for index in range(len(layers))]
