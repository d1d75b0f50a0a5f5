"""The look at the first batches: numbers against NumPy, and each warning."""

from typing import Any

import numpy as np
import pytest

from calib8.data.batches import Batch
from calib8.data.preflight import InputCheck, check_inputs
from calib8.data.preprocess import Preprocess
from calib8.errors import DataError
from calib8.parameters import on_command_line

UNIT = Preprocess(mean=(127.5,), scale=(1 / 127.5,))  # −1 … 1


def batch(**inputs: Any) -> Batch:
    return Batch({name: np.asarray(array) for name, array in inputs.items()}, (None,), ("s",))


def check(array: Any, p: Preprocess | None = None) -> InputCheck:
    (found,) = check_inputs([batch(x=array)], p)
    return found


def spread(low: float, high: float, channels: int = 3) -> np.ndarray:
    """N×C×H×W values that reach both bounds in every channel."""
    return np.broadcast_to(np.linspace(low, high, 16, dtype=np.float32).reshape(4, 4), (2, channels, 4, 4))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_statistics_over_several_batches(layout: Any) -> None:
    values = np.random.default_rng(0).normal(size=(6, 3, 5, 4)).astype(np.float32)
    shown = values if layout == "NCHW" else values.transpose(0, 2, 3, 1)
    (found,) = check_inputs([batch(x=shown[:4]), batch(x=shown[4:])], Preprocess(layout=layout))
    exact = values.astype(np.float64)
    assert found.input == "x" and found.rows == 6 and found.not_finite == 0
    assert found.minimum == tuple(exact.min(axis=(0, 2, 3)))
    assert found.maximum == tuple(exact.max(axis=(0, 2, 3)))
    assert found.mean == pytest.approx(exact.mean(axis=(0, 2, 3)))
    assert found.std == pytest.approx(exact.std(axis=(0, 2, 3)))


def test_layout_is_guessed_without_preprocessing() -> None:
    values = spread(-1, 1)
    assert len(check(values).minimum) == 3
    assert len(check(values.transpose(0, 2, 3, 1)).minimum) == 3
    assert len(check(np.zeros((2, 7))).minimum) == 1


def test_inputs_keep_their_order_and_scalars_are_fine() -> None:
    found = check_inputs([batch(b=spread(0, 1), a=np.int64(16000))], None)
    assert [c.input for c in found] == ["b", "a"]
    assert found[1].minimum == (16000.0,) and found[1].warnings == ()


def test_good_input_has_no_warning() -> None:
    found = check(spread(-1, 1), UNIT)
    assert found.implied == ((-1.0, 1.0),) * 3
    assert found.used == pytest.approx(1.0) and found.warnings == ()


def test_narrow_input_is_reported() -> None:
    found = check(spread(-0.3, -0.06), UNIT)
    assert found.used == pytest.approx(0.12)
    assert found.warnings == ("observed -0.3 … -0.06 uses 12 % of the -1 … 1 that mean and scale allow",)


@pytest.mark.parametrize(("share", "warned"), [(0.24, True), (0.26, False)])
def test_narrow_begins_below_a_quarter(share: float, warned: bool) -> None:
    assert bool(check(spread(-1, -1 + 2 * share), UNIT).warnings) == warned


def test_values_outside_of_the_implied_range() -> None:
    values = spread(-1, 1).copy()
    values[0, 1, 0, 0] = 200
    (warning,) = check(values, UNIT).warnings
    assert "outside of the -1 … 1" in warning and "channels 1)" in warning


def test_rounding_is_not_outside() -> None:
    assert check(spread(-1.0005, 1.0005), UNIT).warnings == ()


def test_constant_channels() -> None:
    assert check(np.zeros((2, 3, 4, 4)), UNIT).warnings == ("all channels are constant (observed 0 … 0)",)
    values = spread(-1, 1).copy()
    values[:, 2] = 0.5
    assert check(values, UNIT).warnings == ("channels 2 are constant",)


def test_raw_pixels_are_asked_about() -> None:
    for p in (None, Preprocess()):
        (warning,) = check(spread(0, 255), p).warnings
        assert "looks like raw pixels 0 … 255" in warning
    assert check(spread(0, 1)).warnings == ()
    assert check(spread(-200, 200)).warnings == ()
    assert check(spread(0, 255), Preprocess(dtype="uint8")).warnings == ()


def test_nan_and_infinity_are_counted_not_averaged() -> None:
    values = spread(-1, 1).copy()
    values[0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    found = check(values, UNIT)
    assert found.not_finite == 3 and found.warnings == ("3 values are NaN or infinite",)
    assert np.isfinite([*found.minimum, *found.maximum, *found.mean, *found.std]).all()


def test_only_nan() -> None:
    found = check(np.full((1, 3, 2, 2), np.nan), UNIT)
    assert found.not_finite == 12 and found.used is None
    assert np.isnan(found.mean).all() and found.warnings == ("12 values are NaN or infinite",)


def test_other_channel_counts_imply_nothing() -> None:
    found = check(spread(-9, 9, channels=2), UNIT)
    assert found.implied is None and found.used is None and found.warnings == ()


def test_no_batch_and_mixed_batches_are_refused() -> None:
    with pytest.raises(DataError, match="there is no batch"):
        check_inputs([], None)
    with pytest.raises(DataError, match="has 1 channels after 3"):
        check_inputs([batch(x=spread(0, 1)), batch(x=np.zeros((1, 5)))], None)


def test_numbers_of_0_to_1_for_pixels_are_told_of() -> None:
    p = Preprocess(mean=(0.485, 0.456, 0.406), scale=(1 / 0.229, 1 / 0.224, 1 / 0.225))
    (warning,) = check(spread(-2, 1100), p).warnings
    assert "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --units 0-1" in on_command_line(warning)
    assert "give mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), units='0-1'" in warning


def test_arrays_far_beyond_any_recipe() -> None:
    (warning,) = check(spread(-2, 1136)).warnings
    assert "observed -2 … 1136 lies far outside of what images become: recipes give 0 … 1" in warning
    assert check(spread(-2, 1136, channels=4)).warnings == ()  # no images
    assert check(spread(-124, 152)).warnings == check(spread(-2.2, 2.7)).warnings == ()
