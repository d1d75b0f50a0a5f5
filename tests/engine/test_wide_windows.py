"""Depthwise layers with square windows and 16-bit codes: blocks of channels, steps along a row, all ends."""

from __future__ import annotations

import numpy as np
import pytest
from activation_cases import activated
from test_depthwise import Case, program_of
from test_wide import WIDTHS, checked

from calib8.program.rules import PROFILES, Profile


@pytest.mark.one_in(3)
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 5, 7])
def test_square_windows(size: int, stride: int, profile: Profile, widths: str) -> None:
    for channels, columns in ((5, 2 * stride + size), (16, 9), (24, 13), (47, 10), (72, 17)):
        rng = np.random.default_rng((76, channels))
        case = Case(
            size=(size + 3, columns),
            channels=channels,
            kernel=(size, size),
            strides=(stride, stride),
            pads=(size // 2,) * 4,
            profile=profile,
        )
        program = program_of(case, channels)
        checked(rng, program, channels, widths)
        if channels == 24:
            checked(rng, activated(rng, program), channels, widths)
