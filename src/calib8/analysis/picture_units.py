"""Whether a detector is fed pixels in other units than in training: it says the same of every picture then.

    best_i    mean of the ten best scores of sample i (``calib8.data.channel_order``)
    blind     every best_i ≥ EVERYWHERE, or every best_i ≤ NOWHERE

Pixels of 0 … 255 in place of 0 … 1 drive all scores to their end; pixels of 0 … 1 in place of 0 … 255 are one
dark picture. A detector that is blind as it is fed, and with pixels of other units is not, was trained on
those with which it finds most. Where there is nothing to find in any picture no unit shows anything, and
nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.colour_order import picture_axis, samples
from calib8.analysis.sureness import Witness
from calib8.data.channel_order import FEWEST_SAMPLES, clearly_surer
from calib8.data.preprocess import Preprocess
from calib8.parameters import Text, either

Array = npt.NDArray[Any]

EVERYWHERE: Final = 0.98
NOWHERE: Final = 0.02

FINDS: Final = 0.1
"""Mean of the best scores from which a detector finds something: pictures without objects stay below."""


@dataclass(frozen=True)
class Unit:
    """A way to count pixels: ``(pixel − mean) · scale``, pixels 0 … 255."""

    text: str
    mean: float
    scale: float
    recipe: str


def _recipe(mean: str, scale: str) -> str:
    return either(f"mean=({mean},), scale=({scale},)", f"--mean {mean} --scale {scale}")


UNITS: Final = (
    Unit("0 … 1", 0.0, 1.0 / 255.0, _recipe("0", "1/255")),
    Unit("−1 … 1", 127.5, 1.0 / 127.5, _recipe("127.5", "1/127.5")),
    Unit("0 … 255", 0.0, 1.0, _recipe("0", "1")),
)


@dataclass(frozen=True)
class OtherUnits:
    """What tells that pixels are in other units; see ``calib8.analysis.colour_order.Exchanged``."""

    text: str
    cure: str


def other_units(witness: Witness, p: Preprocess | None) -> OtherUnits | None:
    """In which units a detector would find something; None where it does as it is fed, or in none.

    Needs one float image input of three channels, and samples enough.

    Args:
        witness: the float model and the inputs as they are fed.
        p: what images went through; None for arrays.

    Raises:
        ModelError, DataError: the model cannot be run.
    """
    axis = picture_axis(witness.runs[0], p) if witness.runs else None
    if axis is None or samples(witness.runs) < FEWEST_SAMPLES:
        return None
    fed = witness.as_fed()
    if fed is None or fed.of:
        return None
    best = np.exp(-fed.entropy)
    everywhere, nowhere = float(best.min()) >= EVERYWHERE, float(best.max()) <= NOWHERE
    pixels = _pixels(witness, p, axis) if everywhere or nowhere else None
    if pixels is None:
        return None
    seeing = list[tuple[float, Unit, str]]()
    for unit in UNITS:
        other = witness.sureness(partial(_counted_as, unit, pixels))
        if other is None:
            return None
        found = np.exp(-other.entropy)
        apart = float(found.min()) < EVERYWHERE and float(found.max()) > NOWHERE
        if apart and (everywhere or (found.mean() >= FINDS and clearly_surer(fed.entropy, other.entropy))):
            seeing.append((float(found.mean()), unit, f"{found.min():.2f} … {found.max():.2f}"))
    if not seeing:
        return None
    _, unit, told = max(seeing, key=lambda one: one[0])
    what = "something everywhere" if everywhere else "nothing"
    text = (
        f"the model finds {what} in every picture (best scores {best.min():.2f} … {best.max():.2f}), with "
        f"pixels of {unit.text} it tells them apart ({told})"
    )
    return OtherUnits(text, Text(f"Give {unit.recipe}, or see how the model was trained"))


def _counted_as(unit: Unit, pixels: Callable[[Array], Array], values: Array) -> Array:
    """Inputs in other units, of the type that they have."""
    return np.asarray((pixels(values) - unit.mean) * unit.scale, values.dtype)


def _pixels(witness: Witness, p: Preprocess | None, axis: int) -> Callable[[Array], Array] | None:
    """What makes pixels 0 … 255 of inputs; None where arrays do not tell how they were made."""
    if p is not None:
        shape = (-1, 1, 1) if axis == 1 else (-1,)
        mean, scale = (np.array(one, np.float32).reshape(shape) for one in (p.mean, p.scale))
        return lambda values: values / scale + mean
    low = min(float(array.min()) for run in witness.runs for array in run.values())
    high = max(float(array.max()) for run in witness.runs for array in run.values())
    if low >= 0.0 and 2.0 < high <= 255.0:
        return lambda values: values
    if low >= 0.0 and high <= 1.0:
        return lambda values: values * np.float32(255.0)
    return (lambda values: (values + 1) * np.float32(127.5)) if low >= -1.0 and high <= 1.0 else None
