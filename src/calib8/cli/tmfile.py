"""``calib8 inspect`` of a Tengine model: what is in it, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from calib8.cli.model_file import head_document, say_head, span
from calib8.cli.render import plain_table, shape_text
from calib8.cli.terminal import Terminal

if TYPE_CHECKING:
    from calib8.analysis.tmfile_inspect import TmfileInspection, TmfileNode, TmfileTensor


def say_tmfile(terminal: Terminal, found: TmfileInspection) -> None:
    """All that is known of the file."""
    origin = f", from {found.made_from}" if found.made_from else ""
    terminal.say(f"{found.path}: {found.kind} Tengine model, {found.layout}{origin}")
    by_name = {tensor.name: tensor for tensor in found.tensors}
    say_head(terminal, found, by_name)
    terminal.show(_node_table(found.nodes, by_name))
    terminal.show(_tensor_table(found.tensors))
    for caveat in found.caveats:
        terminal.say(f"note: {caveat}")


def tmfile_document(found: TmfileInspection) -> dict[str, Any]:
    """What ``say_tmfile`` tells, with all scales and options."""
    return {
        "model": found.path,
        "kind": "tmfile",
        "tmfile": {
            "kind": found.kind,
            "made_from": found.made_from,
            "layout": found.layout,
            **head_document(found),
            "caveats": list(found.caveats),
            "nodes": [_node(node) for node in found.nodes],
            "tensors": [_tensor(tensor) for tensor in found.tensors],
        },
    }


def _node(node: TmfileNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "options": dict(node.options),
        "macs": node.macs,
    }


def _tensor(tensor: TmfileTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "role": tensor.role,
        "type": tensor.dtype,
        "shape": shape_text(tensor.shape),
        "scales": list(tensor.scales),
        "zero_points": list(tensor.zero_points),
        "bytes": tensor.bytes,
    }


def _node_table(nodes: Sequence[TmfileNode], tensors: dict[str, TmfileTensor]) -> Table:
    table = plain_table("node", "operator")
    for header in ("output", "shape", "options"):
        table.add_column(header, overflow="fold")
    for node in nodes:
        name = node.outputs[0]
        options = ", ".join(f"{title} {_value(value)}" for title, value in node.options.items())
        table.add_row(node.name, node.op, name, shape_text(tensors[name].shape), options)
    return table


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "×".join(map(_value, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _tensor_table(tensors: Sequence[TmfileTensor]) -> Table:
    table = plain_table("tensor", "kind", "type", "shape")
    for header in ("scale", "zero point", "bytes"):
        table.add_column(header, justify="right")
    for tensor in tensors:
        table.add_row(
            tensor.name,
            tensor.role,
            tensor.dtype,
            shape_text(tensor.shape),
            span(tensor.scales),
            span(tensor.zero_points),
            f"{tensor.bytes:,}" if tensor.bytes else "",
        )
    return table
