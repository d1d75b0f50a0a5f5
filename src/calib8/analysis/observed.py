"""A model looked at while it runs: values that codes cut, pairs that saturate, normalizations adrift.

    saturated    share of the values of a tensor more than half a step outside of what its codes represent

The values are those of the quantized model itself, as they reach its quantizers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from calib8.analysis.noise import Spread
from calib8.analysis.pair_saturation import LayerPairs, PairObserver, layer_pairs
from calib8.analysis.tensor_codes import TensorCode, tensor_code
from calib8.analysis.wrong_statistics import LOOKED_AT, wrong_statistics
from calib8.calibration.streaming import opened_for
from calib8.data.batches import batches
from calib8.data.reading import BatchWords, Reading, SampleWords
from calib8.data.samples import Dataset, DataSource
from calib8.errors import UnsupportedModelError
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import constant
from calib8.model.load import load_model
from calib8.model.runtime import Arrays, open_session
from calib8.model.taps import tapped_model
from calib8.ops.questions import quantizes
from calib8.progress import Progress, SampleCounter, silent
from calib8.quantization.qdq import codes_of, hides_floats, holds_codes, label, nodes, readable_copy
from calib8.repair.batch_norm_statistics import BatchNormDrift, batch_norm_drift
from calib8.requests import requested, takes_words_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class SaturatedTensor:
    """What the codes of one tensor cut.

    Attributes:
        tensor: the value that is quantized.
        saturated: share of its values that are cut, 0 … 1.
        values: how many were seen.
        observed: smallest and largest of them.
        representable: real values of the smallest and the largest code.
    """

    tensor: str
    saturated: float
    values: int
    observed: tuple[float, float]
    representable: tuple[float, float]


@dataclass(frozen=True)
class Observation:
    """What data show of a model.

    Attributes:
        samples: how many were seen.
        skipped: bad images passed over.
        tensors: of a quantized model, the largest share first.
        batch_norms: of a float model, in graph order.
        pairs: see ``LayerPairs``; None where it was not asked for.
        wrong: those of the normalizations that are adrift by themselves, see ``wrong_statistics``.
    """

    samples: int
    skipped: int
    tensors: tuple[SaturatedTensor, ...]
    batch_norms: tuple[BatchNormDrift, ...]
    pairs: tuple[LayerPairs, ...] | None
    wrong: tuple[BatchNormDrift, ...] = ()


class ObservingWords(SampleWords, BatchWords):
    """Keywords of ``observe``."""


@takes_words_of(Reading, without=("labels", "shapes"))
def observe(
    path: str | os.PathLike[str],
    data: DataSource | Reading,
    *,
    pairs: bool = False,
    progress: Progress = silent,
    **words: Unpack[ObservingWords],
) -> Observation:
    """Runs a model over data in ONNX Runtime and looks at what is inside.

    Args:
        path: of a float or QDQ model.
        data: images or arrays, or a ``Reading``, whose other fields are keywords too.
        pairs: look at pairs of weights too; of a QDQ model only.
        progress: see ``calibrate``.
        words: fields of ``Reading``.

    Raises:
        Calib8Error: what can be wrong with model, data or options, in one line each.
    """
    reading = requested(Reading, words, data, field="data")
    threads = reading.threads
    original = load_model(with_fixed(path, reading.fix))
    dataset = opened_for(original, replace(reading, labels=None))
    if pairs:
        check_qdq(original, os.fspath(path))
    runs = _Runs(dataset, reading.batch_size, threads, progress)
    if not holds_codes(original):
        drifts = batch_norm_drift(original, runs, threads)
        wrong = wrong_statistics(original, runs.first, drifts, threads)
        return Observation(runs.samples, len(dataset.skipped), (), drifts, None, wrong)
    watch = _Watch(readable_copy(original), pairs=pairs, threads=threads)
    for feeds in runs:
        watch.add(feeds)
    found = watch.pairs.found() if watch.pairs is not None else None
    return Observation(runs.samples, len(dataset.skipped), watch.tensors(), (), found)


class _Runs:
    """The data as inputs of runs, counted; the first ones are kept."""

    def __init__(self, dataset: Dataset, batch: int, threads: int, progress: Progress) -> None:
        self.samples = 0
        self.first: list[Arrays] = []
        self._dataset, self._batch, self._threads = dataset, batch, threads
        self._counter = SampleCounter("running", dataset.count, progress)

    def __iter__(self) -> Iterator[Arrays]:
        with closing(batches(self._dataset, self._batch, self._threads)) as pieces:
            for piece in pieces:
                yield piece.inputs
                self.first += [piece.inputs] * (len(self.first) < LOOKED_AT)
                self.samples += len(piece.names)
                self._counter(len(piece.names))


def pairs_in_file(path: str | os.PathLike[str]) -> tuple[LayerPairs, ...]:
    """The pairs of a QDQ model by their worst case, without data.

    Raises:
        ModelError: the file cannot be read.
        UnsupportedModelError: it is no QDQ model.
    """
    model = load_model(path)
    check_qdq(model, os.fspath(path))
    return layer_pairs(readable_copy(model))


def check_qdq(model: ir.Model, name: str) -> None:
    """Refuses models whose layers cannot be looked at.

    Raises:
        UnsupportedModelError: a float model, or one in QOperator form.
    """
    operator = next((node for node in nodes(model) if hides_floats(node)), None)
    if operator is not None:
        problem = f"is not in QDQ form: it holds {operator.op_type} '{label(operator)}'"
        cure = "Export it with QuantizeLinear and DequantizeLinear nodes (QDQ)"
        raise UnsupportedModelError(name, problem, cure)
    if not holds_codes(model):
        raise UnsupportedModelError(name, "is a float model: it has no codes", "Quantize it first")


class _Watch:
    """A session that gives the values in question, and what was seen of them."""

    def __init__(self, model: ir.Model, *, pairs: bool, threads: int) -> None:
        self.pairs = PairObserver(model) if pairs else None
        self._codes = _quantized_values(model)
        self._spreads = {name: Spread() for name in self._codes}
        self._read = {} if self.pairs is None else self.pairs.inputs
        self._fed = {value.name or "" for value in model.graph.inputs}
        wanted = [*self._codes, *self._read.values()]
        self._taps = [name for name in dict.fromkeys(wanted) if name not in self._fed]
        tapped = tapped_model(model, self._taps) if self._taps else None
        self._session = None if tapped is None else open_session(tapped, threads=threads)

    def add(self, feeds: Arrays) -> None:
        """Adds one run."""
        computed = [] if self._session is None else self._session.run(feeds)
        values = {**feeds, **dict(zip(self._taps, computed, strict=True))}
        for name, code in self._codes.items():
            self._spreads[name].add(values[name].astype("float32", copy=False), code)
        if self.pairs is not None:
            self.pairs.add({layer: values[name] for layer, name in self._read.items()})

    def tensors(self) -> tuple[SaturatedTensor, ...]:
        """Every quantized tensor that was seen, the largest share first, then by name."""
        found = []
        for name, spread in self._spreads.items():
            if spread.values:
                share = spread.saturated / spread.values
                seen = (spread.minimum, spread.maximum)
                found.append(
                    SaturatedTensor(name, share, spread.values, seen, self._codes[name].representable)
                )
        return tuple(sorted(found, key=lambda item: (-item.saturated, item.tensor)))


def _quantized_values(model: ir.Model) -> dict[str, TensorCode]:
    """Value that a QuantizeLinear of the main graph reads → what its codes can hold."""
    found: dict[str, TensorCode] = {}
    for node in model.graph:
        value = node.inputs[0] if quantizes(node) else None
        code = tensor_code(codes_of(node)) if value is not None and constant(value) is None else None
        if value is not None and code is not None and value.name:
            found.setdefault(value.name, code)
    return found
