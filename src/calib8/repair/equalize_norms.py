"""Equalization through normalizations of rows: scale and bias of a LayerNorm take up factors per channel.

    LayerNorm(γ, β) ─► t ─► layers W            LayerNorm(u·γ, u·β) ─► u·t ─► layers W/u

In transformers few channels of what a LayerNorm yields are many times as large as the others, and one scale
serves all of them. The factors are those of least noise of codes and weights together (``channels_read``):
quiet channels become louder and their weights smaller. SmoothQuant (Xiao et al., 2022) has a fixed formula,
max|t|^α / max|W|^(1−α), in place of the search; as its factors, these cost nothing when the model runs. The
float function stays the same bit for bit, as factors are powers of two.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.model.graph import rank
from calib8.passes.fold_affine import Vector
from calib8.passes.norm_factors import NormExit, norm_exits, scale_norm
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.channel_extremes import ChannelExtremes, channel_extremes
from calib8.repair.channels_read import factors_of_least_noise
from calib8.repair.equalize_through import channel_sizes_alike
from calib8.repair.refit import refitted, without_corrections
from calib8.table import GIVEN

LARGEST: Final = 64.0
"""Of a factor: what a channel may be too quiet by on all samples beside other images."""

WORTH: Final = 0.9
"""Share of the foreseen noise that may be left: the factors cost nothing."""


def equalize_norms(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """Equalizes what every normalization of rows yields for matrix products.

    Tensors with a range that the user gave stay as they are, and so does everything for targets with one
    scale per weight.

    Args:
        candidate: what to repair; corrections of the layers that change are dropped.
        data: all its samples count.

    Returns:
        The candidate with the new model and ranges, and what was done.

    Raises:
        CalibrationError: a tensor held NaN or infinite values.
        ModelError, DataError: ONNX Runtime cannot run the model, or the samples cannot be read again.
    """
    model = candidate.model.clone()
    found = [
        one for one in norm_exits(model, candidate.scheme, candidate.keep_float) if _free(one, candidate)
    ]
    tensors = {one.tensor.name or "": rank(one.tensor) or 0 for one in found}
    seen = channel_extremes(model, tensors, data, every_sample=True, power=True, axis=-1)
    factors = [_factors(seen[one.tensor.name or ""], one) for one in found]
    chosen = [pair for pair in zip(found, factors, strict=True) if np.any(pair[1] != 1.0)]
    if not chosen:
        return candidate, RepairReport(())
    for one, own in chosen:
        scale_norm(model.graph, one, own)
    layers = {reader.node for one, _ in chosen for reader in one.readers}
    names = tuple(node.name or "" for node in model.graph if node in layers)
    kept, notes = without_corrections(candidate, names)
    changed = [value.name or "" for one, _ in chosen for value in one.tensors]
    told = f"normalizations of which channels were equalized: {len(chosen)}"
    return refitted(kept, model, changed, data), RepairReport(names, (told, *notes))


def _free(found: NormExit, candidate: Candidate) -> bool:
    """Whether no range of its tensors was given by the user."""
    entries = [candidate.table.entries.get(value.name or "") for value in found.tensors]
    return all(entry is None or entry.method != GIVEN for entry in entries)


def _factors(seen: ChannelExtremes, found: NormExit) -> Vector:
    return factors_of_least_noise(seen, found.readers, LARGEST, WORTH, _alike)


def _alike(seen: ChannelExtremes, largest: float) -> Vector:
    return channel_sizes_alike(seen, largest, 1.0)
