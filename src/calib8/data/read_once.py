"""Data that can be read once, for commands that open their data several times: read once, kept for each.

A generator, ONNX Runtime's calibration reader and a shuffling loader give their samples once, or each time in
another order. Every opening of a ``ReadOnce`` gives the same samples; further ones are taken as they are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from calib8.data.reading import Reading
from calib8.data.samples import Dataset, OpenableData, Pending
from calib8.data.streams import comes_once
from calib8.tensors import TensorSpec


def for_several_openings(reading: Reading) -> Reading:
    """The reading, where ``opened`` gives the same samples however often it is called.

    Data that can be read again stay as they are. Those that can be read once go through the preprocessing,
    ``input_map`` and ``transform`` of the first opening; later ones may ask for another number of samples.
    """
    return replace(reading, data=ReadOnce(reading.data)) if comes_once(reading.data) else reading


class ReadOnce(OpenableData):
    """Data that can be read once, whose samples are kept."""

    def __init__(self, data: Any) -> None:
        """Takes data for which ``comes_once`` holds; nothing is read yet."""
        self._data = data
        self._all: Dataset | None = None

    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """The first ``reading.samples`` samples; see the base."""
        if self._all is None:
            self._all = replace(reading, data=self._data, samples=None).opened(inputs)
        every, samples = self._all, reading.samples

        def pending() -> Iterator[Pending]:
            return islice(every.pending(), samples)

        return replace(every, pending=pending, skipped=[])
