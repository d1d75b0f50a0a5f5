"""Statistics of data that many machines read, on a cluster of Ray."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from calib8.distributed.cluster import connected as connected
    from calib8.distributed.collecting import collect as collect
    from calib8.distributed.on_ray import OnRay as OnRay

_HOMES: Final = {"OnRay": "on_ray", "collect": "collecting", "connected": "cluster"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'calib8.distributed' has no attribute '{name}'")
    value = getattr(import_module(f"calib8.distributed.{home}"), name)
    globals()[name] = value
    return value
