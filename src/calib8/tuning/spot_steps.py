"""Which tensors get 16-bit codes, in which order: ranked once in a search, and stored.

spots.json    {"steps": [{"tensors": [names that share a scale], "price": share of the work done twice}],
              "notes": [why there are none]}

The order is that of ``calib8.repair.spots``: noise that is gone per work.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from calib8.errors import Calib8Error
from calib8.repair.spots import ranked_spots
from calib8.tuning.clock import Clock
from calib8.tuning.recipes import Recipes
from calib8.tuning.trial import Settings

SPOTS: Final = "spots.json"
"""Name in the folder of the steps."""


@dataclass(frozen=True)
class SpotStep:
    """Tensors that get 16-bit codes together.

    Attributes:
        tensors: their names; they share a scale.
        price: share of the multiply-accumulates of the layers that read them, 0 … 1.
    """

    tensors: tuple[str, ...]
    price: float


@dataclass(frozen=True)
class SpotSteps:
    """All steps, that which helps most per work in front; why there are none."""

    steps: tuple[SpotStep, ...]
    notes: tuple[str, ...] = ()


def spot_steps(recipes: Recipes, base: Settings, clock: Clock) -> SpotSteps:
    """The steps that are stored, else new ones, which are stored.

    Args:
        recipes: what models are made from.
        base: settings of the model whose tensors are ranked.
        clock: what time there is.

    Raises:
        BudgetOver: the time is over.
        Calib8Error: a model cannot be made, or the file is broken.
    """
    if not recipes.scheme.chooses_spots:
        return SpotSteps(())
    folder = recipes.folder
    stored = folder.read_json(SPOTS)
    if stored is None:
        with clock.limited():
            found = _ranked(recipes, base)
        stored = {
            "steps": [{"tensors": list(one.tensors), "price": one.price} for one in found.steps],
            "notes": list(found.notes),
        }
        folder.write(SPOTS, json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    try:
        steps = (SpotStep(tuple(map(str, one["tensors"])), float(one["price"])) for one in stored["steps"])
        return SpotSteps(tuple(steps), tuple(map(str, stored["notes"])))
    except (KeyError, TypeError, ValueError) as error:
        raise folder.broken(SPOTS, error) from error


def _ranked(recipes: Recipes, base: Settings) -> SpotSteps:
    candidate = recipes.made(base)[1].candidate
    try:
        ranked = ranked_spots(candidate, recipes.data)
    except Calib8Error as error:  # not what the float model computes once its codes are gone
        return SpotSteps((), (f"no tensor was tried with 16-bit codes: {error.problem}",))
    return SpotSteps(tuple(SpotStep(tuple(sorted(one.members)), one.price) for one in ranked))
