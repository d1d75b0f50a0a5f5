"""Sums of products of the coded inputs of layers, exact, over the columns of ``windows``.

    c = code − zero_point                       whole numbers in −255 … 255; what padding holds is 0
    second[d, e] = Σ_p c[d, p] · c[e, p]
                   Σ_p weight[p] · c[d, p] · c[e, p]     before a function that settles, see ``settled``

For an error E of the layer's weights, the squared error of its outputs is ``s² Σ_o E_o second E_oᵀ``: no
image is needed any more.

Products are summed as float32 over so few columns that every partial sum is a whole number below 2^24, then
as float64 below 2^53: whatever BLAS does, in whatever order, the sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import Names
from calib8.model.layer import Layer
from calib8.model.runtime import keep_quantizers, open_session
from calib8.progress import SampleCounter
from calib8.qparams import QParams, QuantSpec
from calib8.repair.candidate import RepairData
from calib8.repair.layer_means import settling_function
from calib8.repair.settled import place_weights
from calib8.repair.windows import Columns, columns, spread, to_rows

POSITIONS: Final = 64
"""Output positions looked at per run, at most; with 32 runs, more gain nothing that can be measured."""

WEIGHTED_POSITIONS: Final = 1024
"""The same before a function that settles, where few of them count."""

LARGEST_BYTES: Final = 1 << 28
"""Bytes of second moments kept at once; a single layer may need more."""

EXACT_FLOAT32: Final = 1 << 24

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """What a layer's inputs add up to, in steps of their code.

    Attributes:
        count: number of columns; of weighted ones that of equal ones that tell as much.
        second: float64 [groups, d, d], whole numbers, symmetric.
    """

    count: int
    second: Floats

    def products(self) -> Floats:
        """Mean products [groups, d, d]."""
        return self.second / max(self.count, 1)


def layer_moments(
    model: ir.Model,
    layers: Sequence[ir.Node],
    qparams: Mapping[str, QParams],
    spec: QuantSpec,
    data: RepairData,
) -> Iterator[tuple[ir.Node, Moments]]:
    """Moments of the coded inputs of layers, one after the other.

    Few layers are looked at together, so that their second moments need little memory; the float model is run
    once for each such set.

    Args:
        model: a prepared float graph.
        layers: Conv, ConvTranspose, Gemm or MatMul nodes of it with constant weights.
        qparams: tensor → its code; the first inputs of all layers are among them.
        spec: type of the codes.
        data: what the model is run on.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    sets = list(in_sets(layers, _bytes_of_products))
    counter = SampleCounter("looking at what layers read", len(sets) * len(data.runs), data.progress)
    for some in sets:
        names = list(dict.fromkeys(source_name(layer) for layer in some))
        sums = [_Sums(layer) for layer in some]
        settling = [one.layer.outputs[0].name or "" for one in sums if one.function is not None]
        tapped = _coded_taps(model, {name: qparams[name] for name in names}, spec, settling)
        session = open_session(tapped, threads=data.threads, configure=keep_quantizers)
        for run, feeds in enumerate(data.runs):
            outputs = session.run(feeds)
            results = dict(zip(settling, outputs[len(names) :], strict=True))
            codes = dict(zip(names, _codes(outputs[: len(names)], names, qparams), strict=True))
            for layer, one in zip(some, sums, strict=True):
                one.add(codes[source_name(layer)], run, results.get(layer.outputs[0].name or ""))
            counter(1)
        del session
        while sums:
            one = sums.pop(0)
            yield one.layer, one.moments()


def _codes(
    outputs: Sequence[npt.NDArray[Any]], names: Sequence[str], qparams: Mapping[str, QParams]
) -> list[npt.NDArray[np.int16]]:
    pairs = zip(outputs, names, strict=True)
    return [array.astype(np.int16) - np.int16(qparams[name].zero_point) for array, name in pairs]


