"""A float tmfile of Tengine quantized to an int8 or uint8 one, as Tengine's quant_tool does it.

    M.tmfile ──► ranges of all its tensors ──► table of scales ──► model in codes

Every tensor of the file gets a range, also those that calib8's own targets do not code: Tengine's runtime
rounds after every operator.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from calib8.calibration.collect_layouts import count_again
from calib8.calibration.decide import Wish, check_wish, decide, needs_bins
from calib8.calibration.everywhere import gathered
from calib8.calibration.gather import Gathering
from calib8.coded_array import CodedArray
from calib8.data.reading import Reading
from calib8.errors import NoFormError, TableError, UnsupportedModelError
from calib8.exporting.tmfile.codes import Coded, in_codes
from calib8.exporting.tmfile.codes_uint8 import in_uint8
from calib8.exporting.tmfile.dfq import Equalized, equalized
from calib8.exporting.tmfile.scales import scale_texts, uint8_texts
from calib8.files import check_file
from calib8.formats import tengine
from calib8.model.from_tmfile.translate import float_model
from calib8.model.graph import graph_inputs
from calib8.number_texts import count
from calib8.progress import Progress
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec
from calib8.table import CalibrationTable
from calib8.tmfile.graph import Graph
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.read import read_tmfile
from calib8.tmfile.sizes import with_sizes

SYMMETRIC: Final = frozenset({"aciq-tengine"})
"""Methods whose uint8 codes lie around 0 whatever was seen."""


@dataclass(frozen=True)
class Wanted:
    """What is made of a tmfile.

    Attributes:
        method: of the ranges, one of ``calib8.calibration.ranges.METHODS`` or a two-pass one.
        uint8: codes with zero points and one scale per weight, in place of int8.
        equalize: weights of neighbouring layers are equalized first (``exporting/tmfile/dfq``).
        constants: weight → codes that it has already, whose scales are kept.
        shape: of the only input; None: as the file states it.
    """

    method: str
    uint8: bool = False
    equalize: bool = False
    constants: Mapping[str, CodedArray] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None


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
    name = os.fspath(model)
    graph = sized(read_tmfile(model), name, wanted.shape)
    notes: tuple[str, ...] = ()
    if wanted.equalize:
        found = equalized(graph)
        graph, notes = found.graph, _of_equalizing(found)
    spec = UINT8 if wanted.uint8 and wanted.method not in SYMMETRIC else INT8_SYMMETRIC
    table, samples = _calibrated((name, graph), reading, wanted.method, spec, progress)
    if wanted.uint8:
        texts = uint8_texts(graph, table, name, symmetric=wanted.method in SYMMETRIC)
        scales = {tensor: text for tensor, (text, _) in texts.items()}
        points = {tensor: point for tensor, (_, point) in texts.items()}
        return TmfileCoded(graph, _in_uint8(graph, scales, points, name), scales, points, samples, notes)
    scales = scale_texts(graph, table, name)
    coded = in_codes(graph, _numbers(scales), name, constants=wanted.constants)
    return TmfileCoded(graph, coded, scales, {}, samples, notes)


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
    added = {tensor.name for tensor in graph.tensors[len(original.tensors) :]}
    texts = _with_turned(graph, added, read_codes(table, uint8=uint8))
    live = [tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")]
    scales = {tensor: texts[tensor][0] for tensor in live if tensor in texts}
    if not uint8:
        return TmfileCoded(graph, in_codes(graph, _numbers(scales), name), scales, {}, 0)
    points = {tensor: texts[tensor][1] for tensor in scales}
    return TmfileCoded(graph, _in_uint8(graph, scales, points, name), scales, points, 0)


def _with_turned(
    graph: Graph, added: Collection[str], texts: dict[str, tuple[str, int]]
) -> dict[str, tuple[str, int]]:
    """The table with the tensors that turning a file added: each has the codes of what it is turned from."""
    found = dict(texts)
    for node in graph.nodes:
        one, other = (graph.tensors[places[0]].name for places in (node.inputs or (0,), node.outputs))
        for new, known in ((one, other), (other, one)):
            if node.op == "Transpose" and new in added and known in texts:
                found.setdefault(new, texts[known])
    return found


def _in_uint8(graph: Graph, scales: dict[str, str], points: dict[str, int], name: str) -> Coded:
    numbers = _numbers(scales)
    return in_uint8(graph, {tensor: (numbers[tensor], points[tensor]) for tensor in numbers}, name)


def read_codes(path: str | os.PathLike[str], *, uint8: bool) -> dict[str, tuple[str, int]]:
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
    name, graph = named
    model = float_model(graph, name)
    dataset = reading.opened(graph_inputs(model))
    tensors = tuple(dict.fromkeys(tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")))
    how = Gathering(reading.batch, reading.threads, bins=needs_bins(wish, {}))
    found = gathered(model, tensors, dataset, how, progress)
    counts = count_again(
        method, model, found.statistics, dataset, batch=reading.batch, threads=reading.threads,
        progress=progress, without={},
    )  # fmt: skip
    table = decide(found.statistics, found.averages, spec, wish, {}, counts, threads=reading.threads)
    return table, dataset.total or 0
