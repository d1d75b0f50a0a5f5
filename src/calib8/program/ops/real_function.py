"""A function of float32 values where float32 leaves a program, or goes on into codes.

    y = f(x)      f and its bits as inside a Recurrent, see ``cell_functions``

So a Sigmoid behind the last layer of a stream needs no call of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.cell_functions import applied, check_float32
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import same_shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import CellFunction
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class RealFunction(Instruction):
    """float32 → float32, each value by itself.

    Attributes:
        function: what is computed.
    """

    function: CellFunction


def real_function(step: RealFunction, operands: Sequence[Operand], _output: Slot) -> npt.NDArray[Any]:
    """float32 of the input's shape."""
    with np.errstate(all="ignore"):  # what is no number stays none, what is too large becomes infinite
        found = applied(step.function, operands[0].data.astype(np.float32))
    return np.where(np.isnan(found), np.float32(np.nan), found)  # one form of what is no number


def _check(step: Step, instruction: RealFunction) -> None:
    check_float32(step, "Alpha and beta", instruction.function.alpha, instruction.function.beta)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    RealFunction: Traits(Takes((("float32",),), ("float32",)), same_shape, real_function, check=_check),
}
