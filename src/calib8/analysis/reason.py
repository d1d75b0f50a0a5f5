"""Why a layer loses much, in plain words, and what may help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calib8.parameters import Text

Cause = Literal[
    "statistics",
    "preprocessing",
    "input",
    "batch normalization",
    "scale",
    "branches",
    "clipped",
    "unused",
    "bias",
    "weights",
    "codes",
]


@dataclass(frozen=True)
class Reason:
    """Why a layer loses much.

    Attributes:
        cause: one of ``Cause``.
        text: the observation, one sentence with its figures.
        advice: what may help, one sentence; empty where keeping the node in float is all.
        repairs: alternatives worth a try, each some names of ``calib8.repair.repairs.REPAIRS``.
        tensors: what those nodes yield that must be in float so that it goes away, the one to blame first;
            empty where the damage tells.
        layer: the node to name, where that is not what yields the tensor.
        method: a range method worth a try, None for none.
        without_ranges: tensors whose range the user gave and had better not.
    """

    cause: Cause
    text: str
    advice: str
    repairs: tuple[tuple[str, ...], ...] = ()
    tensors: tuple[str, ...] = ()
    layer: str = ""
    method: str | None = None
    without_ranges: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Both sentences may name parameters."""
        object.__setattr__(self, "text", Text(self.text))
        object.__setattr__(self, "advice", Text(self.advice))
