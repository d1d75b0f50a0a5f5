"""What all instructions have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Instruction:
    """Reads the slots ``inputs`` and writes the slots ``outputs``.

    Attributes:
        name: node (or nodes) of the model that it stands for.
        inputs, outputs: numbers of slots.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
