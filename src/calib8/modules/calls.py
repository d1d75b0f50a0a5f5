"""Arguments of a traced call of a layer's function, by place or by name."""

from __future__ import annotations

from typing import Any, Final

from torch import fx

NAMES: Final = ("input", "weight", "bias")


def argument(node: fx.Node, index: int) -> Any:
    """Input, weight or bias (0, 1, 2) of a call of a function; None where there is none."""
    return node.args[index] if len(node.args) > index else node.kwargs.get(NAMES[index])
