"""Scales of weights as Tengine's EQ searches them: layer after layer, by the cosine of each output channel.

    zooms    z = 1.3/200 · (n + 1),  n = 0, 20 … 180
    scales   s[c] = z · p[c],  p[c] = max |w[c]| / 127
    float    y = layer(x, w, b)                        x from the float model
    codes    ŷ = code(layer(x̂, ŵ, b̂))                  x̂ from the layers before, with the scales chosen
             ŵ = code(w) in steps of s[c], b̂ in steps of p[c] · s_x whatever z is
    cosine   Σ y ŷ / (√Σ y² · √Σ ŷ²), all positions of all samples; Σ y ŷ where the divisor is below 10⁻⁷
    choice   the first z of the largest cosine

Convolution and FullyConnected are searched, of the first 50 samples; what every operator computes is rounded.
Products are float32, their sums float64. With a single sample all outputs of a FullyConnected count together.

What the tool gets wrong is left out: a 3×3 Convolution that its kernels compute by Winograd's transform never
sees other weights than those of the float model, so that all zooms are equal and the smallest one is chosen
(``deaf``); an input of the model that later operators read has the last sample's values there, and a second
output of an operator those of the first. Layers of one output channel and grouped Convolutions that are not
depthwise end the tool.
Source: OAID Tengine, quant_tool (``quant_eq.cpp``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from calib8.exporting.tmfile.alone import Alone, alone
from calib8.exporting.tmfile.codes import LARGEST, Single, floats_of, nearest, refuse_missing
from calib8.exporting.tmfile.hand_back import scale_sources
from calib8.exporting.tmfile.unshared import unshared
from calib8.model.runtime import AT_ONCE
from calib8.progress import Progress, SampleCounter
from calib8.tmfile.graph import CONST, INPUT, Graph, Node

ZOOMS: Final = np.asarray([1.3 / 200 * (number + 1) for number in range(0, 200, 20)], np.float32)
MOST_SAMPLES: Final = 50
SEARCHED: Final = frozenset({"Convolution", "FullyConnected"})
SMALLEST_LENGTH: Final = float(np.float32(1e-7))

BELOW_HALF: Final = np.nextafter(np.float32(0.5), np.float32(0))
"""Added to a magnitude that is then cut off, it rounds halves up and what lies just below them down."""

WINOGRAD_LEAST: Final = 16
"""Channels from which on the tool's kernels use Winograd's transform, of outputs multiples of it."""

WINOGRAD_SIZE: Final = 10
"""Rows and columns up to which they do not."""

MOST_ELEMENTS: Final = 2**25
"""Of weights and of outputs, in one run of a layer for several zooms."""

Found = TypeVar("Found")

Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in one sample: what the float model has, and the codes of the quantized one."""

    floats: Single
    codes: Codes


def deaf(graph: Graph) -> tuple[str, ...]:
    """Names of the layers whose weights the tool's search never changes."""
    return tuple(node.name for node in graph.nodes if node.op == "Convolution" and _is_winograd(graph, node))


def _is_winograd(graph: Graph, node: Node) -> bool:
    option = node.options
    once = ("group", "stride_h", "stride_w", "dilation_h", "dilation_w")
    reads, writes = option["input_channel"], option["output_channel"]
    assert isinstance(reads, int) and isinstance(writes, int)
    return (
        option["kernel_h"] == option["kernel_w"] == 3
        and all(option[name] == 1 for name in once)
        and min(reads, writes) >= WINOGRAD_LEAST
        and writes % WINOGRAD_LEAST == 0
        and max(graph.tensors[node.inputs[0]].shape[2:]) > WINOGRAD_SIZE
    )


