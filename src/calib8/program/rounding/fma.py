"""``fma(a, b, c) = fl(a·b + c)``: the float32 fused multiply-add of every CPU, which NumPy lacks.

    p = a·b            exact in float64 (24 + 24 bits)
    s + e = p + c      s the rounded sum, e what it lost                     Knuth's TwoSum, exact
    odd(s, e)          s if e = 0 or s is odd, else its neighbour towards e
    fl(odd(s, e))      the one rounding to float32

A sum rounded to odd with 53 bits and then to 24 bits equals the sum rounded once, because 53 ≥ 24 + 2
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib8.program.rules import F32


def fused_multiply_add(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> F32:
    """``a·b + c`` rounded once to float32, ties to even; finite float32 arguments, broadcast."""
    product = np.asarray(a, np.float32).astype(np.float64) * np.asarray(b, np.float32).astype(np.float64)
    addend = np.asarray(c, np.float32).astype(np.float64)
    total = product + addend
    addend_part = total - product
    lost = (product - (total - addend_part)) + (addend - addend_part)
    even = total.view(np.int64) & 1 == 0
    odd = np.where((lost != 0) & even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    with np.errstate(over="ignore"):  # beyond float32 is infinity, as in hardware
        result: F32 = odd.astype(np.float32)
    return result
