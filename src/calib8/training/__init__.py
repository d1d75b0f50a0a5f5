"""Training with the rounding of the int8 model simulated, in PyTorch."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.training.agreements import Agreement as Agreement
    from calib8.training.agreements import agreement as agreement
    from calib8.training.batch_norm import reestimate_batch_norms as reestimate_batch_norms
    from calib8.training.conversion import convert as convert
    from calib8.training.conversion import freeze as freeze
    from calib8.training.preparing import prepare as prepare
    from calib8.training.simulated_model import SimulatedModel as SimulatedModel

if find_spec("torch") is None:
    raise UsageError("training", "the package torch is not installed", "Run: pip install 'calib8[qat]'")

_HOMES: Final = {
    "Agreement": "agreements",
    "SimulatedModel": "simulated_model",
    "agreement": "agreements",
    "convert": "conversion",
    "freeze": "conversion",
    "prepare": "preparing",
    "reestimate_batch_norms": "batch_norm",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'calib8.training' has no attribute '{name}'")
    value = getattr(import_module(f"calib8.training.{home}"), name)
    globals()[name] = value
    return value
