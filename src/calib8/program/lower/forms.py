"""In what form the program holds a float tensor of the graph while it is being lowered.

    Coded   codes in a slot                             x = scale · (code − zero_point)
    Sums    int32 sums of a layer, perhaps clamped      x = clip(scale[c] · acc, low, high)
    Curve   a function of one coded tensor              x = f(source), a table once a quantizer reads it
    Real    float32 (or any other type) at the border

A value without a form is computed by float nodes when somebody asks for it. ``order`` says how a tensor lies
in memory: physical axis i holds logical axis order[i].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calib8.program.expressions import Expression
from calib8.program.program import WIDE_TYPE
from calib8.program.rules import F32
from calib8.qparams import QParams, QuantSpec

Order = tuple[int, ...]


@dataclass(frozen=True)
class CodeType:
    """What codes mean: type, scale (a float32 value) and zero point."""

    dtype: str
    scale: float
    zero_point: int

    @property
    def qparams(self) -> QParams:
        """Scale and zero point."""
        return QParams(self.scale, self.zero_point)

    @property
    def scales(self) -> F32:
        """The scale as a slot holds it."""
        return np.array([self.scale], np.float32)

    @property
    def spec(self) -> QuantSpec:
        """The type as ``qparams.quantize`` wants it."""
        return QuantSpec(bits=16 if self.dtype == WIDE_TYPE else 8, signed=self.dtype != "uint8")


@dataclass(frozen=True)
class Coded:
    """Codes in a slot."""

    slot: int
    order: Order


@dataclass(frozen=True)
class Sums:
    """int32 sums in a slot, and the bounds of a Relu or Clip behind the layer that are not applied yet."""

    slot: int
    order: Order
    low: float | None = None
    high: float | None = None

    @property
    def unbounded(self) -> bool:
        """No Relu or Clip is to be applied."""
        return self.low is None and self.high is None


@dataclass(frozen=True, eq=False)
class Curve:
    """An elementwise function of one coded tensor.

    Attributes:
        source: the tensor; the curve has its shape.
        expression: the function; its constants have all axes of the source, in logical order, or none.
    """

    source: Coded
    expression: Expression


@dataclass(frozen=True)
class Real:
    """A slot of float32 values (or indices, masks …), axes in logical order.

    Attributes:
        slot: where they are.
        own: the program's own instructions write them, and move them; else ONNX Runtime does.
    """

    slot: int
    own: bool = False


Form = Coded | Sums | Curve | Real