def searched_scales(
    graph: Graph,
    scales: Mapping[str, float],
    runs: Sequence[Mapping[int, npt.NDArray[np.generic]]],
    name: str = "model",
    *,
    threads: int,
    progress: Progress,
) -> dict[int, Single]:
    """Place of weights among the tensors → one scale per index of axis 0, of all layers that are searched.

    Args:
        graph: a float model in the order NCHW, with all sizes.
        scales: of its tensors, see ``codes.in_codes``.
        runs: inputs of single runs, by their place among the tensors; the first 50 count.
        name: of the model, for messages.
        threads: for runs of the layers; the result does not depend on it.
        progress: told how far it is.

    Raises:
        TableError: tensors without a scale.
        UnsupportedModelError: operators without an ONNX form.
        DataError: the runs do not fit the model.
    """
    whole, _ = unshared(graph)
    sources = scale_sources(whole, slices=False)
    refuse_missing(whole, sources, scales, name)
    steps = {place: np.float32(scales[source]) for place, source in sources.items()}
    nodes = [node for node in whole.nodes if node.op not in (CONST, INPUT)]
    counter = SampleCounter("choosing scales of weights", len(nodes), progress)
    search = _Search(whole, name, steps, min(threads, AT_ONCE), runs[:MOST_SAMPLES])
    found: dict[int, Single] = {}
    for node in nodes:
        chosen = search.node(node)
        if chosen is not None:
            found[node.inputs[1]] = chosen
        search.forget(node)
        counter(1)
    return found


