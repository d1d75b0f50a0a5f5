"""What repairs do, in a few words for people who have never heard of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLAIN_WORDS: Final[Mapping[str, str]] = {
    "bn": "batch normalizations estimated anew",
    "constant-channels": "channels that never change moved into biases",
    "cle": "weights of layers evened out",
    "cle-replace": "weights of layers evened out, ReLU6 made a ReLU",
    "absorb": "high biases moved to the next layer",
    "absorb-analytic": "high biases moved to the next layer",
    "equalize-groups": "channels evened out",
    "equalize-norms": "channels behind normalizations evened out",
    "equalize-through": "channels evened out through functions",
    "equalize-activations": "channels of activations evened out",
    "equalize-activations-tight": "channels of activations evened out",
    "equalize-activations-wide": "channels of activations evened out",
    "scales": "scales of weights searched",
    "eq": "scales of weights searched by outputs",
    "eq-tengine": "scales of weights searched as Tengine does",
    "round": "weights rounded by their effect",
    "adaround": "rounding of weights learned",
    "spots": "16 bits for the tensors that need them",
    "floats": "the worst layers kept in float",
    "bias": "biases corrected",
    "bias-median": "biases corrected",
    "bias-sequential": "biases corrected layer by layer",
    "bias-analytic": "biases corrected without data",
}
"""Repair → its words."""


def in_plain_words(names: tuple[str, ...]) -> str:
    """Several repairs in turn, each with its words, such as ``round (weights rounded by their effect)``."""
    told = (f"{name} ({PLAIN_WORDS[name]})" if name in PLAIN_WORDS else name for name in names)
    return ", ".join(told)
