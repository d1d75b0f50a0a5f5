"""Rounding of weights by second moments, natively and without the GIL; ``calib8.repair`` uses it.

The same arguments give the same bits whatever the instruction set and the number of threads (1 … 256): no
contracted products, one order of additions. All arrays are C-contiguous.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

def factor(products: Floats, threads: int = 1) -> Floats:
    """L and D of H = L D Lᵀ: L below the diagonal, D on it; above it H as it was.

    Args:
        products: H, symmetric, [groups, size, size]. A pivot that is not positive, or that is 1e-13 of its
            entry or less, leaves zeros below it.

    Raises:
        TypeError: not C-contiguous float64 of three axes.
        ValueError: shapes or threads do not fit.
    """

def round_in_turn(
    weights: Floats, scales: Floats, factors: Floats, limit: int, threads: int = 1
) -> npt.NDArray[np.int8]:
    """Codes q_k = clip(rint((W_k − Σ_{i>k} e_i L_ik) / s)) from the last k to the first, e = s·q − W.

    Args:
        weights: [groups, rows, size].
        scales: [groups, rows], > 0.
        factors: of ``factor``, [groups, size, size].
        limit: largest magnitude of a code, 1 … 127.

    Raises:
        TypeError: not C-contiguous float64 arrays of these axes.
        ValueError: shapes, scales, limit or threads do not fit.
    """

def descend(
    weights: Floats,
    scales: Floats,
    products: Floats,
    codes: npt.NDArray[np.int8],
    limit: int,
    sweeps: int,
    threads: int = 1,
) -> npt.NDArray[np.int8]:
    """Codes moved one after the other to where e H eᵀ is least; it never grows.

    Args:
        weights, scales, limit: as for ``round_in_turn``.
        products: H, symmetric, [groups, size, size]; where its diagonal is not positive, codes stay.
        codes: to begin with, [groups, rows, size].
        sweeps: most times that each row is gone through, ≥ 0.

    Raises:
        TypeError: not C-contiguous arrays of these types and axes.
        ValueError: shapes, scales, limit, sweeps or threads do not fit.
    """

def multiply(rows: Floats, matrix: Floats, threads: int = 1) -> Floats:
    """The products [groups, rows, columns] of [groups, rows, size] and [groups, size, columns].

    Raises:
        TypeError: not C-contiguous float64 arrays of three axes.
        ValueError: shapes or threads do not fit.
    """
