"""Keeps the samples of lowest digest while a model is calibrated, and what it yields for them.

    kept     of all samples the ``most`` with the lowest SHA-256, as many as ``LARGEST_BYTES`` hold

Which these are depends on what the samples hold, not on their order. Who judges models on them reads no file
and runs no float model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.calibration.output_taps import Outputs, one_sample
from calib8.model.runtime import Arrays

LARGEST_BYTES: Final = 1 << 26
"""Bytes of samples kept in memory, unless ``FEWEST`` samples need more."""

FEWEST: Final = 16
"""With so many samples some can be held back to judge what the others led to."""


@dataclass(frozen=True)
class KeptRun:
    """A run of the float model with one sample.

    Attributes:
        digest: of what the sample is decoded from.
        inputs: by input name.
        outputs: all outputs of the graph, in its order.
    """

    digest: bytes
    inputs: Arrays
    outputs: Outputs


class RunKeeper:
    """Sees every batch and keeps what may be among the lowest."""

    def __init__(self, most: int, largest: int | None = None) -> None:
        """Begins with nothing.

        Args:
            most: samples to keep, ≥ 1.
            largest: bytes of inputs and outputs that they may have, None: ``LARGEST_BYTES`` of inputs.
        """
        self._most, self._runs, self._whole, self._largest = most, list[KeptRun](), True, largest

    def add(self, digests: Sequence[bytes], inputs: Arrays, outputs: Sequence[Outputs]) -> None:
        """Takes in a batch.

        Args:
            digests: one per sample.
            inputs: the samples along axis 0.
            outputs: one per sample, copied where kept; another number means that they are not known.
        """
        self._whole = self._whole and len(digests) == len(outputs)
        if not self._whole:
            self._runs.clear()
            return
        highest = self._runs[-1].digest if len(self._runs) >= self._most else None
        for index, (digest, found) in enumerate(zip(digests, outputs, strict=True)):
            if highest is not None and digest >= highest:
                continue
            single = inputs if len(digests) == 1 else _copied(one_sample(inputs, index))
            self._runs.append(KeptRun(digest, single, [np.array(array) for array in found]))
        self._runs = lowest(self._runs, self._most, self._largest)

    def runs(self) -> tuple[KeptRun, ...] | None:
        """In ascending order of their digests; None where a batch did not come apart into its samples."""
        return tuple(self._runs) if self._whole else None


def _copied(inputs: Arrays) -> Arrays:
    return {name: array.copy() for name, array in inputs.items()}


def lowest(runs: Sequence[KeptRun], most: int, largest: int | None = None) -> list[KeptRun]:
    """The first by digest: at most so many, and of more than ``FEWEST`` no more than the bytes allow."""
    found, total = list[KeptRun](), 0
    for run in sorted(runs, key=lambda run: run.digest)[:most]:
        arrays = (*run.inputs.values(), *(() if largest is None else run.outputs))
        total += sum(array.nbytes for array in arrays)
        if len(found) >= FEWEST and total > (LARGEST_BYTES if largest is None else largest):
            break
        found.append(run)
    return found
