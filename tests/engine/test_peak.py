"""The measured roof: a rate for every instruction set of this machine."""

from __future__ import annotations

import math

import pytest

from calib8 import _core
from calib8.engine.peak import peak_gmacs


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_instruction_set_has_one(isa: str, threads: int) -> None:
    first = peak_gmacs(isa, threads)
    assert math.isfinite(first)
    assert first > 0
    assert peak_gmacs(isa, threads) == first, "it is measured once"


def test_it_is_a_rate_of_the_instruction_set_that_was_asked_for() -> None:
    *vectors, plain = _core.engine.available_isas()
    assert plain == "reference"
    for isa in vectors:
        assert peak_gmacs(isa, 1) > 4 * peak_gmacs(plain, 1), isa


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="instruction set 'sse9' is unknown"):
        peak_gmacs("sse9", 1)
    for threads in (0, -1, 257):
        with pytest.raises(ValueError, match=r"threads must be in 1 \.\.\. 256"):
            peak_gmacs("reference", threads)
