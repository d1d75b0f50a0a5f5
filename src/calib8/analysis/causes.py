"""Why a layer loses much: what its tensors, its weights and the data tell, in plain words.

input       the input's codes do not fit the data: more than 1 % clipped, or less than a third in use
scale       one channel reaches 30 times the median of the channels: max_c |t_c| / median_c |t_c|
branches    inputs of a Concat or factors of a Mul reach 8 times as far as others that share their codes
clipped     more than 1 % of the values lie outside of the codes
weights     codes of the weight that are worse than 30 dB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.batch_norms import BatchNormInspection
from calib8.analysis.compare import TensorComparison
from calib8.analysis.damage import Damage
from calib8.quantization.qdq import label

Cause = Literal[
    "preprocessing", "input", "batch normalization", "scale", "branches", "clipped", "weights", "codes"
]

DOMINANT: Final = 30.0
"""A channel that reaches so many times as far as the median channel dominates its tensor."""

APART: Final = 8.0
"""Branches that differ by more lose bits of the smaller one."""

CLIPPED: Final = 0.01
USED: Final = 1.0 / 3.0
POOR_WEIGHT_DB: Final = 30.0

Maxima = Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Reason:
    """Why a layer loses much.

    Attributes:
        cause: one of ``Cause``.
        text: the observation, one sentence with its figures.
        advice: what may help, one sentence; empty where keeping the node in float is all.
    """

    cause: Cause
    text: str
    advice: str


def why(
    row: TensorComparison,
    damage: Damage,
    maxima: Maxima,
    graph: ir.Model,
    norms: Mapping[str, BatchNormInspection],
) -> Reason:
    """The most telling reason of one layer's loss.

    Args:
        row: what ``compare`` found at the tensor it yields.
        damage: what its codes do to the outputs.
        maxima: tensor of the float model → largest magnitude per channel.
        graph: the float model in which the tensors are computed.
        norms: tensor → a suspicious BatchNormalization that yields it.
    """
    reasons = (
        _input(row), _norm(row, norms), _scale(row, maxima), _branches(row, maxima, graph), _clipped(row),
        _weights(row, damage),
    )  # fmt: skip
    found = next((reason for reason in reasons if reason is not None), None)
    return found or Reason("codes", f"{_loss(row)}; nothing is out of proportion", "")


def _input(row: TensorComparison) -> Reason | None:
    """An input whose codes are not those of such data."""
    if row.node is not None or row.representable is None or row.saturated is None:
        return None
    low, high = row.representable
    seen = (max(row.observed[1], 0.0) - min(row.observed[0], 0.0)) / (high - low)
    if row.saturated <= CLIPPED and seen >= USED:
        return None
    text = (
        f"its codes hold {low:.4g} … {high:.4g}, the data {row.observed[0]:.4g} … {row.observed[1]:.4g} "
        f"({100.0 * row.saturated:.1f} % clipped): the model was calibrated with other preprocessing or "
        "other data"
    )
    return Reason("input", text, "Compare mean, scale and colour order with those of the training")


def _norm(row: TensorComparison, norms: Mapping[str, BatchNormInspection]) -> Reason | None:
    found = next((norms[name] for name in (row.tensor, *row.nodes) if name in norms), None)
    if found is None:
        return None
    text = (
        f"BatchNormalization {found.name}: channel {found.channel} has γ = {found.gamma:.3g}, σ² = "
        f"{found.variance:.3g} and is scaled {found.ratio:.3g} times as much as the median channel"
    )
    return Reason("batch normalization", text, "The channel is (almost) constant before it: set its γ to 0")


def _scale(row: TensorComparison, maxima: Maxima) -> Reason | None:
    """One channel that takes the codes of all others."""
    reach = maxima.get(row.tensor)
    if reach is None or reach.size < 2 or row.scale is None or len(row.scale) > 1:
        return None
    alive = reach[reach > 0.0]
    median = float(np.median(alive)) if alive.size else 0.0
    channel = int(np.argmax(reach))
    if not 0.0 < median * DOMINANT <= reach[channel]:
        return None
    text = (
        f"channel {channel} reaches {reach[channel]:.4g}, the median channel {median:.4g}: one scale for all "
        "leaves it few codes"
    )
    return Reason("scale", text, "Equalize the layers around it")


def _branches(row: TensorComparison, maxima: Maxima, graph: ir.Model) -> Reason | None:
    """Branches of different size that meet in one tensor."""
    producer = next((node for node in graph.graph if label(node) == row.node), None)
    if producer is None or producer.op_type != "Concat":
        return None
    reach = {
        value.name or "": float(np.max(maxima[value.name or ""], initial=0.0))
        for value in producer.inputs
        if value is not None and value.name in maxima
    }
    small, large = (
        min(reach, key=lambda name: reach[name], default=""),
        max(reach, key=lambda name: reach[name], default=""),
    )
    if len(reach) < 2 or reach[large] < APART * reach[small]:
        return None
    sizes = f"'{large}' reaches {reach[large]:.4g} and '{small}' {reach[small]:.4g}"
    text = f"{sizes}, and one scale has to hold both"
    return Reason("branches", text, "")


def _clipped(row: TensorComparison) -> Reason | None:
    if row.saturated is None or row.saturated <= CLIPPED or row.representable is None:
        return None
    low, high = row.representable
    text = (
        f"{100.0 * row.saturated:.1f} % of its values lie outside of {low:.4g} … {high:.4g} (they reach "
        f"{row.observed[0]:.4g} … {row.observed[1]:.4g})"
    )
    return Reason("clipped", text, "Calibrate on more typical data, or with --method minmax")


def _weights(row: TensorComparison, damage: Damage) -> Reason | None:
    if row.weight_sqnr_db is None or row.weight_sqnr_db >= POOR_WEIGHT_DB:
        return None
    if damage.weights is None or (damage.codes is not None and damage.codes < damage.weights):
        return None
    text = f"the codes of its weight are {row.weight_sqnr_db:.1f} dB from it"
    return Reason("weights", text, "Quantize it with a scale per channel")


def _loss(row: TensorComparison) -> str:
    return f"SQNR of the layer alone {row.local.sqnr_db:.1f} dB"


def ordered(reasons: Sequence[Reason]) -> list[int]:
    """Indices of the reasons, those first that explain all that comes behind them."""
    first: dict[str, int] = {"preprocessing": 0, "input": 0}
    return sorted(range(len(reasons)), key=lambda index: first.get(reasons[index].cause, 1))
