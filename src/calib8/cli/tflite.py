"""``calib8 inspect`` of a TFLite file: what is in it, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from calib8.cli.model_file import head_document, say_head, span
from calib8.cli.render import plain_table, shape_text
from calib8.cli.terminal import Terminal
from calib8.number_texts import count
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.tflite_inspect import OperatorInspection, TensorInspection, TfliteInspection


def say_tflite(terminal: Terminal, found: TfliteInspection) -> None:
    """All that is known of the file."""
    described = f', "{found.description}"' if found.description else ""
    terminal.say(f"{found.path}: {found.kind} TFLite model{described}")
    by_name = {tensor.name: tensor for tensor in found.tensors}
    say_head(terminal, found, by_name)
    works = ", ".join(f"{number} on {what}" for what, number in _works(found).items())
    terminal.say(f"{count(len(found.operators), 'operator')}: {works}")
    for name, text in found.metadata.items():
        terminal.say(f"{name}: {text}")
    terminal.show(_operator_table(found, by_name))
    terminal.show(_tensor_table(found.tensors))
    for caveat in found.caveats:
        terminal.say(f"note: {on_command_line(caveat)}")


def tflite_document(
    found: TfliteInspection, target: str | None, violations: Sequence[dict[str, str]], program: Any
) -> dict[str, Any]:
    """What ``say_tflite`` tells, with all scales and options."""
    return {
        "model": found.path,
        "kind": "tflite",
        "target": target,
        "violations": list(violations),
        "program": program,
        "tflite": {
            "kind": found.kind,
            "description": found.description,
            **head_document(found),
            "works_on": _works(found),
            "metadata": dict(found.metadata),
            "caveats": list(found.caveats),
            "operators": [_operator(operator) for operator in found.operators],
            "tensors": [_tensor(tensor) for tensor in found.tensors],
        },
    }


def _operator(operator: OperatorInspection) -> dict[str, Any]:
    return {
        "op": operator.op,
        "version": operator.version,
        "works_on": operator.works_on,
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "options": dict(operator.options),
        "macs": operator.macs,
    }


def _tensor(tensor: TensorInspection) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "type": tensor.dtype,
        "shape": shape_text(tensor.shape),
        "scales": [float(scale) for scale in tensor.scales],
        "zero_points": list(tensor.zero_points),
        "axis": tensor.axis,
        "bytes": tensor.bytes,
    }


def _works(found: TfliteInspection) -> dict[str, int]:
    """``codes``, ``hybrid``, ``float``, ``numbers`` → how many operators work on such."""
    from collections import Counter

    return dict(Counter(operator.works_on for operator in found.operators).most_common())


def _operator_table(found: TfliteInspection, tensors: dict[str, TensorInspection]) -> Table:
    table = plain_table("operator")
    table.add_column("version", justify="right")
    for header in ("output", "shape", "works on", "options"):
        table.add_column(header, overflow="fold")
    for operator in found.operators:
        name = operator.outputs[0] if operator.outputs else ""
        shape = shape_text(tensors[name].shape) if name in tensors else ""
        table.add_row(
            operator.op, str(operator.version), _short(name), shape, operator.works_on, _options(operator)
        )
    return table


def _options(operator: OperatorInspection) -> str:
    """Those that are not as the schema has them by default."""
    from calib8.tflite.read import defaults

    usual = defaults(operator.op)
    return ", ".join(
        f"{name} {value}" for name, value in operator.options.items() if value != usual.get(name)
    )


def _short(name: str) -> str:
    """The first of the names that a converter strung together for what it fused."""
    first, more, _ = name.partition(";")
    return f"{first};…" if more else name


def _tensor_table(tensors: Sequence[TensorInspection]) -> Table:
    table = plain_table("tensor", "type", "shape")
    for header in ("scale", "zero point", "axis", "bytes"):
        table.add_column(header, justify="right")
    for tensor in tensors:
        table.add_row(
            _short(tensor.name),
            tensor.dtype,
            shape_text(tensor.shape),
            span(tensor.scales),
            span(tensor.zero_points),
            "" if tensor.axis is None else str(tensor.axis),
            f"{tensor.bytes:,}" if tensor.bytes else "",
        )
    return table
