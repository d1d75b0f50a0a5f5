"""A float tmfile of Tengine quantized to an int8 or uint8 one, as Tengine's quant_tool does it.

    M.tmfile ──► ranges of all its tensors ──► table of scales ──► model in codes

Every tensor of the file gets a range, also those that calib8's own targets do not code: Tengine's runtime
rounds after every operator.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.calibration.choose import refuse_non_finite
from calib8.calibration.collect_layouts import count_again
from calib8.calibration.decide import Wish, check_wish, decide, needs_bins
from calib8.calibration.everywhere import gathered
from calib8.calibration.gather import Gathered, Gathering
from calib8.data.reading import Reading
from calib8.data.samples import Dataset
from calib8.errors import NoFormError, TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes import NO_STEPS, Coded, Single, in_codes
from calib8.exporting.tmfile.codes_uint8 import in_uint8
from calib8.exporting.tmfile.dfq import Equalized, equalized
from calib8.exporting.tmfile.eq import MOST_SAMPLES, deaf, searched_scales
from calib8.exporting.tmfile.kl_uint8 import counted, kl_range
from calib8.exporting.tmfile.quantized import without_kernels
from calib8.exporting.tmfile.scales import OF_SOFTMAX_UINT8, scale_text, scale_texts, uint8_texts
from calib8.files import check_file
from calib8.formats import tengine
from calib8.formats.tengine_names import with_made
from calib8.model.from_tmfile.translate import float_model
from calib8.model.graph import graph_inputs
from calib8.number_texts import count
from calib8.program.lower_tmfile.operators import copies_codes
from calib8.progress import Progress
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec
from calib8.table import CalibrationTable, Range
from calib8.tmfile.graph import Graph, Node
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.sizes import with_sizes

SYMMETRIC: Final = frozenset({"aciq-tengine"})
"""Methods whose uint8 codes lie around 0 whatever was seen."""

KL: Final = "entropy-tengine"
"""Method whose uint8 codes have bins of their own."""

Codes = dict[str, tuple[str, int]]
"""Tensor → scale as a table has it, and zero point."""


@dataclass(frozen=True)
class Wanted:
    """What is made of a tmfile.

    Attributes:
        method: of the ranges, one of ``calib8.calibration.ranges.METHODS`` or a two-pass one.
        uint8: codes with zero points and one scale per weight, in place of int8.
        equalize: weights of neighbouring layers are equalized first (``exporting/tmfile/dfq``).
        search: scales of weights are searched by the cosine of outputs (``exporting/tmfile/eq``); int8 alone.
        shape: of the only input; None: as the file states it.
        table: path of a table of scales; then nothing is calibrated. None: the method chooses them.
    """

    method: str
    uint8: bool = False
    equalize: bool = False
    search: bool = False
    shape: tuple[int, ...] | None = None
    table: str | os.PathLike[str] | None = None


@dataclass(frozen=True, eq=False)
class TmfileCoded:
    """What became of a tmfile.

    Attributes:
        floats: the float model in which the ranges were seen.
        coded: the model in codes, and the scales of its layers.
        scales: tensor → scale as the table has it.
        points: tensor → zero point, of uint8 codes.
        samples: that were seen, 0 where the scales were given.
        notes: what to know of it.
    """

    floats: Graph
    coded: Coded
    scales: dict[str, str]
    points: dict[str, int]
    samples: int
    notes: tuple[str, ...] = ()


def quantized_tmfile(
    model: str | os.PathLike[str], reading: Reading, wanted: Wanted, progress: Progress
) -> TmfileCoded:
    """Chooses the scales and puts the model into codes.

    Args:
        model: path of a float .tmfile.
        reading: the images.
        wanted: what is made.
        progress: told how far it is.

    Raises:
        Calib8Error: what can be wrong with model, data or method.
    """
    name, original = os.fspath(model), read_tmfile(model)
    graph = sized(original, name, wanted.shape)
    notes: tuple[str, ...] = ()
    if wanted.equalize:
        found = equalized(graph)
        graph, notes = found.graph, _of_equalizing(found)
    if wanted.table is not None:
        codes, samples = _given_codes(original, graph, wanted.table, uint8=wanted.uint8), 0
        notes += (OF_THESE_WEIGHTS,) if wanted.equalize and found.layers else ()
    else:
        codes, samples = _seen_codes((name, graph), reading, wanted, progress)
    if not wanted.search:
        with _of_table(wanted.table):
            return _in_codes(graph, codes, name, uint8=wanted.uint8, samples=samples, notes=notes)
    steps, told = _searched((name, graph), codes, reading, progress)
    return _in_codes(graph, codes, name, samples=samples, notes=(*notes, *told), steps=steps)


def _seen_codes(
    named: tuple[str, Graph], reading: Reading, wanted: Wanted, progress: Progress
) -> tuple[Codes, int]:
    """Codes by the ranges of all tensors, and the number of samples seen."""
    (name, graph), symmetric = named, wanted.method in SYMMETRIC
    if wanted.uint8 and wanted.method == KL:
        ranges, samples = _kl_ranges(named, reading, progress)
        return uint8_texts(graph, ranges, name), samples
    spec = UINT8 if wanted.uint8 and not symmetric else INT8_SYMMETRIC
    table, samples = _calibrated(named, reading, wanted.method, spec, progress)
    ranges = {tensor: entry.range for tensor, entry in table.entries.items()}
    if wanted.uint8:
        return uint8_texts(graph, ranges, name, symmetric=symmetric), samples
    return {tensor: (text, 0) for tensor, text in scale_texts(graph, ranges, name).items()}, samples


def _in_codes(
    graph: Graph,
    codes: Codes,
    name: str,
    *,
    uint8: bool = False,
    samples: int = 0,
    notes: tuple[str, ...] = (),
    steps: Mapping[int, Single] = NO_STEPS,
) -> TmfileCoded:
    scales = {tensor: text for tensor, (text, _) in codes.items()}
    points = {tensor: point for tensor, (_, point) in codes.items()}
    numbers = _numbers(scales)
    if uint8:
        made = in_uint8(graph, {tensor: (numbers[tensor], points[tensor]) for tensor in numbers}, name)
        return TmfileCoded(graph, made, scales, points, samples, (*notes, *_of_outputs(made.graph)))
    coded = in_codes(graph, numbers, name, steps=steps)
    made_of = coded.graph
    told = *_of_copying(made_of), *without_kernels(made_of), *_of_outputs(made_of)
    return TmfileCoded(graph, coded, scales, {}, samples, (*notes, *told))


def _of_outputs(graph: Graph) -> tuple[str, ...]:
    """What to know of outputs that nodes read, whose memory Tengine gives away."""
    read = {place for node in graph.nodes for place in node.inputs}
    found = [graph.tensors[place].name for place in graph.output_tensors() if place in read]
    if not found:
        return ()
    return (
        f"{', '.join(found)}: Tengine gives the memory of an output away once the last node that reads it "
        "has run, so that it may hold something else in the end; an export of the ONNX model adds a copy",
    )


def _of_copying(graph: Graph) -> tuple[str, ...]:
    """What to know of operators that copy codes into tensors of other scales."""
    found = [node.name for node in graph.nodes if copies_codes(node) and _rescales(graph, node)]
    if not found:
        return ()
    return (
        f"{', '.join(found)}: Tengine copies the codes whatever the scales say, and they differ there, as in "
        "its own tool's files; quantize gives both sides one scale",
    )


def _rescales(graph: Graph, node: Node) -> bool:
    """Whether a result has another scale than what the node reads."""
    meanings = [graph.tensors[place].quantization for place in (*node.inputs[:1], *node.outputs)]
    return len({float(meaning.scales[0]) for meaning in meanings if meaning is not None}) > 1


def _searched(
    named: tuple[str, Graph], codes: Codes, reading: Reading, progress: Progress
) -> tuple[dict[int, Single], tuple[str, ...]]:
    """Place of weights → scales by the cosine of outputs, and what to know of them."""
    name, graph = named
    model = float_model(graph, name)
    few = replace(reading, samples=min(reading.samples or MOST_SAMPLES, MOST_SAMPLES))
    ports = [value.name or "" for value in model.graph.inputs]
    places = dict(zip(ports, graph.input_tensors(), strict=True))
    runs = [
        {places[port]: array for port, array in sample.inputs.items()}
        for sample in few.opened(graph_inputs(model))
    ]
    scales = _numbers({tensor: text for tensor, (text, _) in codes.items()})
    found = searched_scales(graph, scales, runs, name, threads=reading.threads, progress=progress)
    unheard = deaf(graph)
    if not unheard:
        return found, ()
    told = (
        f"{', '.join(unheard)}: searched like the others; Tengine's tool gives all their channels the "
        "smallest scale, for its kernels compute them with the float weights whatever the search tries"
    )
    return found, (told,)


def sized(graph: Graph, name: str, shape: tuple[int, ...] | None) -> Graph:
    """The graph in the order NCHW, since Tengine turns what its tool writes of NHWC a second time.

    Args:
        graph: as it was read.
        name: of the model, for messages.
        shape: of its only input; the sizes of all tensors follow from it. None: as the file states them.

    Raises:
        UnsupportedModelError: what Tengine has no rule for.
    """
    try:
        turned = as_nchw(graph)
        places = turned.input_tensors()
        if shape is None or len(places) != 1 or turned.tensors[places[0]].shape == shape:
            return turned
        return with_sizes(turned, {places[0]: shape})
    except NoFormError as reason:
        problem = f"it has no form in codes: {reason}"
        raise UnsupportedModelError(name, problem, "Convert the ONNX model, with fixed sizes") from reason


OF_THESE_WEIGHTS: Final = (
    "the table has to be one of the equalized weights, made with the same -a 3: scales of others cut their "
    "layers off"
)


def _of_equalizing(found: Equalized) -> tuple[str, ...]:
    told = [f"{count(len(found.layers), 'layer')} equalized"]
    if found.refused:
        told.append(
            f"{', '.join(found.refused)}: left as they are, for a function lies before or behind them that "
            "factors do not pass, such as a ReLU6"
        )
    return tuple(told)


def tmfile_by_table(
    model: str | os.PathLike[str],
    table: str | os.PathLike[str],
    *,
    uint8: bool = False,
    shape: tuple[int, ...] | None = None,
) -> TmfileCoded:
    """Puts the model into codes by the scales of a table of Tengine's tools, each as it stands there.

    Args:
        model: path of a float .tmfile.
        table: path of the table.
        uint8: codes with zero points, in place of int8.
        shape: see ``sized``.

    Raises:
        TableError: it is no such table, or lacks a tensor of the model.
        ModelError: what can be wrong with the model.
    """
    name, original = os.fspath(model), read_tmfile(model)
    graph = sized(original, name, shape)
    with _of_table(table):
        return _in_codes(graph, _given_codes(original, graph, table, uint8=uint8), name, uint8=uint8)


@contextmanager
def _of_table(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """What a table lacks is told of its file."""
    try:
        yield
    except TableError as error:
        if path is None or error.subject == os.fspath(path):
            raise
        raise TableError(os.fspath(path), error.problem, error.cure) from error


def _given_codes(original: Graph, graph: Graph, table: str | os.PathLike[str], *, uint8: bool) -> Codes:
    """Codes of a table, of the tensors of a graph that are computed or inputs."""
    added = {tensor.name for tensor in graph.tensors[len(original.tensors) :]}
    live = [tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")]
    texts = with_made(_with_turned(graph, added, read_codes(table, uint8=uint8)), live)
    if uint8:
        _refuse_int8_table(graph, texts, os.fspath(table))
    return {tensor: texts[tensor] for tensor in live if tensor in texts}


def _refuse_int8_table(graph: Graph, texts: Codes, table: str) -> None:
    """Refuses scales of int8 codes: taken as those of uint8 they would leave nothing below 0.

    Zero points tell them apart, or the scale behind a Softmax: 1/127 of int8 codes, 1/255 of uint8.

    Raises:
        TableError: all zero points are 0, and no Softmax says that it is a table of uint8 codes.
    """
    if any(point for _, point in texts.values()):
        return
    behind = (graph.tensors[node.outputs[0]].name for node in graph.nodes if node.op == "Softmax")
    if any(texts[name][0] == scale_text(OF_SOFTMAX_UINT8) for name in behind if name in texts):
        return
    problem = "all its zero points are 0, as in a table of int8 codes: in uint8 all below 0 would become 0"
    raise TableError(table, problem, "Make an int8 model of it, or calibrate in uint8 with images")


def _with_turned(graph: Graph, added: Collection[str], texts: Codes) -> Codes:
    """The table with the tensors that turning a file added: each has the codes of what it is turned from."""
    found = dict(texts)
    for node in graph.nodes:
        one, other = (graph.tensors[places[0]].name for places in (node.inputs or (0,), node.outputs))
        for new, known in ((one, other), (other, one)):
            if node.op == "Transpose" and new in added and known in texts:
                found.setdefault(new, texts[known])
    return found


def read_codes(path: str | os.PathLike[str], *, uint8: bool) -> Codes:
    """Tensor → scale as it stands in a table, and zero point.

    Raises:
        TableError: it cannot be read, or is none.
    """
    source = os.fspath(path)
    check_file(path, "Give a .scale file", TableError)
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise TableError(source, f"cannot be read ({error})", "Give a .scale file") from error
    tengine.read(text, source, "tengine-uint8" if uint8 else "tengine")
    lines = (line.split() for line in text.splitlines())
    return {parts[0]: (parts[1], int(parts[2])) for parts in lines if len(parts) == 3}


def _numbers(texts: dict[str, str]) -> dict[str, float]:
    return {name: float(np.float32(text)) for name, text in texts.items()}


def _calibrated(
    named: tuple[str, Graph], reading: Reading, method: str, spec: QuantSpec, progress: Progress
) -> tuple[CalibrationTable, int]:
    """Ranges of every tensor that is an input or computed."""
    wish = Wish(method)
    check_wish(wish)
    model, dataset, found = _seen(named, reading, progress, bins=needs_bins(wish, {}))
    counts = count_again(
        method, model, found.statistics, dataset, batch=reading.batch, threads=reading.threads,
        progress=progress, without={},
    )  # fmt: skip
    table = decide(found.statistics, found.averages, spec, wish, {}, counts, threads=reading.threads)
    return table, dataset.total or 0


def _kl_ranges(
    named: tuple[str, Graph], reading: Reading, progress: Progress
) -> tuple[dict[str, Range], int]:
    """Likewise, by KL between the smallest and the largest value."""
    model, dataset, found = _seen(named, reading, progress, bins=False)
    refuse_non_finite(found.statistics)
    seen = {tensor: Range(one.minimum, one.maximum) for tensor, one in found.statistics.tensors.items()}
    counts = counted(model, seen, (sample.inputs for sample in dataset), reading.threads, progress)
    return {tensor: kl_range(counts[tensor], seen[tensor]) for tensor in seen}, dataset.total or 0


def _seen(
    named: tuple[str, Graph], reading: Reading, progress: Progress, *, bins: bool
) -> tuple[ir.Model, Dataset, Gathered]:
    """The float model, the samples, and what they show of every tensor that is an input or computed."""
    name, graph = named
    model = float_model(graph, name)
    dataset = reading.opened(graph_inputs(model))
    tensors = tuple(dict.fromkeys(tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")))
    how = Gathering(reading.batch, reading.threads, bins=bins)
    return model, dataset, gathered(model, tensors, dataset, how, progress)
