"""Objects that open themselves where data are given: data on other machines, parts of what is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calib8.data.samples import Dataset
from calib8.tensors import TensorSpec

if TYPE_CHECKING:
    from calib8.data.reading import Reading


class OpenableData(ABC):
    """Base of the objects that stand for data, wherever these are given."""

    @abstractmethod
    def opened(self, inputs: Sequence[TensorSpec], reading: Reading) -> Dataset:
        """The samples for the inputs of a model; with ``elsewhere`` set those here may be some of all.

        Args:
            inputs: those of the model.
            reading: how they are read; its ``data`` are this object.

        Raises:
            Calib8Error: what can be wrong with data or options.
        """
