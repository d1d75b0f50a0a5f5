"""``calib8 inspect`` of a file of another runtime: what TFLite files and tmfiles are told alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rich.filesize import decimal

from calib8.cli.terminal import Terminal

if TYPE_CHECKING:
    from calib8.tensors import TensorSpec


class SeenTensor(Protocol):
    """A tensor of such a file."""

    @property
    def name(self) -> str:
        """Of the file."""

    @property
    def scales(self) -> Sequence[float]:
        """Empty where it holds plain numbers."""

    @property
    def zero_points(self) -> Sequence[int]:
        """As many."""


class SeenFile(Protocol):
    """What was found in such a file."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What is fed."""

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What comes out."""

    @property
    def parameters(self) -> int:
        """Elements of the constants that layers multiply or add."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""

    @property
    def constant_bytes(self) -> int:
        """Of all constants."""

    @property
    def ops(self) -> Mapping[str, int]:
        """Operator → how many."""


def say_head(terminal: Terminal, found: SeenFile, tensors: Mapping[str, SeenTensor]) -> None:
    """Inputs, outputs, sizes and operators.

    Args:
        terminal: where to.
        found: the file.
        tensors: its tensors by name.
    """
    for title, specs in (("input", found.inputs), ("output", found.outputs)):
        for spec in specs:
            terminal.say(f"{title} {spec}{_coding(tensors[spec.name])}")
    terminal.say(
        f"{found.parameters:,} parameters, {found.macs:,} multiply-accumulates per run, "
        f"{decimal(found.constant_bytes)} of constants"
    )
    terminal.say("operators: " + ", ".join(f"{number} {op}" for op, number in found.ops.items()))


def head_document(found: SeenFile) -> dict[str, Any]:
    """What ``say_head`` tells, without scales."""
    return {
        "inputs": [str(spec) for spec in found.inputs],
        "outputs": [str(spec) for spec in found.outputs],
        "parameters": found.parameters,
        "macs": found.macs,
        "constant_bytes": found.constant_bytes,
        "ops": dict(found.ops),
    }


def _coding(tensor: SeenTensor) -> str:
    if not tensor.scales:
        return ""
    return f", scale {span(tensor.scales)}, zero point {span(tensor.zero_points)}"


def span(values: Sequence[float]) -> str:
    """The only value, or the smallest and the largest of several."""
    if not values:
        return ""
    low, high = f"{min(values):.6g}", f"{max(values):.6g}"
    return low if low == high else f"{low} … {high}"
