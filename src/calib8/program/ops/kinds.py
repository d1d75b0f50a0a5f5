"""What a slot holds, and what those of an instruction may hold.

8-bit codes     uint8 or int8 with one scale and a zero point
16-bit codes    int16 with one scale and a zero point
sums            int32 with scales
else            plain numbers of the slot's type (int16 and int32 without scales too)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calib8.program.slot import Slot

Kinds = tuple[str, ...]
CODES: Final[Kinds] = ("8-bit codes",)
WIDE_CODES: Final[Kinds] = ("16-bit codes",)
ANY_CODES: Final[Kinds] = (*CODES, *WIDE_CODES)
SUMS: Final[Kinds] = ("sums",)
EITHER: Final[Kinds] = (*CODES, *SUMS)
ANYTHING: Final[Kinds] = ()


@dataclass(frozen=True)
class Takes:
    """What the slots of one type of instruction may hold.

    Attributes:
        inputs: kinds per input; the last entry serves any number of inputs if ``variadic``.
        output: kinds of the output.
        shared: all slots have the same type, scales and zero point.
        variadic: one input or more.
        more: kinds of the outputs that it may write beside the first one.
    """

    inputs: tuple[Kinds, ...]
    output: Kinds
    shared: bool = False
    variadic: bool = False
    more: tuple[Kinds, ...] = ()

    def of(self, inputs: int) -> tuple[Kinds, ...]:
        """Kinds of so many inputs, then of the outputs."""
        known = self.inputs
        if self.variadic:
            known = (*known, *known[-1:] * (inputs - len(known)))[:inputs]
        return (*known, self.output, *self.more)


UNARY: Final = Takes((CODES,), CODES)
SELECTION: Final = Takes((CODES,), CODES, shared=True)
MOVE: Final = Takes((ANYTHING,), ANYTHING, shared=True)
WIDE_SELECTION: Final = Takes((ANY_CODES,), ANY_CODES, shared=True)


def kind(slot: Slot) -> str:
    """``8-bit codes``, ``16-bit codes``, ``sums`` or the type of plain numbers."""
    if slot.is_codes:
        return "16-bit codes" if slot.is_wide else "8-bit codes"
    return "sums" if slot.scales.size else slot.dtype