class _Sums:
    """Running sums of one layer; columns of small layers wait until there are enough of them."""

    def __init__(self, layer: ir.Node) -> None:
        self.layer = layer
        self.function = settling_function(layer)
        groups, size = _shape(layer)
        self.second = np.zeros((groups, size, size))
        self.count = 0
        self.waiting: list[Columns] = []
        self.weights: list[Floats] = []

    def add(self, codes: npt.NDArray[np.int16], run: int, result: npt.NDArray[Any] | None) -> None:
        """The columns of a run; ``result`` is the layer's output in FP32, needed before ``function``."""
        if self.function is not None and result is not None:
            self._add_weighted(codes, run, place_weights(self.layer, self.function, result))
            return
        found = columns(Layer(self.layer), codes, POSITIONS, run)
        self.count += found.shape[2]
        self.waiting.append(found)
        if sum(part.size for part in self.waiting) >= 1 << 18:
            self._sum()

    def _add_weighted(self, codes: npt.NDArray[np.int16], run: int, weights: Floats) -> None:
        found = columns(Layer(self.layer), codes, WEIGHTED_POSITIONS, run).astype(np.float64)
        weights = weights[spread(len(weights), WEIGHTED_POSITIONS, run)]
        self.second += (found * weights) @ found.transpose(0, 2, 1)
        self.weights.append(weights)

    def _sum(self) -> None:
        if not self.waiting:
            return
        found = np.concatenate(self.waiting, axis=2)
        self.waiting.clear()
        largest = int(np.max(np.abs(found), initial=1.0)) ** 2
        if len(found) > 1:
            wide = found.astype(np.float64)
            self.second += wide @ wide.transpose(0, 2, 1)
            return
        step = max(EXACT_FLOAT32 // largest, 1)
        for start in range(0, found.shape[2], step):
            part = np.ascontiguousarray(found[0, :, start : start + step])
            self.second[0] += part @ part.T

    def moments(self) -> Moments:
        self._sum()
        weights = np.concatenate(self.weights) if self.weights else np.zeros(0)
        alike = float(np.sum(weights)) ** 2 / max(float(np.sum(np.square(weights))), 1.0)
        return Moments(self.count + int(alike), self.second)


def _shape(layer: ir.Node) -> tuple[int, int]:
    """Groups and inputs of a sum."""
    rows = to_rows(Layer(layer), Layer(layer).array)
    return rows.shape[0], rows.shape[2]


def in_sets(layers: Sequence[ir.Node], needed: Callable[[ir.Node], int]) -> Iterator[list[ir.Node]]:
    """The layers in order, as many together as need at most ``LARGEST_BYTES``, or one."""
    some: list[ir.Node] = []
    total = 0
    for layer in layers:
        size = needed(layer)
        if some and total + size > LARGEST_BYTES:
            yield some
            some, total = [], 0
        some.append(layer)
        total += size
    if some:
        yield some


def source_name(layer: ir.Node) -> str:
    """Name of the tensor that a layer multiplies by its weights."""
    source = layer.inputs[0]
    assert source is not None and source.name
    return source.name


def _bytes_of_products(layer: ir.Node) -> int:
    groups, size = _shape(layer)
    return 8 * groups * size * size


def _coded_taps(
    model: ir.Model, qparams: Mapping[str, QParams], spec: QuantSpec, floats: Sequence[str]
) -> ir.Model:
    """A copy of the model whose outputs are the codes of the named tensors, and ``floats`` as they are."""
    copy = model.clone()
    names = Names(copy.graph)
    values = {value.name: value for value in copy.graph.inputs}
    values |= {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.clear()
    for name, code in qparams.items():
        scale = names.constant("calib8/scale", np.asarray(code.scale, np.float32))
        point = names.constant("calib8/zero_point", np.asarray(code.zero_point, spec.dtype))
        node = ir.node("QuantizeLinear", [values[name], scale, point], name=names.node("calib8/codes"))
        output = node.outputs[0]
        output.name = names.value(f"{name}/codes")
        output.dtype, output.shape = ir.DataType.from_numpy(spec.dtype), values[name].shape
        copy.graph.append(node)
        copy.graph.outputs.append(output)
    copy.graph.outputs.extend(values[name] for name in floats)
    ir_passes.RemoveUnusedNodesPass()(copy)
    return copy