class _Search:
    """The values of tensors that are still read, in all samples."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        steps: Mapping[int, np.float32],
        threads: int,
        runs: Sequence[Mapping[int, npt.NDArray[np.generic]]],
    ) -> None:
        """Begins with the inputs of the model."""
        self.graph, self.name, self.steps = graph, name, steps
        self.threads, self.samples = threads, range(len(runs))
        self.readers = Counter(place for node in graph.nodes for place in node.inputs)
        self.values: dict[int, list[Value]] = {}
        for place in graph.input_tensors():
            arrays = [np.asarray(feeds[place], np.float32) for feeds in runs]
            self.values[place] = [Value(array, _codes(array, steps[place])) for array in arrays]

    def forget(self, node: Node) -> None:
        """Drops values that nothing behind a node reads."""
        self.readers.subtract(node.inputs)
        for place in (*node.inputs, *node.outputs):
            if self.readers[place] <= 0:
                self.values.pop(place, None)

    def node(self, node: Node) -> Single | None:
        """Computes the outputs of a node; the scales of its weights, where they are searched."""
        plain = alone(self.graph, node, self.name)
        floats = self.each(lambda sample: plain.run(self.floats(plain, sample)))
        if node.op not in SEARCHED:
            self.keep(node, floats, plain)
            return None
        weights = _Weights(self.graph, node, self.steps[node.inputs[0]], self.name)
        sums = [self.sums(node, weights, zooms, floats) for zooms in _groups(weights, floats)]
        together = node.op == "FullyConnected" and len(self.samples) == 1
        zooms = ZOOMS[_best(np.concatenate(sums, axis=2), together=together)]
        self.keep(node, floats, alone(self.graph, node, self.name, weights.at(zooms[:, None])))
        scales: Single = zooms * weights.plain
        return scales

    def sums(self, node: Node, weights: _Weights, zooms: Single, floats: list[list[Single]]) -> Doubles:
        """What ``_sums`` gives of all samples, for some zooms."""
        wide = alone(self.graph, node, self.name, weights.at(np.tile(zooms, (len(weights.plain), 1))))
        step = self.steps[node.outputs[0]]
        found = self.each(
            lambda sample: _sums(floats[sample][0], wide.run(self.coded(wide, sample))[0], step)
        )
        total: Doubles = np.sum(found, axis=0)
        return total

    def floats(self, ready: Alone, sample: int) -> list[Single]:
        """What a node reads in the float model."""
        return [self.values[place][sample].floats for place in ready.reads]

    def coded(self, ready: Alone, sample: int) -> list[Single]:
        """What its codes stand for in the quantized one."""
        return [
            self.values[place][sample].codes.astype(np.float32) * self.steps[place] for place in ready.reads
        ]

    def keep(self, node: Node, floats: list[list[Single]], quantized: Alone) -> None:
        """Computes the outputs of the quantized model and holds both."""

        def rounded(sample: int) -> list[Codes]:
            outputs = quantized.run(self.coded(quantized, sample))
            return [_codes(output, self.steps[at]) for at, output in zip(node.outputs, outputs, strict=True)]

        codes = self.each(rounded)
        for number, place in enumerate(node.outputs):
            self.values[place] = [
                Value(of_floats[number], of_codes[number])
                for of_floats, of_codes in zip(floats, codes, strict=True)
            ]

    def each(self, work: Callable[[int], Found]) -> list[Found]:
        """Of all samples, several at a time."""
        with ThreadPoolExecutor(self.threads, thread_name_prefix="calib8-eq") as pool:
            return list(pool.map(work, self.samples))


class _Weights:
    """The weights and the bias of a layer."""

    def __init__(self, graph: Graph, layer: Node, step: np.float32, name: str) -> None:
        """With the step of the codes that the layer reads."""
        self.places, self.step = layer.inputs[1:3], step
        self.data = [floats_of(graph.tensors[place], name) for place in self.places]
        self.rows = self.data[0].reshape(len(self.data[0]), -1)
        self.plain: Single = np.abs(self.rows).max(axis=1, initial=0.0).astype(np.float32) / LARGEST

    def at(self, zooms: Single) -> dict[int, Single]:
        """Place → what codes stand for with several zooms per channel [channels, zooms], which become
        neighbouring channels."""
        steps = (self.plain[:, None] * zooms)[..., None]
        codes = np.clip(nearest(self.rows[:, None], steps), -LARGEST, LARGEST)
        sizes = (zooms.size, *self.data[0].shape[1:])
        found = {self.places[0]: np.ascontiguousarray((codes * steps).reshape(sizes))}
        if len(self.places) > 1:
            unit = (self.plain * self.step).reshape(-1)
            bias = self.data[1].reshape(-1)
            found[self.places[1]] = np.repeat(nearest(bias, unit) * unit, zooms.shape[1])
        return found


def _groups(weights: _Weights, floats: list[list[Single]]) -> list[Single]:
    """The zooms, as many at a time as memory allows."""
    largest = max(weights.rows.size, floats[0][0].size)
    most = max(1, min(len(ZOOMS), MOST_ELEMENTS // largest))
    return [ZOOMS[start : start + most] for start in range(0, len(ZOOMS), most)]


def _sums(floats: Single, outputs: Single, step: np.float32) -> Doubles:
    """Σ y y, Σ ŷ ŷ and Σ y ŷ of every channel and zoom [3, channels, zooms], of one sample.

    Args:
        floats: y [rows, channels, …].
        outputs: of the layer in codes [rows, channels · zooms, …], not rounded; changed.
        step: of the codes of its output.
    """
    rows, channels = floats.shape[:2]
    y = floats.reshape(rows, channels, 1, -1).transpose(1, 2, 0, 3).reshape(channels, 1, -1)
    by_row = _rounded(outputs, step).reshape(rows, channels, -1, y.shape[2] // rows)
    coded = by_row.transpose(1, 2, 0, 3).reshape(channels, -1, y.shape[2])
    coded *= step
    squares = np.sum(y * y, axis=2, dtype=np.float64)
    products = np.sum(y * coded, axis=2, dtype=np.float64)
    coded *= coded
    lengths = np.sum(coded, axis=2, dtype=np.float64)
    return np.stack([np.broadcast_to(squares, lengths.shape), lengths, products])


def _best(sums: Doubles, *, together: bool) -> npt.NDArray[np.int64]:
    """Number of the zoom of every channel.

    Args:
        sums: of all samples, see ``_sums``.
        together: one zoom for all channels.
    """
    if together:
        sums = np.broadcast_to(sums.sum(axis=1, keepdims=True), sums.shape)
    lengths = np.sqrt(sums[0]) * np.sqrt(sums[1])
    short = lengths < SMALLEST_LENGTH
    cosines = np.where(short, sums[2], sums[2] / np.where(short, 1.0, lengths))
    return np.asarray(np.argmax(cosines, axis=1), np.int64)


def _codes(values: Single, step: np.float32) -> Codes:
    return _rounded(values.copy(), step).astype(np.int8)


def _rounded(values: Single, step: np.float32) -> Single:
    """Codes −127 … 127 of values, which they replace; halves away from zero."""
    values /= step
    values += np.copysign(BELOW_HALF, values)
    np.trunc(values, out=values)
    np.clip(values, -LARGEST, LARGEST, out=values)
    return values
