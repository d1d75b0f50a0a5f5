"""Codes with their scales: what they stand for, and what is no coded array."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.coded_array import CodedArray

CODES = np.array([[-128, 0, 127], [1, -2, 3]], np.int8)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("shifted", [False, True])
def test_codes_stand_for_scale_times_their_distance_from_the_zero_point(
    axis: int | None, shifted: bool
) -> None:
    count = 1 if axis is None else CODES.shape[axis]
    scales, points = [0.25 * (index + 1) for index in range(count)], [7 * shifted + i for i in range(count)]
    shape = () if axis is None else (count,)
    array = CodedArray(
        CODES, np.array(scales, np.float32).reshape(shape), np.array(points).reshape(shape), axis
    )
    for place, code in np.ndenumerate(CODES):
        channel = 0 if axis is None else place[axis]
        assert array.centred[place] == int(code) - points[channel]
        assert array.real[place] == scales[channel] * (int(code) - points[channel])
        assert array.floats[place] == np.float32(scales[channel]) * np.float32(int(code) - points[channel])
    for along in (0, 1) if axis is None else (axis,):
        assert array.channel_scales(along).tolist() == (
            scales * CODES.shape[along] if axis is None else scales
        )


@pytest.mark.parametrize(
    ("values", "scale", "zero_point", "axis", "problem"),
    [
        (CODES.astype(np.float32), np.float32(1.0), 0, None, "codes are integers, not float32"),
        (CODES, np.ones(2), 0, None, "scale and zero point have shape"),
        (CODES, np.ones(2), 0, 1, "scale and zero point have shape"),
        (CODES, np.float32(1.0), 0, 0, "scale and zero point have shape"),
        (CODES, np.ones(3), np.zeros(2), 1, "scale and zero point have shape"),
        (CODES, np.array([1.0, 0.0]), 0, 0, "a scale is not above 0"),
        (CODES, np.asarray(np.nan), 0, None, "a scale is not above 0"),
    ],
)
def test_scales_that_do_not_belong_to_the_codes_are_refused(
    values: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        CodedArray(values, np.asarray(scale), zero_point, axis)


def test_floats_round_as_dequantize_linear_does() -> None:
    """First the difference becomes float32, then the product: 2^24 + 1 is no float32."""
    array = CodedArray(np.array([2**24 + 1, -7], np.int32), np.float32(3.0) * np.ones((), np.float32))
    assert array.floats.dtype == np.float32 and array.floats.tolist() == [3.0 * 2**24, -21.0]
    assert array.real.tolist() == [3.0 * (2**24 + 1), -21.0]


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_along_the_channels_broadcast(axis: int) -> None:
    count = CODES.shape[axis]
    array = CodedArray(CODES, np.ones(count, np.float32), axis=axis)
    assert array.along(np.arange(count)).shape == ((2, 1) if axis == 0 else (1, 3))
    assert array.along(5).shape == ()
