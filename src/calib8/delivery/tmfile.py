"""A float tmfile of Tengine quantized to an int8 one, as Tengine's quant_tool_int8 does it.

    M.tmfile ──► ranges of all its tensors ──► table of scales ──► model in codes

Every tensor of the file gets a range, also those that calib8's own targets do not code: Tengine's runtime
rounds after every operator.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calib8.calibration.collect_layouts import count_again
from calib8.calibration.decide import Wish, check_wish, decide, needs_bins
from calib8.calibration.everywhere import gathered
from calib8.calibration.gather import Gathering
from calib8.data.reading import Reading
from calib8.errors import TableError
from calib8.exporting.tmfile.codes import Coded, in_codes
from calib8.exporting.tmfile.scales import scale_texts
from calib8.files import check_file
from calib8.formats import tengine
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.progress import Progress
from calib8.qparams import INT8_SYMMETRIC
from calib8.table import CalibrationTable
from calib8.tmfile.graph import Graph
from calib8.tmfile.read import read_tmfile


@dataclass(frozen=True, eq=False)
class TmfileInt8:
    """What became of a tmfile.

    Attributes:
        coded: the model in codes, and the scales of its layers.
        scales: tensor → scale as the table has it.
        samples: that were seen, 0 where the scales were given.
    """

    coded: Coded
    scales: dict[str, str]
    samples: int


def quantized_tmfile(
    model: str | os.PathLike[str], reading: Reading, method: str, progress: Progress
) -> TmfileInt8:
    """Chooses the scales and puts the model into codes.

    Args:
        model: path of a float .tmfile.
        reading: the images.
        method: of the ranges, one of ``calib8.calibration.ranges.METHODS`` or a two-pass one.
        progress: told how far it is.

    Raises:
        Calib8Error: what can be wrong with model, data or method.
    """
    name, graph = os.fspath(model), read_tmfile(model)
    table, samples = _calibrated(name, graph, reading, method, progress)
    texts = scale_texts(graph, table, name)
    return TmfileInt8(in_codes(graph, _numbers(texts), name), texts, samples)


def tmfile_by_table(model: str | os.PathLike[str], table: str | os.PathLike[str]) -> TmfileInt8:
    """Puts the model into codes by the scales of a table of Tengine's tools, each as it stands there.

    Raises:
        TableError: it is no such table, or lacks a tensor of the model.
        ModelError: what can be wrong with the model.
    """
    name, graph = os.fspath(model), read_tmfile(model)
    texts = read_scales(table)
    live = [tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")]
    kept = {tensor: texts[tensor] for tensor in live if tensor in texts}
    return TmfileInt8(in_codes(graph, _numbers(kept), name), kept, 0)


def read_scales(path: str | os.PathLike[str]) -> dict[str, str]:
    """Tensor → scale as it stands in a table of int8 scales.

    Raises:
        TableError: it cannot be read, or is none.
    """
    source = os.fspath(path)
    check_file(path, "Give a .scale file", TableError)
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise TableError(source, f"cannot be read ({error})", "Give a .scale file") from error
    tengine.read(text, source, "tengine")
    lines = (line.split() for line in text.splitlines())
    return {parts[0]: parts[1] for parts in lines if len(parts) == 3}


def _numbers(texts: dict[str, str]) -> dict[str, float]:
    return {name: float(np.float32(text)) for name, text in texts.items()}


def _calibrated(
    name: str, graph: Graph, reading: Reading, method: str, progress: Progress
) -> tuple[CalibrationTable, int]:
    """Ranges of every tensor that is an input or computed."""
    wish = Wish(method)
    check_wish(wish)
    model = load_model(name)
    dataset = reading.opened(graph_inputs(model))
    tensors = tuple(dict.fromkeys(tensor.name for tensor in graph.tensors if tensor.role in ("var", "input")))
    how = Gathering(reading.batch, reading.threads, bins=needs_bins(wish, {}))
    found = gathered(model, tensors, dataset, how, progress)
    counts = count_again(
        method, model, found.statistics, dataset, batch=reading.batch, threads=reading.threads,
        progress=progress, without={},
    )  # fmt: skip
    table = decide(
        found.statistics, found.averages, INT8_SYMMETRIC, wish, {}, counts, threads=reading.threads
    )
    return table, dataset.total or 0
