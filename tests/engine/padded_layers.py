"""Layers that want a border around their input in storage; their sums show whether it is whole."""

from __future__ import annotations

from typing import Final

import numpy as np
from example_programs import ints, rescale

from calib8.program import instructions as op
from calib8.program.rules import Profile

OUTPUTS: Final = 3
"""Channels of the result."""


def padded_conv(name: str, source: int, target: int, channels: int, profile: Profile = "onnx") -> op.Conv:
    """3×3 with stride 1 whose result has the rows and columns of its input."""
    return op.Conv(
        name,
        (source,),
        (target,),
        weight=np.random.default_rng(channels).integers(-9, 10, (OUTPUTS, 3, 3, channels), np.int8),
        weight_zero_point=ints(0),
        bias=ints(5, -5, 0),
        rescale=rescale(profile, OUTPUTS),
        low=0,
        high=255,
        strides=(1, 1),
        pads=(1, 2, 1, 0),
        dilations=(1, 1),
        groups=1,
    )
