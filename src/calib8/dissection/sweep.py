"""The outputs of many parts of an int8 model against the model without codes, in a few runs per sample.

The parts go in graph order into as many sweep graphs as memory asks for: a part costs only the nodes behind
the first one that it changes, so that all parts together cost about half of a run for each. Row 0 of every
run is held against the model without codes, run by itself: a graph that computes something else is not
believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.autorange.check import Outputs
from calib8.dissection.float_constants import FloatConstants
from calib8.dissection.partly_coded import coded_pairs
from calib8.dissection.stated_sizes import with_sizes_of_run
from calib8.dissection.sweep_graph import Part, SweepGraph, sweep_graph
from calib8.errors import DataError, ModelError, UnsupportedModelError
from calib8.model.runtime import Arrays, keep_quantizers, open_session
from calib8.quantization.qdq import label

LARGEST: Final = 1 << 24
"""Elements of the largest tensor of a sweep: 64 MiB."""

MOST: Final = 128
"""Parts of one sweep at most: the graph stays small."""

SAME: Final = 1e-8
"""Row 0 differs from the model without codes by at most this share of its energy (80 dB)."""

FLOOR: Final = 1e-12
"""So much per element is no difference either: float functions are not exact where they are almost 0."""

Energies = npt.NDArray[np.float64]


def part_energies(
    model: ir.Model,
    constants: Mapping[str, FloatConstants],
    parts: Sequence[Part],
    runs: Sequence[Arrays],
    bare: Sequence[Outputs],
    threads: int,
    on_part: Callable[[int], None] = lambda parts: None,
) -> Energies:
    """Signal and noise of the outputs where only one part has codes, float64 [parts, runs, outputs, 2].

    Args:
        model: a QDQ graph, constants as initializers, types inferred.
        constants: label of a layer → what it computes with without codes.
        parts: what keeps its codes.
        runs: inputs of single runs, all of the same shapes.
        bare: float outputs of the graph without any codes, for every run.
        threads: for ONNX Runtime.
        on_part: called with the number of parts that are done.

    Raises:
        UnsupportedModelError: the graph cannot be swept (``sweep_graph``), or runs differ in their shapes.
        ModelError, DataError: ONNX Runtime cannot run the sweep, or row 0 is not the model without codes.
    """
    model = _as_run(model, runs)
    found = np.zeros((len(parts), len(runs), len(bare[0]), 2))
    for numbers in _sweeps(model, parts):
        chosen = {number + 1: parts[number] for number in numbers}
        graph = sweep_graph(model, constants, chosen, {v: o.name or "" for v, o in coded_pairs(model)})
        session = open_session(graph.model, threads=threads, name="sweep", configure=keep_quantizers)
        for run, (feeds, expected) in enumerate(zip(runs, bare, strict=True)):
            _add_run(found[:, run], numbers, graph, session.run(feeds), expected)
        on_part(len(numbers))
    return found


def _add_run(
    found: Energies, numbers: Sequence[int], graph: SweepGraph, values: Outputs, expected: Outputs
) -> None:
    """Writes the energies of one run of one sweep; ``found`` is [parts, outputs, 2]."""
    outputs = len(graph.rows)
    for index, (ids, plain, energies) in enumerate(
        zip(graph.rows, values[:outputs], values[outputs:], strict=True)
    ):
        _check_row(plain, expected[index])
        noise = dict(zip(ids, energies[1:].astype(np.float64), strict=True))
        found[numbers, index, 0] = energies[0]
        found[numbers, index, 1] = [noise.get(number + 1, 0.0) for number in numbers]


def _check_row(plain: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> None:
    """Refuses a sweep that computes something else than the model without codes."""
    wide = expected.astype(np.float64)
    if plain.shape == expected.shape:
        with np.errstate(invalid="ignore"):
            noise = float(np.sum(np.square(wide - plain)))
        if noise <= SAME * float(np.sum(np.square(wide))) + FLOOR * wide.size:
            return
    raise DataError("sweep", "row 0 is not the model without codes", "Compare it layer by layer")


def _as_run(model: ir.Model, runs: Sequence[Arrays]) -> ir.Model:
    """A copy with the shapes that the runs have, no size computed where that says it."""
    first = {name: array.shape for name, array in runs[0].items()}
    if any(first != {name: array.shape for name, array in feeds.items()} for feeds in runs):
        problem = "is run with inputs of different shapes"
        raise UnsupportedModelError(model.graph.name or "model", problem, "Give data of one shape")
    return with_sizes_of_run(model, first)


def _sweeps(model: ir.Model, parts: Sequence[Part]) -> Iterator[list[int]]:
    """Numbers of the parts of each sweep, in the order in which their first codes stand in the graph."""
    firsts = _first_nodes(model, parts)
    largest = _largest_behind(model)
    order = sorted(range(len(parts)), key=lambda number: (firsts[number], number))
    while order:
        taken = max(1, min(MOST, LARGEST // max(largest[firsts[order[0]]], 1) - 1))
        yield order[:taken]
        order = order[taken:]


def _first_nodes(model: ir.Model, parts: Sequence[Part]) -> list[int]:
    """The place in the graph of the first node that a part changes."""
    layers, tensors = dict[str, int](), dict[str, int]()
    origins = dict(coded_pairs(model))
    for place, node in enumerate(model.graph):
        layers.setdefault(label(node), place)
        if node.outputs[0] in origins:
            tensors.setdefault(origins[node.outputs[0]].name or "", place)
    return [
        min(
            [layers[name] for name in part.layers]
            + [tensors[name] for name in part.tensors if name in tensors],  # constants that folding left
            default=0,
        )
        for part in parts
    ]


def _largest_behind(model: ir.Model) -> list[int]:
    """For every node the elements of the largest tensor that it or a later one yields, where known."""
    largest, sizes = 0, list[int]()
    for node in reversed(list(model.graph)):
        for value in node.outputs:
            shape = [] if value.shape is None else [size for size in value.shape if isinstance(size, int)]
            largest = max(largest, int(np.prod(shape, dtype=np.int64)))
        sizes.append(largest)
    return sizes[::-1]


SWEEP_FAULTS: Final = (ModelError, DataError)
"""What ``part_energies`` raises where parts have to be judged one by one."""
