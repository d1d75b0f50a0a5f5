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


PRODUCTS = {
    **{"amx": 4 * 16 * 16 * 64, "avx512vnni": 16 * 64, "avxvnni": 12 * 32, "avx2": 12 * 32},
    **{"neoni8mm": 16 * 32, "neondot": 16 * 16, "neon": 16 * 16, "reference": 768},
}
"""Sums side by side times products of one instruction; the plain loop goes over so many codes."""


def test_the_loop_of_the_instruction_set_that_was_asked_for_is_measured() -> None:
    for isa in _core.engine.available_isas():
        assert _core.engine.peak_products(isa) == PRODUCTS[isa], isa


def test_what_is_refused() -> None:
    for measure in (peak_gmacs, lambda isa, threads: _core.engine.peak_products(isa)):
        with pytest.raises(ValueError, match="instruction set 'sse9' is unknown"):
            measure("sse9", 1)
    for threads in (0, -1, 257):
        with pytest.raises(ValueError, match=r"threads must be in 1 \.\.\. 256"):
            peak_gmacs("reference", threads)
