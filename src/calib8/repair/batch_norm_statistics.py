"""Statistics of batch normalizations on the calibration images: how far they moved, and estimated anew.

    μ'_c = mean of x_c,   σ'²_c = mean of (x_c − μ'_c)²        over all runs and positions
    shift_c = |μ'_c − μ_c| / √(σ²_c + ε),   ratio_c = √((σ'²_c + ε) / (σ²_c + ε))

A network that is fed as it was trained has shifts near 0 and ratios near 1 from its first normalization on.
A wrong mean or scale of the images shows there (colours in another order seldom do); images of another kind
move later ones. A re-estimated network starts from what it sees: γ and β stay, each normalization is
estimated behind those before it, which have their new statistics already. This needs a model whose
normalizations are not folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import Names, constant, float_attribute
from calib8.model.runtime import Arrays
from calib8.model.taps import Taps
from calib8.ops.questions import normalizes
from calib8.passes.fold_affine import batch_norm_affine
from calib8.progress import Progress, SampleCounter, silent
from calib8.quantization.qdq import label, readable_copy

MAX_SHIFT: Final = 0.5
"""Largest shift of a normalization that passes; real networks fed rightly have 0.3 at most in the first."""

MAX_RATIO: Final = 2.0
"""Largest ratio that passes; its inverse is the smallest."""

CONSTANT: Final = 1e-4
"""A channel of a smaller σ² was constant in training: whatever it sees now is many deviations off."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BatchNormDrift:
    """How far the data are from the statistics of one BatchNormalization.

    Attributes:
        name: the node.
        shift: root of the mean over the channels of (μ' − μ)² / (σ² + ε), ≥ 0.
        ratio: median over the channels of √((σ'² + ε) / (σ² + ε)), > 0. Channels with σ² < ``CONSTANT`` count
            in neither, unless all are so.
        channel: the channel of the largest shift, of all of them.
        largest_shift: that shift.
    """

    name: str
    shift: float
    ratio: float
    channel: int
    largest_shift: float

    @property
    def suspicious(self) -> bool:
        """Its channels see other values than they were trained with."""
        return self.shift > MAX_SHIFT or not 1.0 / MAX_RATIO <= self.ratio <= MAX_RATIO


@dataclass
class _Moments:
    """Running sums of x − μ and (x − μ)² per channel, μ being the stored mean."""

    mean: Vector
    count: int
    total: Vector
    squares: Vector

    def add(self, values: npt.NDArray[Any]) -> None:
        """Adds [N, C, …], sample by sample: how they are split over runs changes no bit."""
        for sample in values:
            rows = sample.reshape(len(self.mean), -1) - self.mean[:, None]
            self.count += rows.shape[1]
            self.total += rows.sum(axis=1)
            self.squares += np.square(rows).sum(axis=1)

    def found(self) -> tuple[Vector, Vector]:
        """μ' and σ'²."""
        step = self.total / max(self.count, 1)
        return self.mean + step, np.maximum(self.squares / max(self.count, 1) - np.square(step), 0.0)


def batch_norm_drift(model: ir.Model, runs: Iterable[Arrays], threads: int = 2) -> tuple[BatchNormDrift, ...]:
    """How far the data are from the stored statistics, with those in force; one run of the model per sample.

    Args:
        model: a float model; not changed.
        runs: inputs of runs, read once.
        threads: for ONNX Runtime; no result depends on it.

    Returns:
        One entry per BatchNormalization with constant parameters, in graph order; none without them.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    copy = readable_copy(model)
    found = _batch_norms(copy)
    moments = _observe(copy, found, runs, threads)
    return tuple(_drift(node, *moments[node].found()) for node in found)


def first_batch_norm_drift(
    model: ir.Model, runs: Iterable[Arrays], threads: int = 2
) -> BatchNormDrift | None:
    """``batch_norm_drift`` of the first normalization alone: the model is run only as far as that.

    Returns:
        None where there is no normalization with constant parameters.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    copy = readable_copy(model)
    found = _batch_norms(copy)[:1]
    return _drift(found[0], *_observe(copy, found, runs, threads)[found[0]].found()) if found else None


