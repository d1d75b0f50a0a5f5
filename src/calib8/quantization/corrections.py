"""What a repair puts in the place of the plain rounding of a layer's constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class LayerCorrection:
    """Constants of one Conv, ConvTranspose, Gemm or MatMul; None: as without a correction.

    Where a bias is too large for its scale, that channel's scale is enlarged and the channel rounded
    plainly, as without a correction.

    Attributes:
        weight: codes, int8 in the layer's own layout, without the lowest one (−128).
        weight_scale: float32, one per entry of the output-channel axis; there if ``weight`` is.
        bias: float32 [output channels], rounded in place of the layer's own; a layer without a bias gets it.
            MatMul has no place for one.
    """

    weight: npt.NDArray[np.int8] | None = None
    weight_scale: npt.NDArray[np.float32] | None = None
    bias: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Refuses codes without scales and scales without codes."""
        if (self.weight is None) != (self.weight_scale is None):
            raise ValueError("codes of weights and their scales come together")


Corrections = Mapping[str, LayerCorrection]
"""Name of a layer → its correction."""

NO_CORRECTIONS: Final[Corrections] = MappingProxyType({})
