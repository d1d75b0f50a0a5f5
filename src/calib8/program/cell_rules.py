"""What cells of recurrent layers compute with: a part of ``rules``, which has them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

CellFunctionName = Literal["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Affine", "ScaledTanh"]


@dataclass(frozen=True)
class CellFunction:
    """A function inside a Recurrent, of float32 values; docs/numerics.md has its operations.

    Attributes:
        name: HardSigmoid is clip(αx + β, 0, 1), Affine αx + β, ScaledTanh α·tanh(βx); the others have no
            parameters.
        alpha, beta: float32 values.
    """

    name: CellFunctionName
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Real factors of integer cells and filters: ``multiplier · 2^(shift − 31)``, rounded twice always.

    Attributes:
        multiplier: int32 [n], 0 or in [2^30, 2^31).
        shift: int32 [n], −31 … 30, positive = left.
    """

    multiplier: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]