def reestimate_batch_norms(
    model: ir.Model, runs: Sequence[Arrays], threads: int = 2, progress: Progress = silent
) -> tuple[ir.Model, tuple[BatchNormDrift, ...]]:
    """The model with statistics of the data; normalizations without one another behind them go together.

    Args:
        model, threads: as for ``batch_norm_drift``.
        runs: inputs of runs, read once for every normalization on the longest way.
        progress: see ``Progress``.

    Returns:
        A new model of the same γ and β (the given one where it has no normalization), and how far each
        moved, in graph order.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run it.
    """
    copy = readable_copy(model)
    levels = _levels(copy)
    if not levels or not runs:
        return model, ()
    counter = SampleCounter("estimating batch normalizations", len(runs) * len(levels), progress)
    drifts: dict[ir.Node, BatchNormDrift] = {}
    names = Names(copy.graph)
    for level in levels:
        moments = _observe(copy, level, runs, threads, counter)
        for node in level:
            mean, variance = moments[node].found()
            drifts[node] = _drift(node, mean, variance)
            for index, array, suffix in ((3, mean, "mean"), (4, variance, "variance")):
                value = names.constant(f"{node.name}/{suffix}", array.astype(np.float32))
                node.replace_input_with(index, value)
    ir_passes.RemoveUnusedNodesPass()(copy)
    return copy, tuple(drifts[node] for node in _batch_norms(copy))


def _batch_norms(model: ir.Model) -> list[ir.Node]:
    found = (node for node in model.graph if normalizes(node))
    return [node for node in found if batch_norm_affine(node) is not None]


def _levels(model: ir.Model) -> list[list[ir.Node]]:
    """The normalizations by how many of them lie on the longest way to them."""
    wanted = set(_batch_norms(model))
    depths: dict[ir.Value, int] = {}
    levels: list[list[ir.Node]] = []
    for node in model.graph:
        depth = max((depths.get(value, 0) for value in node.inputs if value is not None), default=0)
        if node in wanted:
            levels += [[]] * (depth == len(levels))
            levels[depth] = [*levels[depth], node]
            depth += 1
        depths.update(dict.fromkeys(node.outputs, depth))
    return levels


def _observe(
    model: ir.Model,
    found: Sequence[ir.Node],
    runs: Iterable[Arrays],
    threads: int,
    on_run: Callable[[int], None] = lambda runs: None,
) -> Mapping[ir.Node, _Moments]:
    """Moments of the inputs of these normalizations."""
    moments = {}
    for node in found:
        mean = np.asarray(constant(node.inputs[3]), np.float64)
        moments[node] = _Moments(mean, 0, np.zeros_like(mean), np.zeros_like(mean))
    sources = {node: node.inputs[0].name or "" for node in found if node.inputs[0] is not None}
    taps = Taps(model, sources.values(), threads)
    for feeds in runs:
        values = taps.values(feeds)
        for node, name in sources.items():
            moments[node].add(values[name])
        on_run(1)
    return moments


def _drift(node: ir.Node, mean: Vector, variance: Vector) -> BatchNormDrift:
    epsilon = float_attribute(node, "epsilon", 1e-5)
    stored_mean, stored = (np.asarray(constant(node.inputs[index]), np.float64) for index in (3, 4))
    shift = np.abs(mean - stored_mean) / np.sqrt(stored + epsilon)
    ratio = np.sqrt((variance + epsilon) / (stored + epsilon))
    alive = stored >= CONSTANT if np.any(stored >= CONSTANT) else np.ones(len(stored), np.bool_)
    channel, size = int(np.argmax(shift)), float(np.sqrt(np.mean(np.square(shift[alive]))))
    return BatchNormDrift(
        label(node),
        size,
        float(np.median(ratio[alive])),
        channel,
        float(shift[channel]),
    )
