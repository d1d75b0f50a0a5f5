"""What an instruction reads: a slot and the array that lies in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.slot import Slot

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Operand:
    """One input of an instruction while it runs.

    Attributes:
        slot: type, scale and zero point.
        data: array of the slot's shape and dtype.
    """

    slot: Slot
    data: npt.NDArray[Any]
