"""Options of a node as numbers."""

from __future__ import annotations

from calib8.tmfile.graph import Node


def whole(node: Node, *names: str) -> list[int]:
    """Whole options."""
    return [int(str(node.options[name])) for name in names]


def number(node: Node, name: str) -> float:
    """A real option."""
    return float(str(node.options[name]))
