"""Output channels whose weights are all 0: their result is the bias, whatever the input is.

They cost time and memory, and in a float model their scale has to be made up. In a quantized model a channel
may also have died by rounding: one scale for all channels, or a scale enlarged for a huge bias.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.analysis.layer_codes import layer_codes
from calib8.model.graph import constant
from calib8.model.layer import layer_of


def dead_channels(model: ir.Model) -> dict[str, tuple[int, ...]]:
    """Layer → its dead output channels, of a float or QDQ graph; layers without any are left out.

    For a grouped ConvTranspose a channel is one that is dead in every group.
    """
    found = {coded.name: np.flatnonzero(~coded.rows.any(axis=1)) for coded in layer_codes(model)}
    for layer in filter(None, map(layer_of, model.graph)):
        weight = constant(layer.weight)
        if weight is not None and weight.ndim > 1:
            axis = layer.output_axis(weight.ndim)
            others = tuple(index for index in range(weight.ndim) if index != axis)
            found[layer.name] = np.flatnonzero(~np.any(weight, axis=others))
    return {name: tuple(map(int, channels)) for name, channels in found.items() if channels.size}
