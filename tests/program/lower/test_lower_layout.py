"""Orders of axes and reshapes without copies, against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calib8.program.lower.layout import (
    axes_between,
    axis_last,
    image_order,
    keeps_memory,
    logical,
    physical,
    plan_reshape,
    without_axes,
)

sizes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=5).map(tuple)


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(sizes)
    return shape, tuple(draw(st.permutations(range(len(shape)))))


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Two shapes made by grouping the same factors in two ways, with ones strewn in, and an order."""
    factors = draw(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        cuts = sorted(draw(st.sets(st.integers(1, max(len(factors) - 1, 1)))))
        bounds = [0, *(cut for cut in cuts if cut < len(factors)), len(factors)]
        shape = [math.prod(factors[a:b]) for a, b in itertools.pairwise(bounds)]
        for place in draw(st.lists(st.integers(0, 5), max_size=2)):
            shape.insert(min(place, len(shape)), 1)
        return tuple(shape)

    shape = grouped()
    return shape, grouped(), tuple(draw(st.permutations(range(len(shape)))))


def placed(values: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The array as it lies in memory."""
    return np.ascontiguousarray(values.transpose(order))


@given(laid_out())
def test_sizes_go_to_memory_and_back(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = case
    assert logical(physical(shape, order), order) == shape


@given(laid_out(), st.randoms(use_true_random=False))
def test_axes_between_two_orders(case: tuple[tuple[int, ...], tuple[int, ...]], random: object) -> None:
    shape, have = case
    want = tuple(sorted(have, key=lambda axis: (axis * 7) % 5))
    values = np.arange(math.prod(shape)).reshape(shape)
    axes = axes_between(have, want)
    moved = placed(values, have).transpose(axes)
    np.testing.assert_array_equal(moved, placed(values, want))
    if keeps_memory(physical(shape, have), axes):
        np.testing.assert_array_equal(placed(values, have).reshape(moved.shape), moved)


@given(reshapes())
def test_a_planned_reshape_is_the_reshape_of_the_model(
    case: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    shape, target, order = case
    values = np.arange(math.prod(shape)).reshape(shape)
    plan = plan_reshape(shape, order, target)
    assert sorted(plan.before) == list(range(len(shape)))
    result = placed(values, plan.before).reshape(physical(target, plan.after))
    np.testing.assert_array_equal(result, placed(values.reshape(target), plan.after))


def test_channels_stay_last_while_they_are_split_and_joined() -> None:
    nhwc = image_order(4)
    split = plan_reshape((2, 12, 5, 7), nhwc, (2, 3, 4, 5, 7))
    assert split.before == nhwc
    assert split.after == (0, 3, 4, 1, 2)
    swapped = (0, 3, 4, 2, 1)  # Transpose(0, 2, 1, 3, 4): the same memory
    joined = plan_reshape((2, 4, 3, 5, 7), swapped, (2, 12, 5, 7))
    assert joined.after == nhwc


def test_the_last_axis_and_vanishing_axes() -> None:
    assert axis_last(4, 2, (0, 2, 3, 1)) == (0, 3, 1, 2)
    assert axis_last(3, -1, (2, 0, 1)) == (0, 1, 2)
    assert without_axes((0, 2, 3, 1), [2, 3]) == (0, 1)
    assert without_axes((0, 2, 3, 1), [1]) == (0, 1, 2)
    assert image_order(3) == (0, 1, 2)
