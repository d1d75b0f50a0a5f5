"""Samples that hold NaN or infinite values: no figure of a model tells anything about them."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from calib8.data.batches import Batch
from calib8.data.samples import Array
from calib8.errors import DataError


def finite_only(pieces: Generator[Batch, None, None]) -> Generator[Batch, None, None]:
    """The same batches, as long as all their values are finite.

    Raises:
        DataError: from iterating, at the first sample of which a value is not; it is named.
    """
    try:
        for piece in pieces:
            for name, array in piece.inputs.items():
                for sample in not_finite([array], piece.names):
                    problem = f"holds NaN or infinite values in input '{name}'"
                    raise DataError(sample, problem, "Mend the data, or leave the sample out")
            yield piece
    finally:
        pieces.close()


def not_finite(arrays: Sequence[Array], names: Sequence[str]) -> list[str]:
    """Those samples of a batch for which a value of some arrays is NaN or infinite.

    Args:
        arrays: inputs or outputs of the batch; other types than floats are passed over.
        names: of the samples, which share axis 0 evenly; where they do not, all of them are meant.
    """
    bad = np.zeros(len(names), bool)
    for array in arrays:
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        if not array.ndim or array.shape[0] % len(names):
            return list(names)
        bad |= ~np.isfinite(array.reshape(len(names), -1)).all(axis=1)
    return [name for name, wrong in zip(names, bad, strict=True) if wrong]
