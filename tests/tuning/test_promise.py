"""Promises and budgets as they are given."""

from __future__ import annotations

import math

import pytest

from calib8.errors import UsageError
from calib8.tuning.promise import Promise, Promises, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("10m", 600.0),
        ("1.5h", 5400.0),
        ("45", 45.0),
        (" 2 M ", 120.0),
        (12.5, 12.5),
        (".5s", 0.5),
    ],
)
def test_budgets(text: str | float, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_no_budget_is_as_long_as_it_takes() -> None:
    assert seconds_of(None) == math.inf


@pytest.mark.parametrize("text", ["", "m", "-1m", "10 days", "1e3", "nan", "0s", 0, -5])
def test_what_is_no_time_is_refused(text: str | float) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        seconds_of(text)


def test_a_promise_is_kept_on_its_side() -> None:
    agreement, drop = Promises(min_agreement=99.5).promise(), Promises(max_drop=0.1).promise()
    assert agreement == Promise("agreement", 99.5) and drop == Promise("drop", 0.1)
    assert agreement.kept(99.5) and not agreement.kept(99.4)
    assert drop.kept(0.1) and drop.kept(-3.0) and not drop.kept(0.2)
    assert agreement.shortfall(99.0) == pytest.approx(0.5) and drop.shortfall(0.0) == pytest.approx(-0.1)


@pytest.mark.parametrize(("share", "percent"), [(0.99, "99"), (0.995, "99.5"), (1.0, "100")])
def test_an_agreement_that_is_no_percentage_names_the_one_that_is(share: float, percent: str) -> None:
    with pytest.raises(UsageError, match=rf"min_agreement=.* in per cent\. Give {percent} if"):
        Promises(min_agreement=share)
    assert Promises(max_drop=share).promise().value == share  # points below FP32's are often below 1
    assert Promises(min_agreement=1.5).promise().value == 1.5


@pytest.mark.parametrize("limits", [(0.0, None, None), (None, 100.0, None), (None, None, 120.0)])
def test_the_ends_are_promises_too(limits: tuple[float | None, float | None, float | None]) -> None:
    assert Promises(*limits).promise().text
