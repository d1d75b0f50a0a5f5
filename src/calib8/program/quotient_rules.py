"""How quotients of codes become codes: a part of ``rules``, which has them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class FloatQuotient:
    """``clip(rint(fl(fl(fl(s_a·(A − z_a)) / divisor[B]) / s_y)) + z_y)``, float32: profile ``onnx``, Div.

    Attributes:
        lhs, output: scales of the left side and of the result, float32 values.
        divisor: float32 [256], what each right code stands for, the lowest first, or what a function of it
            yields; no entry is not-a-number.
    """

    lhs: float
    output: float
    divisor: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FixedQuotient:
    """``(((A − z_a)·multiplier[B] + 2^(30 − shift[B])) >> (31 − shift[B])) + z_y``, integers only: profiles
    ``tflite`` and ``single``.

    Attributes:
        multiplier: int32 [256], one for each right code, the lowest first: 0, or of a magnitude in
            [2^30, 2^31).
        shift: int32 [256], −31 … 30, positive = left.
    """

    multiplier: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]


QuotientRule = FloatQuotient | FixedQuotient
