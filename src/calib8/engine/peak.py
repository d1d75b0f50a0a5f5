"""The roof of this machine: products of 8-bit codes that its cores add up when they do nothing else."""

from __future__ import annotations

from functools import lru_cache

from calib8 import _core


@lru_cache
def peak_gmacs(isa: str, threads: int) -> float:
    """Multiply-accumulates per second, in 10⁹, of so many threads together; measured once, in about 50 ms.

    What else the machine does at that moment lowers it.

    Args:
        isa: one of the instruction sets that this CPU has, such as ``avx512vnni``.
        threads: 1 … 256.

    Raises:
        ValueError: the instruction set is unknown or not available here, or ``threads`` is out of range.
    """
    return float(_core.engine.peak_gmacs(isa, threads))


def machine_peak_gmacs(threads: int) -> float:
    """The same with the fastest instruction set of this CPU, whatever the environment chooses."""
    return peak_gmacs(_core.engine.available_isas()[0], threads)
