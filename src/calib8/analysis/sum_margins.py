"""How close the int32 sums of a quantized layer can come to overflowing, from its actual weights.

    a − z ∈ [qmin − z, qmax − z]            every input code minus its zero point
    high_c = q_b[c] + Σ_k max(w_ck·(qmin − z), w_ck·(qmax − z)),   low_c the same with min
    margin = 31 − log2 max(|low_c|, |high_c|)     bits; below 0 some input overflows

A bias that is kept in float is taken as the runtime rounds it, b / (s_x·s_c). Codes of a bias at the end of
int32 were cut there, or have wrapped around already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.layer_codes import LayerCodes, layer_codes

INT32_MAX: Final = 2**31 - 1
FEWEST_BITS: Final = 0.5
"""Less room than this is worth a warning: calib8 and TensorFlow Lite give a bias half of int32 at most."""


@dataclass(frozen=True)
class SumMargin:
    """The int32 sums of one layer.

    Attributes:
        layer: the node.
        channel: the output channel with the least room.
        low, high: smallest and largest sum of that channel that any input can give, bias included.
        bias: code of that channel's bias, 0 without one.
        bits: room of that channel, 31 − log2 of the larger magnitude; inf where the sum is always 0.
        cut_biases: channels whose bias code is at or beyond the end of int32.
        float_bias: the file keeps the bias in float; only some runtimes round it.
    """

    layer: str
    channel: int
    low: int
    high: int
    bias: int
    bits: float
    cut_biases: tuple[int, ...]
    float_bias: bool

    @property
    def overflows(self) -> bool:
        """Some input gives a sum that int32 does not hold."""
        return self.low < -INT32_MAX - 1 or self.high > INT32_MAX

    def warning(self) -> str:
        """What is wrong in one line, empty where nothing is."""
        if self.cut_biases:
            shown = ", ".join(map(str, self.cut_biases[:5]))
            where = "int32 in a runtime that rounds it" if self.float_bias else "int32"
            return (
                f"{self.layer}: the bias of {len(self.cut_biases)} channels ({shown}) does not fit into "
                f"{where} with the scale s_x · s_w: give them larger scales, or keep the layer float"
            )
        if self.bits >= FEWEST_BITS:
            return ""
        what = "can overflow int32" if self.overflows else f"have {self.bits:.2f} bits of int32 left"
        return (
            f"{self.layer}: the sums of channel {self.channel} {what} ({self.low:,} … {self.high:,}, of "
            f"which the bias is {self.bias:,}): give that channel a larger scale, or keep the layer float"
        )


def sum_margins(model: ir.Model) -> tuple[SumMargin, ...]:
    """One entry per layer with integer weights, in graph order.

    Args:
        model: a QDQ graph as ``readable_copy`` gives it.
    """
    return tuple(_margin(layer) for layer in layer_codes(model))


def _margin(layer: LayerCodes) -> SumMargin:
    weights = layer.rows.astype(np.int64)
    low_step, high_step = layer.qmin - layer.zero_point, layer.qmax - layer.zero_point
    ends = np.stack([weights * low_step, weights * high_step])
    bias, cut = _bias(layer)
    low, high = ends.min(axis=0).sum(axis=1) + bias, ends.max(axis=0).sum(axis=1) + bias
    size = np.maximum(np.abs(low), np.abs(high))
    channel = int(np.argmax(size))
    largest = int(size[channel])
    return SumMargin(
        layer.name,
        channel,
        int(low[channel]),
        int(high[channel]),
        int(bias[channel]),
        31.0 - math.log2(largest) if largest else math.inf,
        tuple(int(index) for index in cut),
        layer.bias is not None and layer.bias.dtype.kind == "f",
    )


def _bias(layer: LayerCodes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Codes of the bias, and the channels in which they do not fit."""
    if layer.bias is None:
        return np.zeros(len(layer.rows), np.int64), np.zeros(0, np.int64)
    codes = layer.bias
    if codes.dtype.kind == "f":
        with np.errstate(divide="ignore", invalid="ignore"):
            codes = np.nan_to_num(np.rint(codes / (layer.scale * layer.weight_scale)), posinf=2.0**62)
        codes = np.clip(codes, -(2.0**62), 2.0**62)
    wide = codes.astype(np.int64)
    return wide, np.flatnonzero(np.abs(wide) >= INT32_MAX)
